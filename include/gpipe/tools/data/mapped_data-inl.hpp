#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/tools/data/mapped_data.hpp>

namespace gpipe {

/// Holds the blocks of the current window and of the next one in its own memory. A mapping of the file would have no
/// bound: a fault maps pages of other blocks, too, and a page of two blocks would never be dropped.
///
///     enter   a batch   another   ...        held
///     now     rows of window 0               window 0
///             + a part of window 1           window 0, some of window 1
///     next    rows of window 1               window 1; buffers of window 0 take window 2
class mapped_data::filler {
 public:
  explicit filler(const mapped_data& data) : data_(data) {}

  void fill(const batch_request& wanted) {
    for (std::size_t i = 0; i < wanted.samples().size(); ++i) {
      const int sample = wanted.samples()[i];
      const held_block* const held = find(sample / block_rows_);
      for (std::size_t c = 0; c < data_.columns_.size(); ++c) {
        const column& source = data_.columns_[c];
        const std::size_t row = data_.fields_[c].row_bytes();
        std::byte* const target = wanted.bytes(c).data() + i * row;
        if (held == nullptr)  // of a window that the batch has passed
          source.file->read_at(target, row, source.offset + index(sample) * source.stride);
        else
          std::memcpy(target, held->bytes.data() + held->first[c] + index(sample % block_rows_) * source.stride, row);
      }
    }
    keep(wanted_);  // this batch may have read the end of the last window
    // The next window is read in parts, so that no batch waits for all of it.
    const std::size_t samples = wanted.samples().size(), window = index(current_count_) * index(block_rows_);
    for (std::size_t n = index(next_count_) * samples / (std::max)(window, std::size_t{1}) + 1; n > 0 && !next_.empty();
         --n) {
      const int block = next_.back();
      next_.pop_back();
      if (!next_.empty()) read_ahead(next_.back());
      read(block);
    }
  }

  GPIPE_COLD void enter(const detail::row_order& order) {
    block_rows_ = order.block_rows();
    const auto current = order.window(), upcoming = order.next_window();
    // The batch may read the end of the last window.
    std::vector<int> kept(wanted_.begin(), wanted_.begin() + current_count_);
    kept.insert(kept.end(), current.begin(), current.end());
    keep(kept);
    wanted_.assign(current.begin(), current.end());
    wanted_.insert(wanted_.end(), upcoming.begin(), upcoming.end());
    current_count_ = static_cast<int>(current.size()), next_count_ = static_cast<int>(upcoming.size());
    for (const int block : current)
      if (find(block) == nullptr) read(block);
    next_.clear();
    for (const int block : upcoming)
      if (find(block) == nullptr) next_.push_back(block);
    if (!next_.empty()) read_ahead(next_.back());
  }

 private:
  struct held_block {
    int number = -1;                   // -1: free
    std::vector<std::size_t> first{};  // [column]: offset of its rows in `bytes`
    std::vector<std::byte> bytes{};
  };

  static std::size_t index(int i) { return detail::index(i); }
  held_block* find(int block) {
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const held_block& b) { return b.number == block; });
    return found == held_.end() ? nullptr : &*found;
  }
  /// Frees all other blocks.
  void keep(const std::vector<int>& blocks) {
    for (held_block& held : held_)
      if (std::find(blocks.begin(), blocks.end(), held.number) == blocks.end()) held.number = -1;
  }
  void read(int block) {
    held_block* target = find(-1);
    if (target == nullptr) target = &held_.emplace_back();
    target->first.clear();
    std::size_t bytes = 0;
    each_part(block, [&](const detail::open_file&, std::size_t a, std::size_t b) {
      target->first.push_back(bytes);
      bytes += b - a;
    });
    target->bytes.resize(bytes);
    std::size_t offset = 0;
    each_part(block, [&](const detail::open_file& file, std::size_t a, std::size_t b) {
      file.read_at(target->bytes.data() + offset, b - a, a);
      offset += b - a;
    });
    target->number = block;
  }
  void read_ahead(int block) const {
    each_part(block, [](const detail::open_file& file, std::size_t a, std::size_t b) { file.read_ahead(a, b - a); });
  }
  /// Calls `call` with the range of a block's bytes in each file: from its first row to the end of its last.
  template <class Call>
  void each_part(int block, Call&& call) const {
    const std::size_t first = index(block) * index(block_rows_),
                      last = (std::min)(first + index(block_rows_), index(data_.samples_));
    for (std::size_t c = 0; c < data_.columns_.size(); ++c) {
      const column& source = data_.columns_[c];
      call(*source.file, source.offset + first * source.stride,
           source.offset + (last - 1) * source.stride + data_.fields_[c].row_bytes());
    }
  }

  const mapped_data& data_;
  std::deque<held_block> held_;
  std::vector<int> wanted_, next_;          // blocks of both windows; blocks of the next one that are not read yet
  int current_count_ = 0, next_count_ = 0;  // the number of blocks of each window
  int block_rows_ = 1;
};

