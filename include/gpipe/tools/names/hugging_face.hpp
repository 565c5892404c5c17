#pragma once

#include <string>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>

namespace gpipe {

/// GPT-2 in the files of Hugging Face's transformers, which store the weights of linear layers transposed (Conv1D).
///
///     in the model                                        in the file
///     wte.weight  wpe.weight                              the same: embeddings of tokens and positions
///     h.*.ln_1.weight .bias  h.*.ln_2.weight .bias        the same
///     h.*.attn.in_proj_weight                             h.*.attn.c_attn.weight, transposed
///     h.*.attn.in_proj_bias                               h.*.attn.c_attn.bias: queries, keys, values
///     h.*.attn.out_proj.weight                            h.*.attn.c_proj.weight, transposed
///     h.*.attn.out_proj.bias                              h.*.attn.c_proj.bias
///     h.*.mlp.linear1.weight .bias  (or 0, or c_fc)       h.*.mlp.c_fc.weight, transposed  .bias
///     h.*.mlp.linear2.weight .bias  (or 2, or c_proj)     h.*.mlp.c_proj.weight, transposed  .bias
///     ln_f.weight .bias                                   the same
///     lm_head.weight                                      the same, never prefixed; it may be missing if it is tied
///
/// If the file's folder has a config.json of a GPT-2, its settings must be the model's. A load takes names with and
/// without "transformer."; a save writes `prefix`: "" as the published files of GPT-2, or "transformer." as
/// GPT2LMHeadModel does. For a model with other names, change the returned rules.
name_map hugging_face_gpt2(const std::string& prefix = "");

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/names/hugging_face-inl.hpp>
#endif
