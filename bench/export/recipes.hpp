#pragma once

// Layouts of public recipes, and the costs of the models that they are for.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/plan/cost/device_spec.hpp>

#include "../../examples/plan/export/decoder.hpp"
#include "../../examples/plan/export/framework.hpp"

namespace bench {

using namespace gpipe;

/// A recipe of NVIDIA-NeMo/Megatron-Bridge at 067f987d (22 August 2026), or of the documentation of Megatron-LM.
struct recipe {
  const char* name;
  const char* model;
  int ranks, chunks, micro_batches;
  const char* layout;
  const char* source;
};

/// Micro-batches are those of the recipe's batch and ranks, but at most 128, with which bubbles are as small.
inline constexpr recipe recipes[] = {
    {"llama3_70b", "llama3_70b", 8, 5, 128, "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", "perf_recipes/llama/h100/llama3.py"},
    {"llama31_405b", "llama31_405b", 8, 2, 128, "Et*7|(t*8|)*14t*7L",
     "recipes/llama/h100/llama3.py: embedding and loss count as blocks"},
    {"qwen3_235b", "qwen3_235b", 16, 1, 128, "Et*5|(t*6|)*14t*5L",
     "recipes/qwen/h100/qwen3_moe.py: embedding and loss count as blocks"},
    {"deepseek_v3.docs", "deepseek_v3", 16, 2, 128, "Et*3|(tt|)*29,m|L",
     "Megatron-LM: docs/user-guide/features/pipeline_parallel_layout.md"},
    {"deepseek_v3.h100", "deepseek_v3", 8, 4, 128, "Et|(tt|)*30mL", "perf_recipes/deepseek/h100/deepseek_v3.py"},
    {"deepseek_v3.gb300", "deepseek_v3", 4, 4, 64, "Et*4|(t*4|)*14tmL", "perf_recipes/deepseek/gb300/deepseek_v3.py"},
    {"deepseek_v3.8x1", "deepseek_v3", 8, 1, 128, "Et*8|(t*8|)*6t*5mL", "recipes/deepseek/h100/deepseek_v3.py"},
    {"kimi_k2.h100", "kimi_k2", 16, 2, 128, "Et|(tt|)*30L", "perf_recipes/kimi/h100/kimi_k2.py"},
    {"kimi_k2.16x1", "kimi_k2", 16, 1, 128, "Et*4|(t*4|)*14tL", "recipes/kimi/h100/kimi_k2.py"},
};

/// The roles of a layout's stages, such as "Ett" and "tL". Reads the language as Megatron-Core does: commas are
/// nothing, then `(...)*n` is written out, then `x*n`.
inline std::vector<std::string> stages_of(std::string_view layout) {
  std::string open, text;
  const auto number = [](std::string_view& rest) {
    std::size_t n = 0;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      n = 10 * n + static_cast<std::size_t>(rest[0] - '0');
      rest.remove_prefix(1);
    }
    return n;
  };
  const auto repeat = [&](std::string_view from, bool groups) {
    std::string made;
    while (!from.empty()) {
      const std::size_t length = groups && from[0] == '(' ? from.find(')') + 1 : 1;
      const std::string_view unit = length > 1 ? from.substr(1, length - 2) : from.substr(0, 1);
      from.remove_prefix(length);
      std::size_t times = 1;
      if ((!groups || length > 1) && from.substr(0, 1) == "*") {
        from.remove_prefix(1);
        times = number(from);
      }
      for (std::size_t i = 0; i < times; ++i) made += unit;
    }
    return made;
  };
  for (const char c : layout)
    if (c != ',') open += c;
  text = repeat(repeat(open, true), false);
  std::vector<std::string> stages(1);
  for (const char c : text)
    if (c == '|') stages.emplace_back();
    else stages.back() += c;
  return stages;
}

/// A mixture of experts with the attention of DeepSeek-V3 or of LLaMA, by its operations alone: products of a token
/// that the token takes part in, and attention. The head is computed again for each prediction of further tokens.
struct mixture {
  std::int64_t dense, blocks, width, dense_hidden, hidden, active, experts, vocabulary, tokens;
  std::int64_t attention_weights, scores_width;  ///< of the attention's products; channels of scores and values
  int predictions;
};

inline example::framework_layers layers_of(const mixture& m) {
  example::framework_layers made{"mixture", {}, {}, {}};
  const auto add = [&](example::layer_role role, std::int64_t weights, bool attends) {
    const std::int64_t products = 2 * weights * m.tokens;
    const std::int64_t attention = attends ? m.tokens * m.tokens * m.scores_width : 0;  // half of the pairs
    const auto ns = [](std::int64_t flops) { return flops / 593'400; };                 // as an H100's products
    const layer_cost cost{ns(products + attention), ns(products + attention / 2 * 5), ns(products)};
    made.add(role, {"", cost.forward, cost.backward_input + cost.backward_parameters, 0, 0, 0}, cost);
  };
  const std::int64_t block = m.attention_weights + m.active * 3 * m.width * m.hidden + m.width * m.experts;
  add(example::layer_role::embedding, 0, false);
  for (std::int64_t b = 0; b < m.blocks; ++b)
    add(example::layer_role::block, b < m.dense ? m.attention_weights + 3 * m.width * m.dense_hidden : block, true);
  for (int p = 0; p < m.predictions; ++p) add(example::layer_role::prediction, block + 2 * m.width * m.width, true);
  add(example::layer_role::head, (1 + m.predictions) * m.width * m.vocabulary, false);
  return made;
}

/// The weights of DeepSeek-V3's attention: queries by rank 1536, keys and values by rank 512, 64 rotated channels,
/// heads of 128 + 64 and 128 channels (arXiv 2412.19437).
constexpr std::int64_t latent_attention(std::int64_t width, std::int64_t heads) {
  return width * 1536 + 1536 * heads * 192 + width * (512 + 64) + 512 * heads * 256 + heads * 128 * width;
}

inline example::framework_layers layers_of(std::string_view model) {
  if (model == "deepseek_v3")
    return layers_of(
        mixture{3, 61, 7168, 18432, 2048, 8 + 1, 256, 129280, 4096, latent_attention(7168, 128), 128 * (192 + 128), 1});
  if (model == "kimi_k2")
    return layers_of(
        mixture{1, 61, 7168, 18432, 2048, 8 + 1, 384, 163840, 4096, latent_attention(7168, 64), 64 * (192 + 128), 0});
  if (model == "qwen3_235b")
    return layers_of(mixture{0, 94, 4096, 0, 1536, 8, 128, 151936, 4096, 4096 * (64 + 4 + 4 + 64) * 128, 64 * 256, 0});
  example::decoder llama;
  const bool large = model == "llama31_405b";
  llama.blocks = large ? 126 : 80;
  llama.width = large ? 16384 : 8192;
  llama.heads = large ? 128 : 64;
  llama.hidden = large ? 53248 : 28672;
  llama.key_heads = 8;
  llama.head_width = 128;
  llama.vocabulary = 128256;
  llama.positions = large ? 131072 : 8192;
  llama.gated = true;
  return example::decoder_costs(llama, 1, llama.positions, h100).layers(std::string(model)).joined();
}

}  // namespace bench
