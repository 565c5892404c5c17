#pragma once

// The structure of the decoders of GPT-2's and LLaMA's families, and what their layers cost.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>

#include "layers.hpp"

namespace example {

using namespace gpipe;

/// A decoder: an embedding, equal blocks of causal attention and a feed-forward layer, a norm, and a head.
struct decoder {
  std::string family;  ///< such as "llama"
  std::int64_t blocks = 0, width = 0, heads = 0, key_heads = 0, head_width = 0, hidden = 0, vocabulary = 0;
  std::int64_t positions = 0;  ///< the longest text, in tokens
  std::int64_t window = 0;     ///< tokens that a token sees; 0: all before it
  bool gated = false;          ///< three products in the feed-forward layer, and norms without biases
  bool has_biases = false;     ///< in every product
  bool has_query_biases = false;
  bool has_position_table = false;

  std::int64_t queries() const { return heads * head_width; }
  std::int64_t keys() const { return key_heads * head_width; }
};

/// Bytes of a parameter in training with Adam in mixed precision: bf16, a float32 gradient, a float32 copy, two
/// moments.
inline constexpr std::int64_t bytes_of_parameter = 2 + 4 + 4 + 8;

/// Counts operations and bytes of a layer of a decoder, and what they take in bf16 on a device.
///
///     a product of `in` by `out`   2 rows in out operations, three times: forward, gradient of the input, of the
///     weight attention                    2 x 2 operations for each pair of tokens that see each other and each
///     channel of a
///                                  head; backward 2.5 times: the kernel makes the scores again
///     everything else              the bytes that it reads and writes; backward 1.5 times
class decoder_costs {
 public:
  /// A micro-batch has `samples` texts of `tokens` tokens.
  decoder_costs(const decoder& of, std::int64_t samples, std::int64_t tokens, const device_spec& on)
      : of_(of), samples_(samples), tokens_(tokens), rows_(samples * tokens), on_(on) {}

  framework_layers layers(const std::string& title) {
    framework_layers made{title, {}, {}, {}};
    const std::int64_t d = of_.width;
    embedding();
    take(made, layer_role::embedding, "embedding", 8);
    for (std::int64_t b = 0; b < of_.blocks; ++b) {
      block();
      take(made, layer_role::block, "block" + std::to_string(b), kept_of_block());
    }
    norm();
    take(made, layer_role::norm, "norm", 2 * d);
    head();
    take(made, layer_role::head, "head", 2 * d + 6 * of_.vocabulary);
    made.lines.back().output_bytes = 0;
    return made;
  }

 private:
  static std::int64_t product_of(std::initializer_list<std::int64_t> factors) {
    std::int64_t all = 1;
    for (const std::int64_t f : factors) all = gpipe::detail::multiplied(all, f);
    return all;
  }
  std::int64_t time(std::int64_t flops, std::int64_t bytes, std::int64_t attention = 0) const {
    const counted_shares by = on_.shares(dtype::bf16);
    return gpipe::detail::kernel_time({flops, bytes, attention, by.product, by.attention}, 1, dtype::bf16, on_);
  }

  void product(std::int64_t in, std::int64_t out, bool bias) {
    const std::int64_t each =
        time(product_of({2, rows_, in, out}), gpipe::detail::summed(product_of({2, rows_, in + out}), 2 * in * out));
    sum_.forward += each;
    sum_.backward_input += each;
    sum_.backward_parameters += each;
    parameters_ += in * out + (bias ? out : 0);
  }
  void moves(std::int64_t bytes_of_row) {
    sum_.forward += time(0, product_of({rows_, bytes_of_row}));
    sum_.backward_input += time(0, product_of({rows_, bytes_of_row / 2, 3}));
  }
  void norm() {
    moves(2 * 2 * of_.width);
    parameters_ += of_.width * (of_.gated ? 1 : 2);
  }
  void attention() {
    const std::int64_t seen = of_.window > 0 ? std::min(of_.window, tokens_) : tokens_;
    const std::int64_t pairs = product_of({seen, tokens_}) - product_of({seen, seen}) / 2;
    const std::int64_t flops = product_of({samples_, 4, pairs, of_.queries()});
    const std::int64_t bytes = product_of({rows_, 2, 2 * of_.queries() + 2 * of_.keys()});
    sum_.forward += time(flops, bytes, flops);
    sum_.backward_input += time(product_of({flops / 2, 5}), product_of({bytes, 2}), product_of({flops / 2, 5}));
  }

  void embedding() {
    moves(2 * 2 * of_.width);
    parameters_ += of_.vocabulary * of_.width + (of_.has_position_table ? of_.positions * of_.width : 0);
  }
  void block() {
    const std::int64_t d = of_.width, f = of_.hidden;
    norm();
    product(d, of_.queries() + 2 * of_.keys(), of_.has_biases || of_.has_query_biases);
    attention();
    product(of_.queries(), d, of_.has_biases);
    moves(3 * 2 * d);  // the sum with the input
    norm();
    product(d, of_.gated ? 2 * f : f, of_.has_biases);
    moves((of_.gated ? 3 : 2) * 2 * f);  // the activation
    product(f, d, of_.has_biases);
    moves(3 * 2 * d);
  }
  /// A token keeps the inputs of both norms, their outputs, queries, keys and values, attention's output and a float32
  /// for each head, and what the feed-forward layer makes between its products.
  std::int64_t kept_of_block() const {
    return 2 * (4 * of_.width + 2 * of_.queries() + 2 * of_.keys() + (of_.gated ? 3 : 2) * of_.hidden) + 4 * of_.heads;
  }
  void head() {
    product(of_.width, of_.vocabulary, false);
    moves(6 * of_.vocabulary);  // the loss: reads bf16, keeps float32
  }

  void take(framework_layers& made, layer_role role, std::string name, std::int64_t kept_of_row) {
    const layer_cost ns{sum_.forward / 1000, sum_.backward_input / 1000, sum_.backward_parameters / 1000};
    made.add(role,
             {std::move(name), ns.forward, ns.backward_input + ns.backward_parameters,
              product_of({parameters_, bytes_of_parameter}), product_of({rows_, kept_of_row}),
              product_of({rows_, 2, of_.width})},
             ns);
    const table_layer& line = made.lines.back();
    bytes_ = gpipe::detail::summed(bytes_, gpipe::detail::summed(line.parameter_bytes, line.activation_bytes));
    sum_ = {};
    parameters_ = 0;
  }

  const decoder& of_;
  std::int64_t samples_, tokens_, rows_;
  const device_spec& on_;
  layer_cost sum_;  // ps, of the layer so far
  std::int64_t parameters_ = 0;
  std::int64_t bytes_ = 0;  // of all layers, which must not exceed 64 bits
};

}  // namespace example
