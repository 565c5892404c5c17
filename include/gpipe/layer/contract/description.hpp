#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe {

// change: an initializer
/// How a parameter's initial value is drawn; `random_key` lists the arguments of the random numbers.
///
///     constant   scale
///     uniform    in [-b, b),    b = scale / sqrt(fan_in)
///     normal     with deviation     scale / sqrt(fan_in)
///     xavier     in [-b, b),    b = scale sqrt(6 / (inputs + outputs))          (Glorot, Bengio, 2010)
///
/// A weight {out, in, ...} has in x ... inputs and out x ... outputs; so has a convolution's {..., in, out}, whose
/// rule sets `outputs_last`. `over_root(n)` divides by the square root of n:
///
///     ResNet, convolutions before a relu (He et al., 2015)    initializer::kaiming()
///     GPT-2, the layers that write to the residual of L blocks    initializer::deviation(0.02).over_root(2 * L)
///     Fixup, the first weight of a branch of L                initializer::xavier().over_root(L)  (the last: zeros)
struct initializer {
  enum class kind : std::uint8_t { zeros, ones, constant, uniform, normal, xavier };
  kind drawn = kind::zeros;
  int fan_in = 1;  ///< 0: the parameter's inputs; -1: its outputs
  double_bits scale = 1.0;
  int divisor = 1;            ///< its square root divides, too
  bool outputs_last = false;  ///< the weight is {..., in, out}

  static constexpr initializer zeros() { return {kind::zeros}; }
  static constexpr initializer ones() { return {kind::ones}; }
  static constexpr initializer constant(double value) { return {kind::constant, 1, value}; }
  static constexpr initializer uniform(int fan_in, double scale = 1.0) { return {kind::uniform, fan_in, scale}; }
  static constexpr initializer normal(int fan_in, double scale = 1.0) { return {kind::normal, fan_in, scale}; }
  static constexpr initializer deviation(double value) { return {kind::normal, 1, value}; }
  /// Deviation sqrt(2 / outputs).
  static constexpr initializer kaiming() { return {kind::normal, -1, 1.4142135623730951}; }
  static constexpr initializer xavier(double scale = 1.0) { return {kind::xavier, 1, scale}; }
  constexpr initializer over_root(int n) const { return {drawn, fan_in, scale, divisor * n, outputs_last}; }
  constexpr initializer with_outputs_last(bool last = true) const { return {drawn, fan_in, scale, divisor, last}; }

  /// The rule without values that depend on the parameter's extents.
  constexpr initializer of(const detail::shape& extents) const {
    const auto extent = [&](int i) {
      return i >= extents.rank ? 1 : extents.extents[outputs_last ? extents.rank - 1 - i : i];
    };
    const int outputs = extent(0), inputs = extent(1);
    int window = 1;
    for (int i = 2; i < extents.rank; ++i) window *= extent(i);
    constexpr double root_of_six = 2.449489742783178;
    if (drawn == kind::xavier) return {kind::uniform, (inputs + outputs) * window, scale * root_of_six, divisor};
    return {drawn, fan_in == 0 ? inputs * window : fan_in < 0 ? outputs * window : fan_in, scale, divisor};
  }
};

/// A persistent tensor of a layer, of the layer's element type: trained (`parameters`) or not (`state`).
/// `{"weight", {512, 64}, initializer::uniform(64)}`
struct parameter {
  const char* name = "";
  detail::shape extents{};
  initializer first = initializer::zeros();
  const char* other_name = "";  ///< its name in paths and files, if that is another one: "running_mean"

  constexpr const char* path_name() const { return *other_name != 0 ? other_name : name; }
};

/// The kernels that read a derived buffer: all, only forward (`predict` and `decode`, too), only backward's input part,
/// or only backward: its input part, and the parameter part where the input part does not run.
enum class read_by : std::uint8_t { all, forward, backward_input, backward };

/// Memory that a layer needs in addition to its edges. `size` counts elements: per sample, unless all samples of a
/// micro-batch share one; in total for buffers that are derived from the parameters after each commit (`derived`).
///
///     extras               forward ----------------------> backward
///     forward_workspace    forward
///     backward_extras                    backward's input part ---> its parameter part
///     workspace                          backward's input part
struct buffer {
  const char* name = "";
  std::size_t size = 0;
  dtype type = dtype::float32;
  bool shared = false;            ///< one for all samples of a micro-batch
  read_by reader = read_by::all;  ///< of a derived buffer

  /// Derived buffers that not all kernels read. Those for forward and for backward may be in the same memory, so
  /// `refresh` must write each only if `refreshes_for_forward()`, `refreshes_for_backward_input()` or
  /// `refreshes_for_backward()` is true.
  static constexpr buffer for_forward(const char* name, std::size_t size, dtype type) {
    return {name, size, type, false, read_by::forward};
  }
  static constexpr buffer for_backward_input(const char* name, std::size_t size, dtype type) {
    return {name, size, type, false, read_by::backward_input};
  }
  static constexpr buffer for_backward(const char* name, std::size_t size, dtype type) {
    return {name, size, type, false, read_by::backward};
  }

  constexpr std::size_t bytes(std::size_t samples) const {
    return detail::aligned(size * detail::bytes_of(type) * (shared ? 1 : samples));
  }
};

/// The rows of a prediction, if a layer makes some of its columns, and the rows of each sample that one call makes.
struct row_blocks {
  int rows = 1;   ///< of a sample
  int block = 1;  ///< a call has `samples x block` of the micro-batch's `samples x rows`
};

/// One or several numbers in double that forward returns for a micro-batch: `"loss"`, or `{"mean", 64}`.
struct partial {
  const char* name = "";
  std::size_t size = 1;

  constexpr partial() = default;
  constexpr partial(const char* label, std::size_t count = 1) : name(label), size(count) {}
};

/// The edges of a layer that backward reads again. The others may be overwritten after forward.
struct keep {
  bool input = false;
  bool output = false;
};

/// The value of `field::ignored` if no label is ignored.
inline constexpr std::int32_t no_label = (std::numeric_limits<std::int32_t>::min)();

/// A field of the data that a layer reads in addition to its input: `{"labels", 1, dtype::int32, 10}`.
struct field {  // its members have default values, because otherwise nvcc does not copy arrays of fields
  const char* name = "";
  std::size_t size = 0;  ///< elements per sample
  dtype type = dtype::float32;
  std::int64_t below = 0;           ///< integers must be in [0, below), floats in [0, below]; 0 means any value
  bool optional = false;            ///< weights of samples, at least 0; all ones if the batch does not have the field
  std::int64_t ignored = no_label;  ///< an integer that is valid, too, if it is outside of [0, below)
};

/// The kind of most of a layer's operations. Each kind reaches its own share of a GPU's peak rate.
enum class work_kind : std::uint8_t { other, product, convolution };

/// The work of one sample: floating-point operations, and the bytes that forward moves.
struct work {
  std::int64_t forward = 0;
  std::int64_t backward_input = 0;
  std::int64_t backward_parameters = 0;
  std::int64_t bytes = 0;
  work_kind kind = work_kind::other;
  std::int64_t attention = 0;           ///< the part of `forward` for scores, softmax and mixed values
  std::int64_t attention_backward = 0;  ///< the part of `backward_input` for their gradients
};

}  // namespace gpipe
