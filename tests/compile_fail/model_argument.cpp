// expect: a type is not a model: write `struct net
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

// A linear layer of PyTorch has two numbers. After the compiler's own error the base class is gone.
#ifdef GPIPE_FAIL
struct net : model<input<float, 64>, linear<64, 32>, gelu, softmax_cross_entropy> {};
#else
struct net : model<input<float, 64>, linear<32>, gelu, softmax_cross_entropy> {};
#endif
trainer<net, adamw> training(plan_options{});
