#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/parse_number.hpp>
#include <gpipe/core/text/type_name.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

/// The members of an object, each as its text: `"gelu_new"` with the quotes.
GPIPE_COLD inline std::map<std::string, std::string> members_of(const std::string& path, file_operations& files) {
  constexpr std::uint64_t max = std::uint64_t{1} << 20;
  const std::string text = read_json(path, "the config", max, "give the config of a model", files);
  std::map<std::string, std::string> members;
  json_reader json(text, "the config", path);
  json.object([&](const std::string& key) { members[key] = json.value(); });
  json.end();
  return members;
}

/// The activations of transformers that a layer computes; no text: the layer is none of these.
GPIPE_COLD inline std::string_view activations_of(std::string_view layer) {
  constexpr std::string_view feed_forward = "feed_forward<";
  if (layer.starts_with(feed_forward)) {
    const std::size_t comma = layer.find(", ");
    layer = comma == layer.npos ? "gelu" : without_namespace(layer.substr(comma + 2, layer.size() - comma - 3));
  }
  if (layer == "gelu") return "\"gelu_new\" \"gelu_pytorch_tanh\" \"gelu_fast\" \"gelu_accurate\"";
  if (layer == "relu") return "\"relu\"";
  if (layer == "silu") return "\"silu\" \"swish\"";
  return "";
}

/// The heads of an attention; 0: the layer is none.
GPIPE_COLD inline std::size_t heads_of(const layer_type& r) {
  for (int i = 0; i < r.extra_count; ++i)
    if (std::string_view(r.extras[i].name) == "log sums")
      return r.extras[i].size / static_cast<std::size_t>(r.out_extents[0].extents[0]);
  return 0;
}

/// The settings in a folder's config.json that change what a GPT-2 computes from the same arrays. A
/// setting that the file lacks has GPT2Config's default.
///
///     n_head                       the heads of every attention
///     activation_function          the function of every feed_forward, or gelu, relu or silu as a layer
///     layer_norm_epsilon           1e-5
///     scale_attn_weights, scale_attn_by_inverse_layer_idx    true, false: scores are divided by the root of the width
///
/// Throws if one of them differs from the model's, with both values. Ignores files of models other than GPT-2, and
/// layers of other kinds.
GPIPE_COLD inline void require_config(const network& net, const std::string& folder, file_operations& files) {
  const std::string path = folder + "/config.json";
  if (files.kind_of(path.c_str()) == file_operations::kind::none) return;
  const std::map<std::string, std::string> config = members_of(path, files);
  const auto setting = [&](const char* name, const char* otherwise) {
    const auto found = config.find(name);
    return found == config.end() ? std::string(otherwise) : found->second;
  };
  if (setting("model_type", "") != "\"gpt2\"") return;
  const auto refuse = [&](const char* name, const std::string& value, const auto& ours, int l) {
    throw_error({name, " is ", value, ", but the model has ", ours},
                {"give the model this setting, or take its arrays all the same with load_mode::partial"},
                {.file = path, .layer = std::string(net.type_of(l).name), .layer_index = l});
  };
  const auto number = [&](const std::string& text) {
    double value = -1;
    const auto end = parse_number(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc{} && end.ptr == text.data() + text.size() ? value : -1;
  };
  const std::string heads = setting("n_head", "12"), function = setting("activation_function", "\"gelu_new\""),
                    epsilon = setting("layer_norm_epsilon", "1e-5"), scaled = setting("scale_attn_weights", "true"),
                    by_layer = setting("scale_attn_by_inverse_layer_idx", "false");
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_type& r = net.type_of(l);
    if (const std::size_t ours = heads_of(r); ours != 0) {
      if (number(heads) != static_cast<double>(ours)) refuse("n_head", heads, ours, l);
      constexpr const char* scale = "1 / sqrt(width of a head)";
      if (scaled != "true") refuse("scale_attn_weights", scaled, scale, l);
      if (by_layer != "false") refuse("scale_attn_by_inverse_layer_idx", by_layer, scale, l);
    }
    if (const std::string_view ours = activations_of(r.name); !ours.empty() && ours.find(function) == ours.npos)
      refuse("activation_function", function, ours.substr(0, ours.find(' ')), l);
    if (r.name == "layer_norm" && !(std::fabs(number(epsilon) - 1e-5) <= 1e-12))
      refuse("layer_norm_epsilon", epsilon, "1e-5", l);
  }
}

}  // namespace gpipe::detail
