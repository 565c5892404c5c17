#pragma once

#include <array>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe::detail {

// The four projections of an attention: of queries, keys, values, and of the heads' output.

/// Their parameters, as in torch.nn.MultiheadAttention: one weight for queries, keys and values, whose rows are stacked
/// in this order; three weights if the keys' input has another width. `of_x` is the parameter's index.
template <attention_options Options, int Width, int KeyWidth, attention_extents Heads, bool Bias = Options.bias,
          bool Stacked = Width == KeyWidth>
struct attention_parameters;

template <attention_options Options, int Width, attention_extents Heads>
struct attention_parameters<Options, Width, Width, Heads, true, true> {
  static constexpr int of_queries = 0, of_keys = 0, of_values = 0, in_bias = 1, of_heads = 2, out_bias = 3;
  static constexpr parameter parameters[] = {
      {"in_proj_weight", {Heads.queries() + 2 * Heads.keys(), Width}, with_inputs(Options.in_proj, Width)},
      {"in_proj_bias", {Heads.queries() + 2 * Heads.keys()}},
      {"out_proj_weight", {Width, Heads.queries()}, with_inputs(Options.out_proj, Heads.queries()), "out_proj.weight"},
      {"out_proj_bias", {Width}, initializer::zeros(), "out_proj.bias"}};
};
template <attention_options Options, int Width, attention_extents Heads>
struct attention_parameters<Options, Width, Width, Heads, false, true> {
  static constexpr int of_queries = 0, of_keys = 0, of_values = 0, in_bias = -1, of_heads = 1, out_bias = -1;
  static constexpr parameter parameters[] = {
      {"in_proj_weight", {Heads.queries() + 2 * Heads.keys(), Width}, with_inputs(Options.in_proj, Width)},
      {"out_proj_weight", {Width, Heads.queries()}, with_inputs(Options.out_proj, Heads.queries()), "out_proj.weight"}};
};
template <attention_options Options, int Width, int KeyWidth, attention_extents Heads>
struct attention_parameters<Options, Width, KeyWidth, Heads, true, false> {
  static constexpr int of_queries = 0, of_keys = 1, of_values = 2, in_bias = 3, of_heads = 4, out_bias = 5;
  static constexpr parameter parameters[] = {
      {"q_proj_weight", {Heads.queries(), Width}, with_inputs(Options.in_proj, Width)},
      {"k_proj_weight", {Heads.keys(), KeyWidth}, with_inputs(Options.in_proj, KeyWidth)},
      {"v_proj_weight", {Heads.keys(), KeyWidth}, with_inputs(Options.in_proj, KeyWidth)},
      {"in_proj_bias", {Heads.queries() + 2 * Heads.keys()}},
      {"out_proj_weight", {Width, Heads.queries()}, with_inputs(Options.out_proj, Heads.queries()), "out_proj.weight"},
      {"out_proj_bias", {Width}, initializer::zeros(), "out_proj.bias"}};
};
template <attention_options Options, int Width, int KeyWidth, attention_extents Heads>
struct attention_parameters<Options, Width, KeyWidth, Heads, false, false> {
  static constexpr int of_queries = 0, of_keys = 1, of_values = 2, in_bias = -1, of_heads = 3, out_bias = -1;
  static constexpr parameter parameters[] = {
      {"q_proj_weight", {Heads.queries(), Width}, with_inputs(Options.in_proj, Width)},
      {"k_proj_weight", {Heads.keys(), KeyWidth}, with_inputs(Options.in_proj, KeyWidth)},
      {"v_proj_weight", {Heads.keys(), KeyWidth}, with_inputs(Options.in_proj, KeyWidth)},
      {"out_proj_weight", {Width, Heads.queries()}, with_inputs(Options.out_proj, Heads.queries()), "out_proj.weight"}};
};

/// y = x W^T + b, W {n, k} packed; `Bias` is the index of the parameter with b from element `first` on, or -1, and
/// `Rounded` the index of the derived buffer with b's rounded copy (see multiply_plus_bias).
template <int Bias, int Rounded, class C, class A, class T>
void project(const C& c, const A& a, int rows, int n, int k, const T* x, const T* packed, int first, T* y) {
  const T* rounded = a.template derived<Rounded>();
  if constexpr (Bias >= 0)
    multiply_plus_bias(c, rows, n, k, x, packed, a.template parameter<Bias>() + first, rounded, y);
  else c.multiply(rows, n, k, x, packed, y, false);
}

/// The same with b, or null, and its rounded copy.
template <class C, class T>
void project(const C& c, int rows, int n, int k, const T* x, const T* packed, const compute_type<T>* bias,
             const T* rounded, T* y) {
  if (bias != nullptr) multiply_plus_bias(c, rows, n, k, x, packed, bias, rounded, y);
  else c.multiply(rows, n, k, x, packed, y, false);
}

/// The gradient of one projection's parameters: dW += dy^T x, db += the sum of dy over rows.
template <class T>
struct projection_gradient {
  const T *dy, *x;
  int n, k, rows;                 ///< dy is rows x n, x rows x k; rows of a sample
  compute_type<T>*weight, *bias;  ///< bias: null if there is none
};
template <class T>
struct row_entries {
  const T* values;
  int width;
  GPIPE_HOST_DEVICE compute_type<T> operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return values[row * width + column];
  }
};

template <class C, class T, std::size_t Count>
void add_gradients(const C& c, int samples, const std::array<projection_gradient<T>, Count>& projections) {
  for (const auto& p : projections) {
    c.multiply_transposed(p.n, p.k, samples * p.rows, p.dy, p.x, p.weight);
    if (p.bias) c.columns(std::ptrdiff_t{samples} * p.rows, p.n, row_entries<T>{p.dy, p.n}, p.bias);
  }
}

/// The same for several micro-batches, with the same bits: dW is read and written once. `projections[m]` belongs to
/// micro-batch m, which has `samples` samples; the last one has `last_samples`.
template <class C, class T, std::size_t Count>
void add_gradients(const C& c, int samples, int last_samples, int micro_batches,
                   const std::array<projection_gradient<T>, Count>* projections) {
  for (std::size_t i = 0; i < Count; ++i) {
    const projection_gradient<T>& p = projections[0][i];
    row_parts<T> dy{{}, samples * p.rows}, x = dy;
    for (int m = 0; m < micro_batches; ++m) dy.part[m] = projections[m][i].dy, x.part[m] = projections[m][i].x;
    c.multiply_transposed(p.n, p.k, (samples * (micro_batches - 1) + last_samples) * p.rows, dy, x, p.weight);
    for (int m = 0; p.bias && m < micro_batches; ++m)
      c.columns(std::ptrdiff_t{m + 1 < micro_batches ? samples : last_samples} * p.rows, p.n,
                row_entries<T>{dy.part[m], p.n}, p.bias);
  }
}

}  // namespace gpipe::detail
