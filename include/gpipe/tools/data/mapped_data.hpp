#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/file_operations.hpp>
#include <gpipe/tools/data/generated_data.hpp>

namespace gpipe {

/// The positions of a field's rows in a file. By default they are contiguous and fill it.
struct mapped_location {
  std::size_t offset = 0;  ///< bytes before the first row
  std::size_t stride = 0;  ///< bytes from one row to the next; 0: the bytes of a row
  int rows = 0;            ///< 0: all between `offset` and the end of the file
};

/// Samples in files, larger than the memory: raw numbers in this machine's byte order. A thread gathers the rows of the
/// next batch while the step runs, and reads blocks ahead. It throws `error` if a file became shorter meanwhile.
///
///     mapped_data data;
///     data.with<float>("inputs", 64, "inputs.f32").with<std::int32_t>("labels", 1, "labels.i32");
///
/// Rows are shuffled in blocks (see `block_shuffle`), so that a disk reads long runs: the order is a function of seed,
/// epoch, `memory`, and the sizes of the rows. A set that fits into half of `memory` is shuffled as a dataset is.
class mapped_data final : public data_source {
 public:
  static constexpr std::size_t default_memory = std::size_t{64} << 20;

  /// `memory`: the bytes of the files that a stream holds at once, one half to read and one half that is read ahead; 32
  /// rows of every field if that is more. Two batches are added.
  explicit mapped_data(std::size_t memory = default_memory) : memory_(memory) {}

  /// Adds a field of `size` elements per sample. Fields may be in separate files or in one file.
  template <detail::element T>
  mapped_data& with(std::string name, std::size_t size, const std::string& path, const mapped_location& where = {}) & {
    add({std::move(name), size, dtype_of<T>}, path, where);
    return *this;
  }
  template <detail::element T>
  mapped_data&& with(std::string name, std::size_t size, const std::string& path,
                     const mapped_location& where = {}) && {
    return std::move(this->with<T>(std::move(name), size, path, where));
  }

  int samples() const override { return samples_; }
  GPIPE_INLINE std::unique_ptr<data_stream> open(const batch_order& order) const override;
  /// The shuffle that `memory` and the sizes of the rows give.
  block_shuffle shuffle() const;

 private:
  class filler;
  struct column {
    std::shared_ptr<const detail::open_file> file;
    std::string path;
    std::size_t offset, stride;
  };

  void add(data_field field, const std::string& path, const mapped_location& where);

  std::size_t memory_;
  std::vector<data_field> fields_;
  std::vector<column> columns_;
  int samples_ = 0;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/data/mapped_data-inl.hpp>
#endif
