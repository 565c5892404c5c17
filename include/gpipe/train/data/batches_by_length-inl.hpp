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

#include <gpipe/core/error.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/batches_by_length.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE batches_by_length::batches_by_length(const dataset& data, std::span<const int> positions,
                                                             by_length_options how)
    : data_(data), how_(std::move(how)), fields_(data.fields()) {
  using detail::throw_error;
  if (how_.lengths.empty())
    throw_error({"lengths is empty"}, {"give those of the training: {.lengths = {16, 32, 64}}"});
  for (std::size_t k = 0; k < how_.lengths.size(); ++k)
    if (how_.lengths[k] <= (k > 0 ? how_.lengths[k - 1] : 0))
      throw_error({"lengths has ", how_.lengths[k], k > 0 ? detail::concat({" behind ", how_.lengths[k - 1]}) : ""},
                  {"give positive numbers that ascend"});
  if (how_.tokens < 1) throw_error({"tokens is ", how_.tokens}, {"choose at least the longest length"});
  if (positions.size() != detail::index(data.samples()))
    throw_error({"there are ", positions.size(), " numbers of positions, and the dataset has ",
                 detail::several(data.samples(), "row")},
                {"give one number for each row"});

  const int longest = how_.lengths.back();
  const auto named = [&](const std::string& name) {
    return std::find_if(fields_.begin(), fields_.end(), [&](const data_field& f) { return f.name == name; });
  };
  if (how_.fields.empty()) {
    const auto inputs = named("inputs");
    if (inputs == fields_.end())
      throw_error({"the dataset has no field \"inputs\", and no fields are named"},
                  {"name the fields that have an element for each position: {.fields = {\"tokens\"}}"});
    for (const data_field& f : fields_)
      if (f.size == inputs->size) how_.fields.push_back(f.name);
  }
  is_cut_.resize(fields_.size());
  for (const std::string& name : how_.fields) {
    const auto found = named(name);
    if (found == fields_.end())
      throw_error({"the dataset has no field ", detail::quoted(name)}, {"name one that it has"});
    if (found->size < detail::index(longest))
      throw_error(
          {"field ", detail::quoted(name), " has rows of ", found->size, ", and the longest length is ", longest},
          {"pad its rows to at least ", longest});
    is_cut_[static_cast<std::size_t>(found - fields_.begin())] = true;
  }

  rows_.resize(how_.lengths.size());
  int first_too_long = -1;
  for (int i = 0; i < data.samples(); ++i) {
    const int its = positions[detail::index(i)];
    if (its < 0) throw_error({"row ", i, " has ", its, " positions"}, {"give 0 or more"});
    std::size_t k = 0;
    while (k < rows_.size() && how_.lengths[k] < its) ++k;
    if (k == rows_.size()) {
      if (too_long_++ == 0) first_too_long = i;
      if (how_.too_long != too_long::cut) continue;
      --k;
    }
    rows_[k].push_back(i);
    ++samples_;
  }
  if (too_long_ > 0 && how_.too_long == too_long::refuse)
    throw_error({"row ", first_too_long, " has ", positions[detail::index(first_too_long)],
                 " positions, and the longest length is ", longest, "; ", detail::several(too_long_, "row"),
                 too_long_ == 1 ? " is" : " are", " too long"},
                {"choose .too_long = too_long::cut or too_long::drop, or train a longer length"});
  std::size_t rest = 0;
  for (std::size_t k = 0; k < rows_.size(); ++k) {
    const std::size_t all = rows_[k].size() + rest, size = detail::index(size_of(k));
    const bool last = k + 1 == rows_.size();
    rest = last ? 0 : all % size;
    counts_.push_back(static_cast<int>(all / size + (last && all % size != 0)));
    batches_ += counts_.back();
  }
}

GPIPE_INLINE int batches_by_length::size_of(std::size_t length) const {
  return (std::max)(1, how_.tokens / how_.lengths[length]);
}

