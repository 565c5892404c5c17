// expect: gpipe: token_head<Vocabulary, ...> has three options: no_bias, slices<N>, and one of
// errors: 1
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
using option = mean_squared_error;
#else
using option = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>;
#endif
static_assert(gpipe::detail::bound<token_head<9, no_bias, option>, tensor<float, 8>>::parameters.size() == 1);
