#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/normalization/batch_norm_kernels.hpp>

namespace gpipe {

/// Batch normalization of each channel (Ioffe, Szegedy, 2015) in a pipeline (Huang et al., 2019). Training uses the
/// statistics of the micro-batch; evaluation uses moving averages of the statistics of whole mini-batches.
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = weight r (dy - mean of dy - h mean of dy h)
///     average += momentum (value of the mini-batch - average), when a step is committed
///
/// A channel is an index of the first extent, as in PyTorch: in feature_map<T, C, H, W> and in tensor<T, C, H, W> a
/// mean is over samples, H and W; in tensor<T, C> each feature is a channel. Weight {C} and bias {C}. State: the
/// averages, "mean" {C} and "variance" {C}. Normalization uses the biased variance, the average the unbiased one,
/// unless the settings say otherwise. Samples count equally, whatever their weights in the loss. A channel with one
/// element has variance 0; an unbiased average does not change then.
///
///     batch_norm_with<batch_statistics{.epsilon = 1e-3, .momentum = 0.0003}>       AmoebaNet's
template <batch_statistics Settings = batch_statistics{}>
struct batch_norm_with {
  static_assert(0 <= Settings.momentum && Settings.momentum <= 1,
                "gpipe: batch_norm: the averages' step, momentum or PerMille / 1000, must be in 0 ... 1");
  static_assert(Settings.epsilon > 0, "gpipe: batch_norm: epsilon, or Millionths / 1e6, must be above 0");

  template <class In>
  struct on;

  /// In images of some size, backward's input part keeps its sums for the parameter part.
  template <class number, int C, bool Shares>
  struct shared_sums {};
  template <class number, int C>
  struct shared_sums<number, C, true> {
    static constexpr buffer backward_extras[] = {
        {"sums", 2 * std::size_t{C}, dtype_of<number>, true}};  // of dy h, then of dy
  };

  /// For an edge whose samples have `Rows` rows of the channels each; a channel of a row has `Inner` elements.
  template <class Edge, int Rows, int Inner>
  struct of_channels : of_kind<on<Edge>, detail::batch_norm_kernels<typename Edge::value_type, Inner == 1>>,
                       shared_sums<compute_type<typename Edge::value_type>, Edge::extents[0], (Rows >= 64)> {
    using output = Edge;
    using T = typename Edge::value_type;
    static constexpr int C = Edge::extents[0];
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr typename of_channels::numbers sizes{{C, Inner}, Rows, Rows >= 64, Settings};

    static constexpr parameter parameters[] = {{"weight", {C}, initializer::ones()}, {"bias", {C}}};
    static constexpr parameter state[] = {{"mean", {C}, initializer::zeros(), "running_mean"},
                                          {"variance", {C}, initializer::ones(), "running_var"}};
    static constexpr partial partials[] = {{"mean", C}, {"squares", C}, "count"};  // squares of distances from the mean
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .backward_parameters = Rows >= 64 ? 2 * C : 5 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };

  template <class T, int C, int... Extents>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, C, Extents...>>
      : of_channels<tensor<T, C, Extents...>, 1, static_cast<int>(tensor<T, C, Extents...>::size) / C> {
  };

  // A pixel is a sample whose features are the channels.
  template <class T, int C, int H, int W>
  requires(detail::is_floating(dtype_of<T>)) struct on<feature_map<T, C, H, W>>
      : of_channels<feature_map<T, C, H, W>, H * W, 1> {
  };
};

/// The same with the settings in whole numbers: momentum = `PerMille` / 1000, epsilon = `Millionths` / 1e6.
template <int PerMille = 100, int Millionths = 10>
struct batch_norm : batch_norm_with<batch_statistics{.epsilon = Millionths * 1e-6, .momentum = PerMille / 1000.0}> {};

}  // namespace gpipe
