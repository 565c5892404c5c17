#pragma once

// The model of examples/translate.cpp.

#include <gpipe/model/encoder_decoder.hpp>

namespace example {

inline constexpr int all_pieces = 6000;  // of the vocabulary of all languages

/// The paper's T(L, H, A), with a vocabulary and a width that two cores can train, for texts of some length.
template <int Length>
using by_pieces = gpipe::encoder_decoder<2, 768, 3,
                                         gpipe::encoder_decoder_options{.source_tokens = Length,
                                                                        .vocabulary = all_pieces,
                                                                        .width = 192,
                                                                        .dropout = 10,
                                                                        .smoothing = 0.1,
                                                                        .depth_scaled = true,
                                                                        .final_norms = true}>;

}  // namespace example
