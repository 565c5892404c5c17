// expect: no gradient flows back to a layer with parameters
// expect: gradient_flows_back<gpipe::broken::position<0>, gpipe::detail::letters<'l', 'i', 'n', 'e', 'a', 'r', '<',
// expect: '8', '>'>, false>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct tokens {
  template <class In>
  struct on {
    using output = tensor<std::int32_t, 8>;
  };
};
// Tokens may be made from data, but not from the output of a layer with parameters: it would never be trained.
#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, linear<8>, tokens, embedding<16, 4>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 8>, tokens, embedding<16, 4>, softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