GPIPE_COLD GPIPE_INLINE void mapped_data::add(data_field field, const std::string& path, const mapped_location& where) {
  using detail::concat;
  const auto fail = [&](const std::string& wrong, const std::string& remedy) {
    throw error(concat({"field ", detail::quoted(field.name), ": ", wrong}), remedy, {.file = path});
  };
  const std::size_t row = field.row_bytes(), stride = where.stride == 0 ? row : where.stride;
  if (field.size == 0) fail("its rows have 0 elements", "choose at least 1");
  if (stride < row)
    fail(concat({"stride is ", stride, " bytes, but a row has ", row}), "choose the bytes from one row to the next");
  for (const data_field& f : fields_)
    if (f.name == field.name) fail("the source has it already", "give each field once");
  std::shared_ptr<const detail::open_file> file;
  for (const column& c : columns_)
    if (c.path == path) file = c.file;
  if (file == nullptr)  // a pipe does not wait for a writer
    file = std::make_shared<const detail::open_file>(detail::system_files(), path, O_RDONLY | O_NONBLOCK);
  const std::size_t size = file->size();
  if (size == 0) fail("is empty", "give a file with rows");
  if (where.offset >= size)
    fail(concat({"offset is ", where.offset, ", but the file has ", size, " bytes"}), "choose a smaller one");
  const std::size_t space = size - where.offset;
  std::size_t rows = detail::index((std::max)(where.rows, 0));
  if (where.rows < 0) fail(concat({"rows is ", where.rows}), "choose at least 1, or 0 for all");
  if (rows == 0) {
    rows = space < row ? 0 : (space - row) / stride + 1;  // the last row needs no gap after it
    if (rows == 0 || (space != rows * stride && space != (rows - 1) * stride + row))
      fail(concat({"the ", space, " bytes from offset ", where.offset, " on are no whole rows of ", stride}),
           "give the file of this field, or its number of rows");
  } else if (space < row || (space - row) / stride + 1 < rows) {
    fail(concat({rows, " rows of ", stride, " bytes from offset ", where.offset, " on do not fit into a file of ", size,
                 " bytes"}),
         "give a whole file");
  }
  if (rows > detail::index((std::numeric_limits<int>::max)()))
    fail(concat({"it has ", rows, " rows"}), "give at most 2147483647");
  if (!columns_.empty() && rows != detail::index(samples_))
    fail(concat({"it has ", rows, " rows, but the others have ", samples_}), "give every sample a row in every field");
  samples_ = static_cast<int>(rows);
  columns_.push_back({std::move(file), path, where.offset, stride});
  fields_.push_back(std::move(field));
}

GPIPE_COLD GPIPE_INLINE block_shuffle mapped_data::shuffle() const {
  std::size_t row = 0;
  for (const column& c : columns_) row += c.stride;
  const std::size_t window = memory_ / 2 / (std::max)(row, std::size_t{1});
  if (window >= detail::index(samples_)) return {};
  block_shuffle result;
  result.rows = static_cast<int>((std::max)(window / detail::index(result.mixed), std::size_t{1}));
  return result;
}

GPIPE_INLINE std::unique_ptr<data_stream> mapped_data::open(const batch_order& order) const {
  const auto blocks = std::make_shared<filler>(*this);
  return std::make_unique<detail::prefetched_stream>(
      samples_, fields_, shuffle(), order, [blocks](const batch_request& wanted) { blocks->fill(wanted); },
      [blocks](const detail::row_order& rows) { blocks->enter(rows); });
}

}  // namespace gpipe
