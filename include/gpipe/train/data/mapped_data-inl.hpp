#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/mapped_data.hpp>

namespace gpipe {

class mapped_data::filler final : public detail::batch_filler {
 public:
  explicit filler(const mapped_data& of) : of_(of) {}
  ~filler() override { drop(held_), drop(left_); }

  void fill(const batch_request& wanted) override {
    for (std::size_t c = 0; c < of_.columns_.size(); ++c) {
      const column& from = of_.columns_[c];
      const std::size_t row = of_.fields_[c].row_bytes();
      std::byte* into = wanted.bytes(c).data();
      for (const int sample : wanted.samples()) {
        std::memcpy(into, from.file->data() + from.offset + detail::index(sample) * from.stride, row);
        into += row;
      }
    }
    drop(left_);  // this batch may have read the end of the last window
    left_.clear();
    const std::size_t samples = wanted.samples().size(), window = held_.size() * detail::index(block_rows_);
    if (samples > window)  // it has read windows between two that were entered
      for (const column& c : of_.columns_) c.file->drop(0, c.file->size());
    // The next window is read in parts, because the system takes a while to begin each.
    for (std::size_t n = next_.size() * samples / (std::max)(window, std::size_t{1}) + 1; n > 0 && !next_.empty();
         --n) {
      read_ahead(next_.back());
      next_.pop_back();
    }
  }

  GPIPE_COLD void enter(const detail::row_order& order) override {
    block_rows_ = order.block_rows();
    for (const int block : next_) read_ahead(block);
    const auto now = order.window(), next = order.next_window();
    left_.insert(left_.end(), held_.begin(), held_.end());
    std::erase_if(left_, [&](int block) { return has(now, block) || has(next, block); });
    for (const int block : now)
      if (!has(held_, block)) read_ahead(block);  // the first window of an epoch
    next_.assign(next.begin(), next.end());
    held_.assign(now.begin(), now.end());
    held_.insert(held_.end(), next.begin(), next.end());
  }

 private:
  static bool has(std::span<const int> blocks, int block) {
    return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }
  void read_ahead(int block) const {
    each_part(block, [](const detail::mapped_file& file, std::size_t a, std::size_t b) { file.will_read(a, b); });
  }
  void drop(const std::vector<int>& blocks) const {
    for (const int block : blocks)
      each_part(block, [](const detail::mapped_file& file, std::size_t a, std::size_t b) { file.drop(a, b); });
  }
  /// Calls with the bytes of a block in each file.
  template <class Call>
  void each_part(int block, Call&& call) const {
    const std::size_t first = detail::index(block) * detail::index(block_rows_),
                      last = (std::min)(first + detail::index(block_rows_), detail::index(of_.samples_));
    for (const column& c : of_.columns_)
      call(*c.file, c.offset + first * c.stride, (std::min)(c.offset + last * c.stride, c.file->size()));
  }

  const mapped_data& of_;
  std::vector<int> held_, next_, left_;  // blocks: of two windows; of them still to be read; no longer read
  int block_rows_ = 0;
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
  std::shared_ptr<const detail::mapped_file> file;
  for (const column& c : columns_)
    if (c.path == path) file = c.file;
  if (file == nullptr) file = std::make_shared<const detail::mapped_file>(path);
  const std::size_t size = file->size();
  if (where.offset >= size)
    fail(concat({"offset is ", where.offset, ", but the file has ", size, " bytes"}), "choose a smaller one");
  const std::size_t space = size - where.offset;
  std::size_t rows = detail::index((std::max)(where.rows, 0));
  if (where.rows < 0) fail(concat({"rows is ", where.rows}), "choose at least 1, or 0 for all");
  if (rows == 0) {
    rows = space < row ? 0 : (space - row) / stride + 1;  // the last row needs no gap behind it
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
  block_shuffle how;
  how.rows = static_cast<int>((std::max)(window / detail::index(how.mixed), std::size_t{1}));
  return how;
}

GPIPE_INLINE std::unique_ptr<data_stream> mapped_data::open(const batch_order& order) const {
  return std::make_unique<detail::prefetched_stream>(samples_, fields_, shuffle(), order,
                                                     std::make_unique<filler>(*this));
}

}  // namespace gpipe
