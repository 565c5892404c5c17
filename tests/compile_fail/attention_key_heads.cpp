// expect: attention_options..key_heads. must be at least 1 and divide .heads
// expect: key_heads_divide_heads<gpipe::cross_attention<.*broken::heads<4>, gpipe::broken::key_heads<3>, false>
// errors: 1
#include <gpipe/layer/attention/cross_attention.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int key_heads = 3;
#else
constexpr int key_heads = 2;
#endif
struct net : model<input<float, 5, 8>, stash<"memory">, linear<8>, pop<"memory">,
                   cross_attention<attention_options{.heads = 4, .key_heads = key_heads}>> {};
constexpr int layers = layers_of<net>;