GPIPE_COLD GPIPE_INLINE int batches_by_length::batches_of(int length) const {
  const auto found = std::find(how_.lengths.begin(), how_.lengths.end(), length);
  if (found == how_.lengths.end())
    detail::throw_error({"the length ", length, " is none of the source's"}, {"ask for one of `lengths`"});
  return counts_[static_cast<std::size_t>(found - how_.lengths.begin())];
}

namespace detail {

/// The batches of one epoch after the other.
class by_length_stream final : public data_stream {
 public:
  GPIPE_COLD by_length_stream(const batches_by_length& from, const batch_order& order)
      : from_(from), order_(order), at_(first_of(order, from)) {}

  GPIPE_COLD const batch* next() override {
    if (at_.epoch >= order_.epochs) return nullptr;
    if (begins_) begin_epoch();
    gather(parts_[index(static_cast<int>(at_.batch))]);
    begins_ = ++at_.batch == from_.batches_;
    if (begins_) at_ = {at_.epoch + 1, 0};
    return &now_;
  }

 private:
  struct part {
    std::size_t length;
    std::size_t first;  // in rows_
    int count;
  };

  GPIPE_COLD void begin_epoch() {
    constexpr std::uint32_t of_rows = ~0x100U, of_batches = ~0x101U;  // other shuffles have other numbers
    rows_.clear();
    std::vector<part> parts;
    std::vector<int> all;
    for (std::size_t k = 0; k < from_.rows_.size(); ++k) {
      all.insert(all.end(), from_.rows_[k].begin(), from_.rows_[k].end());
      if (order_.shuffled) shuffle_rows(all, {order_.seed, at_.epoch, of_rows, static_cast<std::uint32_t>(k)});
      const std::size_t size = index(from_.size_of(k));
      std::size_t at = 0;
      for (int b = 0; b < from_.counts_[k]; ++b) {
        const std::size_t count = (std::min)(size, all.size() - at);
        parts.push_back({k, rows_.size(), static_cast<int>(count)});
        rows_.insert(rows_.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                     all.begin() + static_cast<std::ptrdiff_t>(at + count));
        at += count;
      }
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at));  // the rest goes to the next length
    }
    std::vector<int> turns(parts.size());
    std::iota(turns.begin(), turns.end(), 0);
    if (order_.shuffled) shuffle_rows(turns, {order_.seed, at_.epoch, of_batches, 0});
    parts_.clear();
    for (const int turn : turns) parts_.push_back(parts[index(turn)]);
    begins_ = false;
  }

  GPIPE_COLD void gather(const part& it) {
    now_ = batch(it.count);
    gathered_.resize(from_.fields_.size());
    const int length = from_.how_.lengths[it.length];
    for (std::size_t f = 0; f < from_.fields_.size(); ++f) {
      const data_field& field = from_.fields_[f];
      const std::size_t size = from_.is_cut_[f] ? index(length) : field.size;
      const std::size_t bytes = size * bytes_of(field.type);
      gathered_[f].resize(bytes * index(it.count));
      for (int i = 0; i < it.count; ++i)
        std::memcpy(gathered_[f].data() + index(i) * bytes,
                    from_.data_.bytes(f).data() + index(rows_[it.first + index(i)]) * field.row_bytes(), bytes);
      if (field.name == "lengths" && field.type == dtype::int32)
        for (std::size_t i = 0; i < gathered_[f].size(); i += sizeof(std::int32_t))
          if (auto& its = *reinterpret_cast<std::int32_t*>(gathered_[f].data() + i); its > length) its = length;
      now_.add({field.name, gathered_[f].data(), size * index(it.count), field.type, field.unread});
    }
    now_.named(rows_.data() + it.first);
  }

  const batches_by_length& from_;
  const batch_order order_;
  data_position at_;
  bool begins_ = true;
  std::vector<int> rows_;  // of the epoch's batches
  std::vector<part> parts_;
  std::vector<std::vector<std::byte>> gathered_;  // [field]
  batch now_{0};
};

}  // namespace detail

GPIPE_INLINE std::unique_ptr<data_stream> batches_by_length::open(const batch_order& order) const {
  return std::make_unique<detail::by_length_stream>(*this, order);
}

}  // namespace gpipe
