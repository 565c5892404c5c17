#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe {

/// An array from an IDX file, the format of MNIST.
///
///     byte    0  1  2     3           4 ...             then
///             0  0  type  dimensions  each extent (4)   elements, row after row
///
/// Extents and elements are big-endian. The types are 8 (uint8), 9 (int8), 11 (int16), 12 (int32), 13 (float), 14
/// (double).
///
///     const auto data = dataset{}.with("inputs", images.row(), images.as<float>())
///                                .with("labels", 1, labels.as<std::int32_t>());
class idx_array {
 public:
  idx_array(int type, std::vector<std::size_t> extents, std::vector<std::byte> elements)
      : type_(type), extents_(std::move(extents)), elements_(std::move(elements)) {}

  /// The type's number in the file.
  int type() const { return type_; }
  const std::vector<std::size_t>& extents() const { return extents_; }
  /// The first extent: the number of samples.
  std::size_t rows() const { return extents_.front(); }
  /// The elements of a sample: all other extents, multiplied.
  GPIPE_COLD std::size_t row() const {
    std::size_t size = 1;
    for (std::size_t d = 1; d < extents_.size(); ++d) size *= extents_[d];
    return size;
  }
  /// All elements, converted. A pixel of 255 becomes 255.0F. Throws `error` if T is an integer type and cannot hold an
  /// element.
  template <detail::element T>
  std::vector<T> as() const {
    if constexpr (std::is_integral_v<T>)
      require_whole((std::numeric_limits<T>::min)(), (std::numeric_limits<T>::max)());
    std::vector<T> values(rows() * row());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(element(i));
    return values;
  }

 private:
  void require_whole(std::int32_t min, std::int32_t max) const;
  double element(std::size_t i) const;  // every number of the six types is a double

  int type_;
  std::vector<std::size_t> extents_;
  std::vector<std::byte> elements_;  // as in the file
};

/// Reads an IDX file. Throws `error` unless the file has exactly the bytes that its header gives.
idx_array read_idx(const std::string& path);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/data/idx-inl.hpp>
#endif
