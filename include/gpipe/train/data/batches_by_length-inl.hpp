#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/batches_by_length.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE batches_by_length::batches_by_length(const dataset& data, std::span<const int> positions,
                                                             by_length_options options)
    : data_(data), options_(std::move(options)), fields_(data.fields()) {
  using detail::throw_error;
  if (options_.lengths.empty())
    throw_error({"lengths is empty"}, {"give those of the training: {.lengths = {16, 32, 64}}"});
  for (std::size_t k = 0; k < options_.lengths.size(); ++k)
    if (options_.lengths[k] <= (k > 0 ? options_.lengths[k - 1] : 0))
      throw_error(
          {"lengths has ", options_.lengths[k], k > 0 ? detail::concat({" behind ", options_.lengths[k - 1]}) : ""},
          {"give positive numbers that ascend"});
  if (options_.tokens < 1) throw_error({"tokens is ", options_.tokens}, {"choose at least the longest length"});
  if (positions.size() != detail::index(data.samples()))
    throw_error({"there are ", positions.size(), " numbers of positions, and the dataset has ",
                 detail::several(data.samples(), "row")},
                {"give one number for each row"});

  const int longest = options_.lengths.back();
  const auto named = [&](const std::string& name) {
    return std::find_if(fields_.begin(), fields_.end(), [&](const data_field& f) { return f.name == name; });
  };
  if (options_.fields.empty()) {
    const auto inputs = named("inputs");
    if (inputs == fields_.end())
      throw_error({"the dataset has no field \"inputs\", and no fields are named"},
                  {"name the fields that have an element for each position: {.fields = {\"tokens\"}}"});
    for (const data_field& f : fields_)
      if (f.size == inputs->size) options_.fields.push_back(f.name);
  }
  is_cut_.resize(fields_.size());
  for (const std::string& name : options_.fields) {
    const auto found = named(name);
    if (found == fields_.end())
      throw_error({"the dataset has no field ", detail::quoted(name)}, {"name one that it has"});
    if (found->size < detail::index(longest))
      throw_error(
          {"field ", detail::quoted(name), " has rows of ", found->size, ", and the longest length is ", longest},
          {"pad its rows to at least ", longest});
    is_cut_[static_cast<std::size_t>(found - fields_.begin())] = true;
  }

  rows_.resize(options_.lengths.size());
  int first_too_long = -1;
  for (int i = 0; i < data.samples(); ++i) {
    const int length = positions[detail::index(i)];
    if (length < 0) throw_error({"row ", i, " has ", length, " positions"}, {"give 0 or more"});
    std::size_t k = 0;
    while (k < rows_.size() && options_.lengths[k] < length) ++k;
    if (k == rows_.size()) {
      if (too_long_++ == 0) first_too_long = i;
      if (options_.too_long != too_long::cut) continue;
      --k;
    }
    rows_[k].push_back(i);
    ++samples_;
  }
  if (too_long_ > 0 && options_.too_long == too_long::refuse)
    throw_error({"row ", first_too_long, " has ", positions[detail::index(first_too_long)],
                 " positions, and the longest length is ", longest, "; ", detail::several(too_long_, "row"),
                 too_long_ == 1 ? " is" : " are", " too long"},
                {"choose .too_long = too_long::cut or too_long::drop, or train a longer length"});
  std::size_t left_over = 0;
  for (std::size_t k = 0; k < rows_.size(); ++k) {
    const std::size_t row_count = rows_[k].size() + left_over, size = detail::index(size_of(k));
    const bool last = k + 1 == rows_.size();
    left_over = last ? 0 : row_count % size;
    counts_.push_back(static_cast<int>(row_count / size + (last && row_count % size != 0)));
    batches_ += counts_.back();
  }
}

GPIPE_INLINE int batches_by_length::size_of(std::size_t length) const {
  return (std::max)(1, options_.tokens / options_.lengths[length]);
}

GPIPE_COLD GPIPE_INLINE int batches_by_length::batches_of(int length) const {
  const auto found = std::find(options_.lengths.begin(), options_.lengths.end(), length);
  if (found == options_.lengths.end())
    detail::throw_error({"the length ", length, " is none of the source's"}, {"ask for one of `lengths`"});
  return counts_[static_cast<std::size_t>(found - options_.lengths.begin())];
}

