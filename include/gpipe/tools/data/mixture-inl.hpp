#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/tools/data/mixture.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

namespace detail {

/// A sample of a mixture: the part, and the row in it.
struct mixed_sample {
  int part, row;
};

/// The samples of a mixture, epoch by epoch. Keeps one epoch's samples, which streams of several threads may request.
class mixture_order {
 public:
  GPIPE_COLD mixture_order(std::vector<mixture_part> parts, const mixture_options& options)
      : parts_(std::move(parts)), options_(options) {
    if (parts_.empty()) throw_error({"the mixture has no parts"}, {"give at least one dataset and its name"});
    if (!(options.temperature > 0) || !is_finite(options.temperature))
      throw_error({"the temperature is ", significant(options.temperature, 6)},
                  {"choose one above 0: 1 draws by size, a larger one more alike"});
    if (options.samples < 0) throw_error({"samples is ", options.samples}, {"choose at least 1, or 0 for all"});
    std::int64_t total = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      require_part(p);
      total += parts_[p].data->samples();
      sums_.push_back(math::pow(static_cast<double>(parts_[p].data->samples()), 1 / options.temperature) +
                      (p > 0 ? sums_.back() : 0));
    }
    if (options.samples == 0 && total > (std::numeric_limits<int>::max)())
      throw_error({"the parts have ", total, " samples together"}, {"choose samples, which an int counts"});
    samples_ = options.samples > 0 ? options.samples : static_cast<int>(total);
  }

  int samples() const { return samples_; }
  const std::vector<mixture_part>& parts() const { return parts_; }
  double probability(std::size_t part) const { return (sums_[part] - (part > 0 ? sums_[part - 1] : 0)) / sums_.back(); }

  GPIPE_COLD std::shared_ptr<const std::vector<mixed_sample>> epoch(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (!samples_of_epoch_ || number_ != number) {
      samples_of_epoch_ = std::make_shared<const std::vector<mixed_sample>>(made(number));
      number_ = number;
    }
    return samples_of_epoch_;
  }

 private:
  void require_part(std::size_t p) const {
    const mixture_part& part = parts_[p];
    if (part.data == nullptr || part.data->samples() < 1)
      throw_error({"part ", detail::quoted(part.name), " of the mixture has no samples"}, {"leave it out"});
    for (std::size_t earlier = 0; earlier < p; ++earlier)
      if (parts_[earlier].name == part.name)
        throw_error({"two parts of the mixture have the name ", detail::quoted(part.name)}, {"give each its own"});
    const auto first_fields = parts_.front().data->fields(), fields = part.data->fields();
    const auto equal = [](const data_field& a, const data_field& b) {
      return a.name == b.name && a.size == b.size && a.type == b.type && a.unread == b.unread;
    };
    if (!std::equal(first_fields.begin(), first_fields.end(), fields.begin(), fields.end(), equal))
      throw_error({"part ", detail::quoted(part.name), " of the mixture has other fields than ",
                   detail::quoted(parts_.front().name)},
                  {"give all parts the same fields, of the same types and sizes, in one order"});
  }

  std::vector<mixed_sample> made(std::uint64_t number) const {
    std::vector<std::vector<int>> rows(parts_.size());
    std::vector<std::size_t> next(parts_.size());
    std::vector<std::uint32_t> rounds(parts_.size());
    std::vector<mixed_sample> samples;
    samples.reserve(index(samples_));
    for (int i = 0; i < samples_; ++i) {
      const random_words words =
          draw({.seed = options_.seed, .step = number, .layer_index = ~3U}, static_cast<std::uint32_t>(i), 0);
      const std::uint64_t word = std::uint64_t{words.word[0]} << 32 | words.word[1];
      const double threshold = static_cast<double>(word >> 11) * 0x1p-53 * sums_.back();
      const auto part =
          (std::min)(static_cast<std::size_t>(std::upper_bound(sums_.begin(), sums_.end(), threshold) - sums_.begin()),
                     parts_.size() - 1);
      if (next[part] == rows[part].size()) {
        rows[part].resize(index(parts_[part].data->samples()));
        std::iota(rows[part].begin(), rows[part].end(), 0);
        shuffle_rows(rows[part], {options_.seed, number, ~4U - rounds[part]++, static_cast<std::uint32_t>(part)});
        next[part] = 0;
      }
      samples.push_back({static_cast<int>(part), rows[part][next[part]++]});
    }
    return samples;
  }

  std::vector<mixture_part> parts_;
  mixture_options options_;
  std::vector<double> sums_;  // of n^(1 / T) up to each part
  int samples_ = 0;
  std::mutex mutex_;
  std::uint64_t number_ = 0;
  std::shared_ptr<const std::vector<mixed_sample>> samples_of_epoch_;
};

GPIPE_COLD inline generated_data mixing_source(const std::shared_ptr<mixture_order>& order) {
  const std::vector<data_field> fields = order->parts().front().data->fields();
  return generated_data(order->samples(), fields, [order, fields](const batch_request& wanted) {
    const auto epoch = order->epoch(wanted.at().epoch);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::size_t bytes = fields[f].row_bytes();
      std::byte* target = wanted.bytes(f).data();
      for (const int sample : wanted.samples()) {
        const mixed_sample& source = (*epoch)[index(sample)];
        std::memcpy(target, order->parts()[index(source.part)].data->bytes(f).data() + index(source.row) * bytes,
                    bytes);
        target += bytes;
      }
    }
  });
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE mixture::mixture(std::vector<mixture_part> parts, const mixture_options& options)
    : order_(std::make_shared<detail::mixture_order>(std::move(parts), options)),
      source_(detail::mixing_source(order_)) {}

GPIPE_COLD GPIPE_INLINE double mixture::probability(std::string_view part) const {
  for (std::size_t p = 0; p < order_->parts().size(); ++p)
    if (order_->parts()[p].name == part) return order_->probability(p);
  detail::throw_error({"the mixture has no part ", detail::quoted(part)}, {"ask for one that it was made of"});
}

GPIPE_COLD GPIPE_INLINE std::vector<int> mixture::drawn(std::uint64_t epoch) const {
  std::vector<int> counts(order_->parts().size());
  for (const detail::mixed_sample& sample : *order_->epoch(epoch)) ++counts[detail::index(sample.part)];
  return counts;
}

}  // namespace gpipe
