#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/tensors/shape.hpp>

namespace gpipe {

/// How a parameter's first value is drawn; see `random_key` for what it is a function of.
struct initialiser {
  enum class kind : std::uint8_t { zeros, ones, uniform, normal };
  kind drawn = kind::zeros;
  int fan_in = 1;      ///< uniform in [-b, b) with b = scale / sqrt(fan_in); normal with that deviation
  double scale = 1.0;

  static constexpr initialiser zeros() { return {kind::zeros}; }
  static constexpr initialiser ones() { return {kind::ones}; }
  static constexpr initialiser uniform(int fan_in, double scale = 1.0) { return {kind::uniform, fan_in, scale}; }
  static constexpr initialiser normal(int fan_in, double scale = 1.0) { return {kind::normal, fan_in, scale}; }
};

/// A tensor that a layer has from step to step, of the layer's element type, trained (`parameters`) or not (`state`):
/// `{"weight", {512, 64}, initialiser::uniform(64)}`.
struct parameter {
  const char* name = "";
  shape extents{};
  initialiser first = initialiser::zeros();
};

/// Memory a layer asks for beside its edges. `size` counts elements: a sample's for what is kept for backward
/// (`extras`), all of them for what is derived from the parameters after each commit (`derived`).
struct buffer {
  const char* name = "";
  std::size_t size = 0;
  dtype type = dtype::float32;
};

/// What a layer tells of a micro-batch: a number, `"loss"`, or several, `{"mean", 64}`, in double.
struct partial {
  const char* name = "";
  std::size_t size = 1;

  constexpr partial() = default;
  constexpr partial(const char* told, std::size_t count = 1) : name(told), size(count) {}
};

/// What backward reads again of the layer's own edges. What it does not keep may be overwritten after forward.
struct keep {
  bool input = false;
  bool output = false;
};

/// A field of the data that a layer reads beside its input: `{"labels", 1, dtype::int32, 10}`.
struct field {  // its members have values, for nvcc copies no array of fields otherwise
  const char* name = "";
  std::size_t size = 0;    ///< elements a sample
  dtype type = dtype::float32;
  std::int64_t below = 0;  ///< integers must lie in [0, below); 0: any value
  bool optional = false;   ///< it weighs samples: 0 or more, and all ones where the batch lacks it
};

/// The work of one sample: floating-point operations, and bytes moved by forward.
struct work {
  std::int64_t forward = 0;
  std::int64_t backward_input = 0;
  std::int64_t backward_parameters = 0;
  std::int64_t bytes = 0;
};

}  // namespace gpipe
