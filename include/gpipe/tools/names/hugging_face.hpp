#pragma once

#include <string>

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
GPIPE_COLD inline name_map hugging_face_gpt2(const std::string& prefix = "") {
  name_map names{.ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},  // masks
                 .prefixes = {prefix, "", "transformer."},
                 .tied_once = true};
  const auto linear = [&](const std::string& in_file, const std::string& weight, const std::string& bias) {
    names.rules.push_back({.file = {in_file + ".weight"}, .model = weight, .transposed = true});
    names.rules.push_back({.file = {in_file + ".bias"}, .model = bias});
  };
  linear("h.*.attn.c_attn", "h.*.attn.in_proj_weight", "h.*.attn.in_proj_bias");
  linear("h.*.attn.c_proj", "h.*.attn.out_proj.weight", "h.*.attn.out_proj.bias");
  for (const char* first : {"h.*.mlp.linear1", "h.*.mlp.0", "h.*.mlp.c_fc"})
    linear("h.*.mlp.c_fc", std::string(first) + ".weight", std::string(first) + ".bias");
  for (const char* second : {"h.*.mlp.linear2", "h.*.mlp.2", "h.*.mlp.c_proj"})
    linear("h.*.mlp.c_proj", std::string(second) + ".weight", std::string(second) + ".bias");
  names.rules.push_back({.file = {"lm_head.*"}, .model = "lm_head.*", .prefixed = false});
  return names;
}

}  // namespace gpipe
