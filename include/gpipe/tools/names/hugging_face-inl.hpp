#pragma once

#include <string>

#include <gpipe/tools/names/hugging_face.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE name_map hugging_face_gpt2(const std::string& prefix) {
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
