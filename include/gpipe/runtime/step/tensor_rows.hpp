#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <gpipe/model/graph.hpp>

namespace gpipe {

/// Rows copied out of a training: of each tensor of an edge a row a sample, in the order of the samples.
class sample_rows {
 public:
  sample_rows() = default;

  /// Room for the rows of `capacity` samples of one more tensor; of no elements where there is nothing to copy.
  GPIPE_ONCE void add(const edge_part& of, int capacity) {
    tensors_.push_back({of, std::vector<std::byte>(of.size * bytes_of(of.type) * static_cast<std::size_t>(capacity))});
  }

  int samples() const { return samples_; }
  int tensors() const { return static_cast<int>(tensors_.size()); }

  /// The rows of all samples, behind each other. Throws `error` if the tensor is of another type, or not there.
  template <element T = float>
  std::span<const T> all(int tensor = 0) const {
    const held& from = find(tensor, dtype_of<T>);
    return {reinterpret_cast<const T*>(from.rows.data()), from.of.size * static_cast<std::size_t>(samples_)};
  }
  /// The row of one sample.
  template <element T = float>
  std::span<const T> of(int sample, int tensor = 0) const {
    if (sample < 0 || sample >= samples_)
      detail::refuse({"there is no row of sample ", sample}, {"there are rows of ", samples_, " samples"});
    const std::size_t size = find(tensor, dtype_of<T>).of.size;
    return all<T>(tensor).subspan(size * static_cast<std::size_t>(sample), size);
  }

  // For who fills it: how many rows there are, and where they are.
  void hold(int samples) { samples_ = samples; }
  std::size_t row_bytes(int tensor) const {
    const edge_part& of = tensors_[static_cast<std::size_t>(tensor)].of;
    return of.size * bytes_of(of.type);
  }
  bool wants(int tensor) const { return tensors_[static_cast<std::size_t>(tensor)].of.size > 0; }
  std::byte* at(int tensor, int sample) {
    held& into = tensors_[static_cast<std::size_t>(tensor)];
    return into.rows.data() + into.of.size * bytes_of(into.of.type) * static_cast<std::size_t>(sample);
  }

 private:
  struct held {
    edge_part of;
    std::vector<std::byte> rows;
  };

  GPIPE_ONCE const held& find(int tensor, dtype type) const {
    if (tensor < 0 || tensor >= tensors())
      detail::refuse({"there is no tensor ", tensor}, {"there are ", tensors(), ", counted from 0"});
    const held& found = tensors_[static_cast<std::size_t>(tensor)];
    if (found.of.size == 0) detail::refuse({"tensor ", tensor, " has no rows"}, {"no gradient flows back to it"});
    if (found.of.type != type)
      detail::refuse({"tensor ", tensor, " holds ", name_of(found.of.type)}, {"read it as that"});
    return found;
  }

  std::vector<held> tensors_;
  int samples_ = 0;
};

}  // namespace gpipe
