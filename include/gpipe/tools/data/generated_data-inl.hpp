#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/transport/in_process/thread.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE prefetched_stream::prefetched_stream(int samples, const std::vector<data_field>& fields,
                                                             const block_shuffle& shuffle, const batch_order& order,
                                                             fill_function fill, enter_function enter)
    : samples_(samples),
      fields_(fields),
      order_(order),
      position_(first_of(order, samples)),
      rows_(samples, shuffle),
      fill_(std::move(fill)),
      enter_(std::move(enter)) {
  if (fields_.empty()) throw_error({"the source has no fields"}, {"give at least one"});
  const int size = (std::min)(order.size, samples), rest = samples % size;
  for (buffer& b : buffers_) {
    b.samples.resize(index(size));
    for (const data_field& f : fields_) b.rows.emplace_back(index(size) * f.row_bytes());
    const auto batch_of = [&](int count) {
      batch made(count);
      for (std::size_t f = 0; f < fields_.size(); ++f)
        made.add(
            {fields_[f].name, b.rows[f].data(), index(count) * fields_[f].size, fields_[f].type, fields_[f].unread});
      made.named(b.samples.data());
      return made;
    };
    b.whole = batch_of(size);
    b.last = batch_of(rest > 0 ? rest : size);
  }
  thread_ = start_thread("the reading of data", [this] { run(); });
}

GPIPE_INLINE prefetched_stream::~prefetched_stream() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

GPIPE_INLINE const batch* prefetched_stream::next() {
  std::unique_lock lock(mutex_);
  if (holds_) {
    buffers_[1 - reads_].full = false;
    holds_ = false;
    changed_.notify_all();
  }
  buffer& wanted = buffers_[reads_];
  changed_.wait(lock, [&] { return wanted.full || ended_; });
  if (!wanted.full) {
    if (failure_) std::rethrow_exception(failure_);
    return nullptr;
  }
  holds_ = true;
  reads_ = 1 - reads_;
  return wanted.filled;
}

GPIPE_INLINE void prefetched_stream::run() {
  try {
    const long count = batches_of(samples_, order_.size);
    bool begins = true;
    for (int b = 0; position_.epoch < order_.epochs; b = 1 - b) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !buffers_[b].full || stopped_; });
        if (stopped_) return;
      }
      if (begins) rows_.begin(order_.shuffled, order_.seed, position_.epoch);
      fill(buffers_[b], position_);
      begins = ++position_.batch == count;
      if (begins) position_ = {position_.epoch + 1, 0};
      const std::lock_guard lock(mutex_);
      buffers_[b].full = true;
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

GPIPE_INLINE void prefetched_stream::fill(buffer& target, data_position position) {
  const int size = buffers_[0].whole.samples(), first = static_cast<int>(position.batch * order_.size);
  const int count = (std::min)(size, samples_ - first);
  const std::span<int> wanted(target.samples.data(), index(count));
  if (rows_.rows(first, wanted) && enter_) enter_(rows_);
  target.filled = count == size ? &target.whole : &target.last;
  fill_({wanted, position, fields_, target.rows});
}

}  // namespace detail

GPIPE_INLINE std::unique_ptr<data_stream> generated_data::open(const batch_order& order) const {
  return std::make_unique<detail::prefetched_stream>(samples_, fields_, shuffle_, order,
                                                     [this](const batch_request& wanted) { fill_(wanted); });
}

}  // namespace gpipe
