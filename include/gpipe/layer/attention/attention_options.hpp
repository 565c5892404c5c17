#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/description.hpp>

namespace gpipe {

// change: an attention mask
// change: an operation on attention probabilities
/// The settings of `attention` and `cross_attention`: `attention<attention_options{.heads = 8, .causal = true}>`.
struct attention_options {
  int heads = 1;
  int key_heads = 0;    ///< heads of keys and values; each serves equally many neighbouring query heads; 0: `heads`
  int head_width = 0;   ///< 0: the width of the (first) input / heads
  bool causal = false;  ///< a token attends to itself and to earlier tokens only
  bool bias = true;     ///< of all projections
  /// The base of rotary positions (Su et al., 2021), such as 10000; 0: none. They turn pairs of elements half a head's
  /// width apart, as Hugging Face's Llama does.
  double_bits rotary = 0;
  /// The data's int32 field "lengths" has the number of valid keys per sample; they come first.
  bool padded = false;
  /// First values of the projections' weights; a fan_in of 0 means the number of the projection's inputs.
  initializer in_proj = initializer::uniform(0);
  initializer out_proj = initializer::uniform(0);
};

namespace broken {

template <int>
struct heads {};
template <int>
struct key_heads {};
template <int>
struct width {};
template <int>
struct head_width {};

template <class Layer, class Width, class Heads, bool Holds>
struct heads_divide_width {
  static_assert(
      Holds,
      "gpipe: attention_options{.heads} must be at least 1 and divide the width of the input: choose "
      "another number of heads, as in attention<attention_options{.heads = 8}> and causal_attention<8>, or give "
      ".head_width");
};
template <class Layer, class Heads, class KeyHeads, bool Holds>
struct key_heads_divide_heads {
  static_assert(Holds,
                "gpipe: attention_options{.key_heads} must be at least 1 and divide .heads, because each head of "
                "keys serves the same number of query heads");
};
template <class Layer, class HeadWidth, bool Holds>
struct rotary_turns_pairs {
  static_assert(Holds,
                "gpipe: attention_options{.rotary} must be above 1 and turns pairs of elements, so the width of a "
                "head must be even");
};

}  // namespace broken

namespace detail {

/// The default for missing options, which leads to the error about heads.
inline constexpr attention_options no_heads{.heads = 0};

/// The extents of an attention: columns of queries, and of keys or values.
struct attention_extents {
  int heads, key_heads, width;

