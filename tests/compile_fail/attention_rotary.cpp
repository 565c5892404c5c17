// expect: attention_options..rotary. must be above 1 and turns pairs of elements, so the width of a head must be even
// expect: rotary_turns_pairs<gpipe::attention<.*head_width<3>, false>
// errors: 1
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int head_width = 3;
#else
constexpr int head_width = 4;
#endif
struct net
    : model<input<float, 5, 8>, attention<attention_options{.heads = 2, .head_width = head_width, .rotary = 10000}>> {};
constexpr int layers = layers_of<net>;
