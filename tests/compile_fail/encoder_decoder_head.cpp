// expect: gpipe: encoder_decoder: a head is tied to the table of words, or cut into slices, not both
#include <gpipe/model/encoder_decoder.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr encoder_decoder_options options{.tied_head = true, .head_slices = 2};
#else
constexpr encoder_decoder_options options{.head_slices = 2};
#endif
static_assert(network_of<encoder_decoder<2, 64, 2, options>>.parameters() > 0);