namespace detail {

/// The batches of consecutive epochs.
class by_length_stream final : public data_stream {
 public:
  GPIPE_COLD by_length_stream(const batches_by_length& source, const batch_order& order)
      : source_(source), order_(order), position_(first_of(order, source)) {}

  GPIPE_COLD const batch* next() override {
    if (position_.epoch >= order_.epochs) return nullptr;
    if (begins_) begin_epoch();
    gather(parts_[index(static_cast<int>(position_.batch))]);
    begins_ = ++position_.batch == source_.batches_;
    if (begins_) position_ = {position_.epoch + 1, 0};
    return &batch_;
  }

 private:
  struct batch_rows {
    std::size_t length;
    std::size_t first;  // in rows_
    int count;
  };

  GPIPE_COLD void begin_epoch() {
    constexpr std::uint32_t of_rows = ~0x100U, of_batches = ~0x101U;  // other shuffles have other numbers
    rows_.clear();
    std::vector<batch_rows> parts;
    std::vector<int> rows;
    for (std::size_t k = 0; k < source_.rows_.size(); ++k) {
      rows.insert(rows.end(), source_.rows_[k].begin(), source_.rows_[k].end());
      if (order_.shuffled) shuffle_rows(rows, {order_.seed, position_.epoch, of_rows, static_cast<std::uint32_t>(k)});
      const std::size_t size = index(source_.size_of(k));
      std::size_t first = 0;
      for (int b = 0; b < source_.counts_[k]; ++b) {
        const std::size_t count = (std::min)(size, rows.size() - first);
        parts.push_back({k, rows_.size(), static_cast<int>(count)});
        rows_.insert(rows_.end(), rows.begin() + static_cast<std::ptrdiff_t>(first),
                     rows.begin() + static_cast<std::ptrdiff_t>(first + count));
        first += count;
      }
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));  // the rest goes to the next length
    }
    std::vector<int> turns(parts.size());
    std::iota(turns.begin(), turns.end(), 0);
    if (order_.shuffled) shuffle_rows(turns, {order_.seed, position_.epoch, of_batches, 0});
    parts_.clear();
    for (const int turn : turns) parts_.push_back(parts[index(turn)]);
    begins_ = false;
  }

  GPIPE_COLD void gather(const batch_rows& rows) {
    batch_ = batch(rows.count);
    gathered_.resize(source_.fields_.size());
    const int length = source_.options_.lengths[rows.length];
    for (std::size_t f = 0; f < source_.fields_.size(); ++f) {
      const data_field& field = source_.fields_[f];
      const std::size_t size = source_.is_cut_[f] ? index(length) : field.size;
      const std::size_t bytes = size * bytes_of(field.type);
      gathered_[f].resize(bytes * index(rows.count));
      for (int i = 0; i < rows.count; ++i)
        std::memcpy(gathered_[f].data() + index(i) * bytes,
                    source_.data_.bytes(f).data() + index(rows_[rows.first + index(i)]) * field.row_bytes(), bytes);
      if (field.name == "lengths" && field.type == dtype::int32)
        for (std::size_t i = 0; i < gathered_[f].size(); i += sizeof(std::int32_t))
          if (auto& count = *reinterpret_cast<std::int32_t*>(gathered_[f].data() + i); count > length) count = length;
      batch_.add({field.name, gathered_[f].data(), size * index(rows.count), field.type, field.unread});
    }
    batch_.named(rows_.data() + rows.first);
  }

  const batches_by_length& source_;
  const batch_order order_;
  data_position position_;
  bool begins_ = true;
  std::vector<int> rows_;  // of the epoch's batches
  std::vector<batch_rows> parts_;
  std::vector<std::vector<std::byte>> gathered_;  // [field]
  batch batch_{0};
};

}  // namespace detail

GPIPE_INLINE std::unique_ptr<data_stream> batches_by_length::open(const batch_order& order) const {
  return std::make_unique<detail::by_length_stream>(*this, order);
}

}  // namespace gpipe