  constexpr int queries() const { return heads * width; }
  constexpr int keys() const { return key_heads * width; }
};

constexpr bool heads_divide(const attention_options& o, int width) {
  return o.heads >= 1 && (o.head_width == 0 ? width % o.heads == 0 : o.head_width > 0);
}
constexpr bool key_heads_divide(const attention_options& o) {
  return o.key_heads == 0 || (o.key_heads >= 1 && o.heads % o.key_heads == 0);
}
/// The extents on rows of `width` elements.
constexpr attention_extents extents_of(const attention_options& o, int width) {
  if (!heads_divide(o, width) || !key_heads_divide(o)) return {1, 1, 2};  // the promises report it
  return {o.heads, o.key_heads == 0 ? o.heads : o.key_heads, o.head_width == 0 ? width / o.heads : o.head_width};
}
constexpr bool rotary_fits(const attention_options& o, int width) {
  return o.rotary == 0 || (o.rotary > 1 && extents_of(o, width).width % 2 == 0);
}

/// The promises of the options; the layer instantiates it. If heads do not divide, the other promises are silent.
template <class Layer, attention_options Options, int Width>
struct attention_promises {
  static constexpr bool divides = heads_divide(Options, Width), grouped = !divides || key_heads_divide(Options);
  using heads = broken::heads<Options.heads>;
  using key_heads = broken::key_heads<Options.key_heads>;
  using head_width = broken::head_width<extents_of(Options, Width).width>;
  static constexpr auto kept = sizeof(broken::heads_divide_width<Layer, broken::width<Width>, heads, divides>) +
                               sizeof(broken::key_heads_divide_heads<Layer, heads, key_heads, grouped>) +
                               sizeof(broken::rotary_turns_pairs<Layer, head_width, rotary_fits(Options, Width)>);
};

/// The number of pairs of a query and a key that it sees; causal: the last query sees the last key.
constexpr std::int64_t attended_pairs(bool causal, int queries, int keys) {
  if (!causal) return std::int64_t{queries} * keys;
  const std::int64_t seeing = queries < keys ? queries : keys;
  return seeing * (seeing + 1) / 2 + seeing * (keys - seeing);
}

constexpr initializer with_inputs(initializer first, int inputs) {
  if (first.fan_in == 0) first.fan_in = inputs;
  return first;
}

/// The field with the number of valid keys, or none.
template <bool Padded, int Keys>
struct length_field {};
template <int Keys>
struct length_field<true, Keys> {
  static constexpr field fields[] = {{"lengths", 1, dtype::int32, Keys + 1}};
  static constexpr int counts_tokens = 0;
};

/// The field with the number of valid keys, or null.
template <bool Padded, class A>
const std::int32_t* lengths_of(const A& a) {
  if constexpr (Padded) return a.template field<0, std::int32_t>();
  else return nullptr;
}

// change: an attention mask
/// The shape of an attention whose keys and values have the same strides.
inline attention_shape shape_of_attention(int samples, const attention_extents& heads, int queries, int keys,
                                          bool causal, const attention_shape::strides& q,
                                          const attention_shape::strides& kv, const attention_shape::strides& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(heads.width));
  return {samples, heads.heads, heads.key_heads, queries, keys, heads.width, causal, scale, q, kv, kv, o};
}

/// `projections`: the operations of all products with weights; `sums`: the operations of their biases' gradients;
/// `elements`: the numbers that forward moves.
template <class T, attention_options Options>
constexpr work cost_of_attention(const attention_extents& heads, int queries, int keys, std::int64_t projections,
                                 std::int64_t sums, std::int64_t elements) {
  const std::int64_t pairs = attended_pairs(Options.causal, queries, keys);
  const std::int64_t product = 2 * pairs * heads.queries(), softmax = 20 * pairs * heads.heads;
  const std::int64_t forward = 2 * product + softmax, backward = 5 * product + 2 * softmax;
  return {.forward = projections + forward,
          .backward_input = projections + backward,
          .backward_parameters = projections + sums,
          .bytes = static_cast<std::int64_t>(sizeof(T)) * elements,
          .kind = work_kind::product,
          .attention = forward,
          .attention_backward = backward};
}

/// The parameters of the four projections, of queries, keys, values and of the heads' output, as in
/// torch.nn.MultiheadAttention: one weight for queries, keys and values, whose rows are stacked in this order; three
/// weights if the keys' input has another width. `of_x` is the parameter's index.
template <attention_options Options, int Width, int KeyWidth, attention_extents Heads>
struct attention_parameters {
  static constexpr bool stacked = Width == KeyWidth;
  static constexpr int of_queries = 0, of_keys = stacked ? 0 : 1, of_values = stacked ? 0 : 2;
  static constexpr int in_bias = Options.bias ? of_values + 1 : -1, of_heads = of_values + (Options.bias ? 2 : 1),
                       out_bias = Options.bias ? of_heads + 1 : -1;
  static constexpr auto parameters = [] {
    constexpr int Q = Heads.queries(), K = Heads.keys();
    constexpr initializer in_proj = with_inputs(Options.in_proj, Width),
                          keys_in_proj = with_inputs(Options.in_proj, KeyWidth);
    std::array<parameter, std::size_t{of_heads + (Options.bias ? 2 : 1)}> list{};
    if (stacked) {
      list[0] = {"in_proj_weight", {Q + 2 * K, Width}, in_proj};
    } else {
      list[0] = {"q_proj_weight", {Q, Width}, in_proj};
      list[of_keys] = {"k_proj_weight", {K, KeyWidth}, keys_in_proj};
      list[of_values] = {"v_proj_weight", {K, KeyWidth}, keys_in_proj};
    }
    list[of_heads] = {"out_proj_weight", {Width, Q}, with_inputs(Options.out_proj, Q), "out_proj.weight"};
    if constexpr (Options.bias) {
      list[in_bias] = {"in_proj_bias", {Q + 2 * K}};
      list[out_bias] = {"out_proj_bias", {Width}, initializer::zeros(), "out_proj.bias"};
    }
    return list;
  }();
};

}  // namespace detail

}  // namespace gpipe
