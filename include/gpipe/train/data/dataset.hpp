#pragma once

#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/runtime/step/batch.hpp>

namespace gpipe {

/// Samples in memory: named fields, a row a sample.
///
///     auto data = dataset{}.with("inputs", 64, pixels).with("labels", 1, digits);
///     for (const auto& batch : data.batches(128)) training.step(batch);
class dataset {
 public:
  class stream;

  /// Adds a field of `size` elements a sample: a copy of a vector, a span, an array, ... of elements.
  template <class Rows>
  dataset& with(std::string name, std::size_t size, const Rows& rows) & {
    const detail::number_rows of = detail::number_rows_of(rows);
    add(std::move(name), size, of.elements, of.type, of.data);
    return *this;
  }
  template <class Rows>
  dataset&& with(std::string name, std::size_t size, const Rows& rows) && {
    return std::move(this->with(std::move(name), size, rows));
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

  int samples() const { return samples_; }

  /// The samples in their order, `size` at a time; the last batch may be smaller.
  stream batches(int size) const&;
  /// In an order that is a function of seed and epoch alone.
  stream shuffled(int size, std::uint64_t seed, std::uint64_t epoch) const&;
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

  std::vector<column> columns_;
  int samples_ = 0;
};

/// A pass over a dataset. A batch is valid until the iterator is dereferenced again.
class dataset::stream {
 public:
  stream(const dataset& from, int size, std::vector<int> order);

  class iterator {
   public:
    iterator(stream& of, int at) : of_(&of), at_(at) {}
    batch operator*() const { return of_->gather(at_); }
    iterator& operator++() {
      at_ += of_->size_;
      return *this;
    }
    bool operator!=(const iterator&) const { return at_ < static_cast<int>(of_->order_.size()); }

   private:
    stream* of_;
    int at_;
  };
  iterator begin() & { return {*this, 0}; }
  iterator end() & { return {*this, 0}; }
  void begin() && = delete;  // batches point into the stream: `auto batches = data.batches(...)` first
  void end() && = delete;

  /// The number of batches.
  int count() const {
    const int samples = static_cast<int>(order_.size());
    return samples / size_ + (samples % size_ != 0);
  }

 private:
  batch gather(int at);

  const dataset* from_;
  int size_;
  std::vector<int> order_;
  std::vector<std::vector<std::byte>> gathered_;
};

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE void dataset::add(std::string name, std::size_t size, std::size_t elements, dtype type,
                                          const void* rows) {
  using detail::throw_error;
  if (size == 0 || elements == 0 || elements % size != 0)
    throw_error({"field ", detail::quoted(name), " has ", elements, " elements, which is no multiple of its row of ",
                 size},
                {"give every sample a whole row"});
  for (const column& c : columns_)
    if (c.name == name)
      throw_error({"the dataset has a field ", detail::quoted(name), " already"}, {"give each field once"});
  const int count = static_cast<int>(elements / size);
  if (!columns_.empty() && count != samples_)
    throw_error({"field ", detail::quoted(name), " has ", count, " rows, but the others have ", samples_},
                {"give every sample a row in every field"});
  samples_ = count;
  const auto* bytes = static_cast<const std::byte*>(rows);
  columns_.push_back({std::move(name), size, type, {bytes, bytes + elements * detail::bytes_of(type)}, false});
}

GPIPE_COLD GPIPE_INLINE dataset::stream::stream(const dataset& from, int size, std::vector<int> order)
    : from_(&from), size_(size), order_(std::move(order)) {
  if (size < 1) detail::throw_error({"the batch size is ", size}, {"choose at least 1"});
  if (from.samples_ < 1)
    detail::throw_error({"the dataset has no samples"}, {"add its fields by with(name, size, rows)"});
  for (const column& c : from.columns_)
    gathered_.emplace_back(static_cast<std::size_t>((std::min)(size, from.samples_)) * c.size *
                           detail::bytes_of(c.type));
}

GPIPE_INLINE batch dataset::stream::gather(int at) {
  const int count = (std::min)(size_, static_cast<int>(order_.size()) - at);
  batch result(count);
  for (std::size_t c = 0; c < gathered_.size(); ++c) {
    const column& from = from_->columns_[c];
    const std::size_t row = from.size * detail::bytes_of(from.type);
    for (int i = 0; i < count; ++i)
      std::memcpy(gathered_[c].data() + static_cast<std::size_t>(i) * row,
                  from.rows.data() + static_cast<std::size_t>(order_[static_cast<std::size_t>(at + i)]) * row, row);
    result.add({from.name, gathered_[c].data(), static_cast<std::size_t>(count) * from.size, from.type, from.unread});
  }
  return result.named(order_.data() + at);
}

GPIPE_COLD GPIPE_INLINE dataset::stream dataset::batches(int size) const& {
  std::vector<int> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  return {*this, size, std::move(order)};
}

GPIPE_COLD GPIPE_INLINE dataset::stream dataset::shuffled(int size, std::uint64_t seed, std::uint64_t epoch) const& {
  std::vector<int> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  // Fisher and Yates, by counter-based words: shuffles of standard libraries differ.
  for (std::uint32_t i = static_cast<std::uint32_t>(order.size()); i > 1; --i) {
    const auto words = draw({seed, epoch, ~0U, 0}, 0, i);
    const std::uint64_t word = std::uint64_t{words.word[0]} << 32 | words.word[1];
    std::swap(order[i - 1], order[word % i]);
  }
  return {*this, size, std::move(order)};
}
#endif

}  // namespace gpipe
