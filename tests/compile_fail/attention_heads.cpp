// expect: attention_options..heads. must be at least 1 and divide the width of the input
// expect: heads_divide_width<gpipe::attention<.*width<8>, gpipe::broken::heads<3>, false>
// errors: 1
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int heads = 3;
#else
constexpr int heads = 4;
#endif
struct net : model<input<float, 5, 8>, attention<attention_options{.heads = heads}>> {};
constexpr int layers = layers_of<net>;
