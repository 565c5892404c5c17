#pragma once

// Reads the config.json of a model of Hugging Face: the decoders of GPT-2's and LLaMA's families.

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>
#include <gpipe/record/file/read_file.hpp>

#include "decoder.hpp"

namespace example {

using namespace gpipe;

/// The fields of a config.json.
class config_file {
 public:
  explicit config_file(std::string path) : path_(std::move(path)) {
    const std::string text = gpipe::read_file(path_);
    gpipe::detail::json_reader json(text, "the config", path_);
    json.object([&](const std::string& key) { fields_[key] = json.value(); });
    json.end();
  }

  /// A word without its quotes.
  std::string word(const std::string& name) const {
    const std::string text = text_of(name);
    if (text.size() < 2 || text.front() != '"') fail(name + " is " + text, "give a word in quotes");
    return text.substr(1, text.size() - 2);
  }
  std::int64_t number(const std::string& name, std::int64_t max) const {
    const std::string text = text_of(name);
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || end != text.data() + text.size() || value < 1 || value > max)
      fail(name + " is " + text.substr(0, 80), "give a whole number from 1 to " + std::to_string(max));
    return value;
  }
  /// Likewise; the other value where the field is missing or null.
  std::int64_t number(const std::string& name, std::int64_t max, std::int64_t otherwise) const {
    return has(name) ? number(name, max) : otherwise;
  }
  bool flag(const std::string& name, bool otherwise) const {
    if (!has(name)) return otherwise;
    const std::string text = text_of(name);
    if (text != "true" && text != "false") fail(name + " is " + text.substr(0, 80), "give true or false");
    return text == "true";
  }
  bool has(const std::string& name) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->second != "null";
  }

  bool is_null(const std::string& name) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->second == "null";
  }

  [[noreturn]] void fail(const std::string& wrong, const std::string& remedy) const {
    throw error(wrong, remedy, {.file = path_});
  }

 private:
  std::string text_of(const std::string& name) const {
    if (!has(name)) fail(name + " is missing", "give the config.json of a whole model");
    return fields_.at(name);
  }

  std::string path_;
  std::map<std::string, std::string> fields_;
};

/// The decoder that a config.json describes.
inline decoder decoder_of(const std::string& path) {
  constexpr std::int64_t wide = 1 << 20, long_text = 1 << 28, deep = 10'000;
  const config_file config(path);
  decoder made;
  made.family = config.word("model_type");
  const bool llama = made.family == "llama" || made.family == "mistral" || made.family == "qwen2";
  if (!llama && made.family != "gpt2")
    config.fail("model_type is \"" + made.family + "\", a family that is not known",
                "give a model of gpt2, llama, mistral or qwen2, or a table of measured costs with --costs");
  if (llama) {
    made.blocks = config.number("num_hidden_layers", deep);
    made.width = config.number("hidden_size", wide);
    made.heads = config.number("num_attention_heads", wide);
    made.key_heads = config.number("num_key_value_heads", wide, made.heads);
    made.hidden = config.number("intermediate_size", wide);
    made.positions = config.number("max_position_embeddings", long_text);
    made.gated = true;
    made.has_query_biases = made.family == "qwen2" || config.flag("attention_bias", false);
    constexpr std::int64_t window_of_mistral = 4096;  // where the field is missing; null: there is no window
    if (made.family == "mistral")
      made.window =
          config.is_null("sliding_window") ? 0 : config.number("sliding_window", long_text, window_of_mistral);
  } else {
    made.blocks = config.number("n_layer", deep);
    made.width = config.number("n_embd", wide);
    made.heads = config.number("n_head", wide);
    made.key_heads = made.heads;
    made.hidden = config.number("n_inner", wide, 4 * made.width);
    made.positions = config.number("n_positions", long_text);
    made.has_biases = true;
    made.has_position_table = true;
  }
  made.vocabulary = config.number("vocab_size", long_text);
  if (!config.has("head_dim") && made.width % made.heads != 0)
    config.fail("the width " + std::to_string(made.width) + " is no multiple of " + std::to_string(made.heads) +
                    " attention heads",
                "correct one of them, or give head_dim");
  made.head_width = config.number("head_dim", wide, made.width / made.heads);
  return made;
}

}  // namespace example
