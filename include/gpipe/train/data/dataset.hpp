#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/train/data/batch_request.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

namespace broken {

template <bool Holds, class... Given>
struct field_has_a_name_a_size_and_rows {
  static_assert(Holds,
                "gpipe: a field of a dataset has a name, the number of elements of one sample, and the rows of all "
                "samples, in this order: dataset{}.with(\"inputs\", 64, pixels).with(\"labels\", 1, digits)");
};

template <class Given, bool Holds>
struct rows_have_a_seed {
  static_assert(Holds,
                "gpipe: a random choice of rows is a function of a seed: data.split(0.2, 1), and in each epoch "
                "data.shuffled(32, 1, epoch); data.batches(32) keeps the order of the rows");
};

}  // namespace broken

/// Samples in memory: named fields, one row per sample.
///
///     auto data = dataset{}.with("inputs", 64, pixels).with("labels", 1, digits);
///     for (const auto& batch : data.batches(128)) training.step(batch);
class dataset final : public data_source {
 public:
  class stream;

  /// Adds a field of `size` elements per sample: a copy of a vector, a span, an array, ... of elements.
  template <class Rows>
  dataset& with(std::string name, std::size_t size, const Rows& rows) & {
    const detail::number_rows values = detail::number_rows_of(rows);
    add(std::move(name), size, values.elements, values.type, values.data);
    return *this;
  }
  template <class Rows>
  dataset&& with(std::string name, std::size_t size, const Rows& rows) && {
    return std::move(this->with(std::move(name), size, rows));
  }
  // Without the size, or in another order: here for the error.
  template <class Rows>
  dataset& with(const std::string&, const Rows&) {
    static_assert(sizeof(broken::field_has_a_name_a_size_and_rows<sizeof(Rows) == 0, Rows>) > 0);
    return *this;
  }
  template <class Rows>
  requires(std::is_class_v<Rows>) dataset& with(const std::string&, const Rows&, std::size_t) {
    static_assert(sizeof(broken::field_has_a_name_a_size_and_rows<sizeof(Rows) == 0, Rows, std::size_t>) > 0);
    return *this;
  }

  /// Adds a field that the model need not read, such as a column of numbers that name the samples; batches have it.
  template <class Rows>
  dataset& with_unread(std::string name, std::size_t size, const Rows& rows) & {
    this->with(std::move(name), size, rows);
    columns_.back().unread = true;
    return *this;
  }
  template <class Rows>
  dataset&& with_unread(std::string name, std::size_t size, const Rows& rows) && {
    return std::move(this->with_unread(std::move(name), size, rows));
  }

  int samples() const override { return samples_; }

  /// The elements of a field, row after row, to read or to change. Throws `error` if there is no such field, or if it
  /// has another type.
  template <detail::element T>
  std::span<T> field(std::string_view name) & {
    column& found = find(name, dtype_of<T>);
    return {reinterpret_cast<T*>(found.rows.data()), found.rows.size() / sizeof(T)};
  }
  template <detail::element T>
  std::span<const T> field(std::string_view name) const& {
    return const_cast<dataset*>(this)->field<T>(name);
  }
  template <detail::element T>
  std::span<T> field(std::string_view name) && = delete;  // it would be a view of a dataset that is gone

  /// The fields, in the order in which they were added, and the rows of one as bytes.
  std::vector<data_field> fields() const;
  std::span<const std::byte> bytes(std::size_t field) const { return columns_.at(field).rows; }

  /// A copy of these rows, in this order.
  dataset select(std::span<const int> rows) const;
  /// Two datasets: a random part of `fraction` of the rows, to the nearest row and at least one, and the others. Both
  /// have their rows in the order of this dataset. The parts are a function of the number of rows, `fraction` and
  /// `seed`. They are copies: until this dataset is destroyed, its rows are in memory twice.
  std::pair<dataset, dataset> split(double fraction, std::uint64_t seed) const;
  // Without a seed: here for the error.
  template <class Fraction>
  std::pair<dataset, dataset> split(Fraction fraction) const {
    static_assert(sizeof(broken::rows_have_a_seed<Fraction, sizeof(Fraction) == 0>) > 0);
    return split(fraction, 0);
  }

  GPIPE_INLINE std::unique_ptr<data_stream> open(const batch_order& order) const override;

  /// The samples in their order, `size` at a time; the last batch may be smaller.
  stream batches(int size) const&;
  /// In an order that is a function of seed and epoch alone.
  stream shuffled(int size, std::uint64_t seed, std::uint64_t epoch) const&;
  // In a random order, or without seed and epoch: here for the error.
  template <class Size, class... Seed, class Stream = stream, class = std::enable_if_t<(sizeof...(Seed) < 2)>>
  Stream shuffled(Size size, Seed...) const {
    static_assert(sizeof(broken::rows_have_a_seed<Size, sizeof...(Seed) == 2>) > 0);
    return Stream(*this, static_cast<int>(size), {});
  }
  template <class Shuffled, class Stream = stream>
  Stream batches(int size, Shuffled) const {
    static_assert(sizeof(broken::rows_have_a_seed<Shuffled, sizeof(Shuffled) == 0>) > 0);
    return Stream(*this, size, {});
  }
  // The stream would outlive a temporary dataset.
  stream batches(int size) const&& = delete;
  stream shuffled(int size, std::uint64_t seed, std::uint64_t epoch) const&& = delete;

 private:
  struct column {
    std::string name;
    std::size_t size;
    dtype type;
    std::vector<std::byte> rows;
    bool unread = false;
  };

  void add(std::string name, std::size_t size, std::size_t elements, dtype type, const void* rows);
  column& find(std::string_view name, dtype type);

  std::vector<column> columns_;
  int samples_ = 0;
};

/// A pass over a dataset. A batch is valid until the iterator is dereferenced again.
class dataset::stream {
 public:
  stream(const dataset& data, int size, std::vector<int> order);

  /// The batch with this number, counted from 0.
  batch at(long number) { return gather(static_cast<int>(number * size_)); }

  class iterator {
   public:
    iterator(stream& pass, int first) : pass_(&pass), first_(first) {}
    batch operator*() const { return pass_->gather(first_); }
    iterator& operator++() {
      first_ += pass_->size_;
      return *this;
    }
    bool operator!=(const iterator&) const { return first_ < static_cast<int>(pass_->order_.size()); }

   private:
    stream* pass_;
    int first_;
  };
  iterator begin() & { return {*this, 0}; }
  iterator end() & { return {*this, 0}; }
  void begin() && = delete;  // batches point into the stream: `auto batches = data.batches(...)` first
  void end() && = delete;

  /// The number of batches.
  int count() const { return static_cast<int>(detail::batches_of(static_cast<int>(order_.size()), size_)); }

 private:
  batch gather(int first);

  const dataset* data_;
  int size_;
  std::vector<int> order_;
  std::vector<std::vector<std::byte>> gathered_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/dataset-inl.hpp>
#endif
