#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE std::vector<data_field> dataset::fields() const {
  std::vector<data_field> found;
  for (const column& c : columns_) found.push_back({c.name, c.size, c.type, c.unread});
  return found;
}

GPIPE_COLD GPIPE_INLINE void dataset::add(std::string name, std::size_t size, std::size_t elements, dtype type,
                                          const void* rows) {
  using detail::throw_error;
  if (size == 0 || elements == 0 || elements % size != 0)
    throw_error(
        {"field ", detail::quoted(name), " has ", elements, " elements, which is no multiple of its row of ", size},
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

GPIPE_COLD GPIPE_INLINE dataset::stream::stream(const dataset& data, int size, std::vector<int> order)
    : data_(&data), size_(size), order_(std::move(order)) {
  if (size < 1) detail::throw_error({"the batch size is ", size}, {"choose at least 1"});
  if (data.samples_ < 1)
    detail::throw_error({"the dataset has no samples"}, {"add its fields by with(name, size, rows)"});
  for (const column& c : data.columns_)
    gathered_.emplace_back(static_cast<std::size_t>((std::min)(size, data.samples_)) * c.size *
                           detail::bytes_of(c.type));
}

GPIPE_INLINE batch dataset::stream::gather(int first) {
  const int count = (std::min)(size_, static_cast<int>(order_.size()) - first);
  batch result(count);
  for (std::size_t c = 0; c < gathered_.size(); ++c) {
    const column& source = data_->columns_[c];
    const std::size_t row = source.size * detail::bytes_of(source.type);
    for (int i = 0; i < count; ++i)
      std::memcpy(gathered_[c].data() + static_cast<std::size_t>(i) * row,
                  source.rows.data() + static_cast<std::size_t>(order_[static_cast<std::size_t>(first + i)]) * row,
                  row);
    result.add(
        {source.name, gathered_[c].data(), static_cast<std::size_t>(count) * source.size, source.type, source.unread});
  }
  return result.named(order_.data() + first);
}

GPIPE_COLD GPIPE_INLINE dataset::stream dataset::batches(int size) const& {
  std::vector<int> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  return {*this, size, std::move(order)};
}

GPIPE_COLD GPIPE_INLINE dataset::stream dataset::shuffled(int size, std::uint64_t seed, std::uint64_t epoch) const& {
  std::vector<int> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  detail::shuffle_rows(order, {seed, epoch, ~0U, 0});
  return {*this, size, std::move(order)};
}

GPIPE_COLD GPIPE_INLINE dataset::column& dataset::find(std::string_view name, dtype type) {
  std::string known;
  for (column& c : columns_) {
    known.append(known.empty() ? "" : ", ").append(c.name);
    if (c.name != name) continue;
    if (c.type == type) return c;
    detail::throw_error({"field ", detail::quoted(name), " is ", name_of(c.type)}, {"read it as that"});
  }
  detail::throw_error({"the dataset has no field ", detail::quoted(name)}, {"it has ", known.empty() ? "none" : known});
}

GPIPE_COLD GPIPE_INLINE dataset dataset::select(std::span<const int> rows) const {
  if (rows.empty()) detail::throw_error({"no rows are selected"}, {"select at least 1"});
  for (const int row : rows)
    if (row < 0 || row >= samples_)
      detail::throw_error({"the dataset has no row ", row}, {"rows are 0 to ", samples_ - 1});
  dataset part;
  part.samples_ = static_cast<int>(rows.size());
  for (const column& source : columns_) {
    const std::size_t bytes = source.size * detail::bytes_of(source.type);
    column& target = part.columns_.emplace_back(column{source.name, source.size, source.type, {}, source.unread});
    target.rows.resize(rows.size() * bytes);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(target.rows.data() + i * bytes, source.rows.data() + detail::index(rows[i]) * bytes, bytes);
  }
  return part;
}

GPIPE_COLD GPIPE_INLINE std::pair<dataset, dataset> dataset::split(double fraction, std::uint64_t seed) const {
  if (!(fraction > 0 && fraction < 1) || detail::is_nan(fraction))
    detail::throw_error({"the fraction is ", std::to_string(fraction)}, {"choose one between 0 and 1, without both"});
  if (samples_ < 2)
    detail::throw_error({"the dataset has ", samples_, " rows, too few for two parts"}, {"give at least 2"});
  std::vector<int> order(detail::index(samples_));
  std::iota(order.begin(), order.end(), 0);
  detail::shuffle_rows(order, {seed, 0, ~2U, 0});
  const long nearest = std::lround(fraction * samples_);
  const auto middle = order.begin() + std::clamp(nearest, 1L, samples_ - 1L);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  return {select({order.begin(), middle}), select({middle, order.end()})};
}

namespace detail {

/// Consecutive passes over a dataset.
class dataset_stream final : public data_stream {
 public:
  dataset_stream(const dataset& data, const batch_order& order)
      : data_(data), order_(order), position_(first_of(order, data.samples())) {}

  GPIPE_COLD const batch* next() override {
    if (position_.epoch >= order_.epochs) return nullptr;
    if (!pass_ || ended_)
      pass_.emplace(order_.shuffled ? data_.shuffled(order_.size, order_.seed, position_.epoch)
                                    : data_.batches(order_.size));
    batch_ = pass_->at(position_.batch);
    ended_ = ++position_.batch == pass_->count();
    if (ended_) position_ = {position_.epoch + 1, 0};
    return &batch_;
  }

 private:
  const dataset& data_;
  const batch_order order_;
  data_position position_;
  std::optional<dataset::stream> pass_;
  bool ended_ = false;
  batch batch_{0};
};

}  // namespace detail

GPIPE_INLINE std::unique_ptr<data_stream> dataset::open(const batch_order& order) const {
  return std::make_unique<detail::dataset_stream>(*this, order);
}

}  // namespace gpipe
