#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe {

namespace broken {

template <class Given, bool Holds>
struct rows_have_a_type {
  static_assert(
      Holds,
      "gpipe: rows of predictions or activations are read with their type: rows.all<float>() has those of all "
      "samples, rows.of<float>(3) that of one");
};

}  // namespace broken

/// Rows copied out of a training: for each tensor of an edge one row for each sample, in the order of the samples.
class tensor_rows {
 public:
  tensor_rows() = default;

  /// Adds a tensor with room for the rows of `capacity` samples. A tensor of size 0 has no rows.
  GPIPE_COLD void add(const detail::edge_part& part, int capacity) {
    tensors_.push_back(
        {part, std::vector<std::byte>(part.size * detail::bytes_of(part.type) * detail::index(capacity))});
  }

  int samples() const { return samples_; }
  int tensors() const { return static_cast<int>(tensors_.size()); }

  /// The rows of all samples, one after the other: a view, and of a temporary such as `training.predict(data)` a copy.
  /// Throws `error` if there is no such tensor or it has another type.
  template <detail::element T = float>
  std::span<const T> all(int tensor = 0) const& {
    const stored& source = find(tensor, dtype_of<T>);
    return {reinterpret_cast<const T*>(source.rows.data()), source.part.size * detail::index(samples_)};
  }
  template <detail::element T = float>
  std::vector<T> all(int tensor = 0) const&& {
    const tensor_rows& self = *this;
    const std::span<const T> rows = self.all<T>(tensor);
    return {rows.begin(), rows.end()};
  }
  /// The row of one sample, in the same way.
  template <detail::element T = float>
  std::vector<T> of(int sample, int tensor = 0) const&& {
    const tensor_rows& self = *this;
    const std::span<const T> row = self.of<T>(sample, tensor);
    return {row.begin(), row.end()};
  }
  template <detail::element T = float>
  std::span<const T> of(int sample, int tensor = 0) const& {
    if (sample < 0 || sample >= samples_)
      detail::throw_error({"there is no row of sample ", sample}, {"there are rows of ", samples_, " samples"});
    const std::size_t size = find(tensor, dtype_of<T>).part.size;
    return all<T>(tensor).subspan(size * detail::index(sample), size);
  }

  // Without a type: this is here for the error.
  template <class Sample>
  float operator[](Sample) const {
    static_assert(sizeof(broken::rows_have_a_type<Sample, sizeof(Sample) == 0>) > 0);
    return 0;
  }

  // For the code that fills the rows.
  void resize(int samples) { samples_ = samples; }  ///< at most the capacity
  std::size_t row_bytes(int tensor) const {
    const detail::edge_part& part = tensors_[detail::index(tensor)].part;
    return part.size * detail::bytes_of(part.type);
  }
  bool has_rows(int tensor) const { return tensors_[detail::index(tensor)].part.size > 0; }
  std::byte* at(int tensor, int sample) {
    stored& target = tensors_[detail::index(tensor)];
    return target.rows.data() + target.part.size * detail::bytes_of(target.part.type) * detail::index(sample);
  }

 private:
  struct stored {
    detail::edge_part part;
    std::vector<std::byte> rows;
  };

  GPIPE_COLD const stored& find(int tensor, dtype type) const {
    if (tensor < 0 || tensor >= tensors())
      detail::throw_error({"there is no tensor ", tensor}, {"there are ", tensors(), ", counted from 0"});
    const stored& found = tensors_[detail::index(tensor)];
    if (found.part.size == 0)
      detail::throw_error({"tensor ", tensor, " has no rows"}, {"no gradient flows back to it"});
    if (found.part.type != type)
      detail::throw_error({"tensor ", tensor, " holds ", name_of(found.part.type)}, {"read it as that type"});
    return found;
  }

  std::vector<stored> tensors_;
  int samples_ = 0;
};

}  // namespace gpipe
