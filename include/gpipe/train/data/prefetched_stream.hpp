#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/train/data/batch_request.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe::detail {

/// Fills batches, in one thread of a stream's.
class batch_filler {
 public:
  batch_filler() = default;
  batch_filler(const batch_filler&) = delete;
  batch_filler& operator=(const batch_filler&) = delete;
  virtual ~batch_filler() = default;
  virtual void fill(const batch_request& wanted) = 0;
  /// Before the first batch of a window: its rows, and those of the next, will be read.
  virtual void enter(const row_order&) {}
};

/// Batches that a thread fills while the step runs. There are two buffers: the caller reads one, the thread fills the
/// other.
///
///     thread   fill 0 | fill 1 | wait   | fill 2 | wait  | fill 3
///     caller   wait   | step on 0       | step on 1      | step on 2
///
/// What the filler throws, `next` throws, when it comes to that batch, and from then on.
class prefetched_stream final : public data_stream {
 public:
  prefetched_stream(int samples, const std::vector<data_field>& fields, const block_shuffle& shuffle,
                    const batch_order& order, std::unique_ptr<batch_filler> filler);
  /// Waits for the batch that is being filled.
  GPIPE_INLINE ~prefetched_stream() override;

  GPIPE_INLINE const batch* next() override;

 private:
  struct buffer {
    std::vector<int> samples{};
    std::vector<std::vector<std::byte>> rows{};  // of each field
    batch whole{0}, last{0};                     // all samples, or those of an epoch's last batch
    const batch* filled = nullptr;
    bool full = false;  // the thread has filled it, and the caller has not left it
  };

  void run();
  void fill(buffer& into, data_position at);

  const int samples_;
  const std::vector<data_field> fields_;
  const batch_order order_;
  data_position at_;
  row_order rows_;
  std::unique_ptr<batch_filler> filler_;
  buffer buffers_[2];
  int reads_ = 0;         // the buffer of the caller's next batch
  bool holds_ = false;    // the caller has a batch, in the other buffer
  bool ended_ = false;    // the thread fills no more
  bool stopped_ = false;  // the caller wants no more
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses all of the above
};

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE prefetched_stream::prefetched_stream(int samples, const std::vector<data_field>& fields,
                                                             const block_shuffle& shuffle, const batch_order& order,
                                                             std::unique_ptr<batch_filler> filler)
    : samples_(samples),
      fields_(fields),
      order_(order),
      at_(first_of(order, samples)),
      rows_(samples, shuffle),
      filler_(std::move(filler)) {
  if (fields_.empty()) throw_error({"the source has no fields"}, {"give at least one"});
  const int size = (std::min)(order.size, samples), rest = samples % size;
  for (buffer& b : buffers_) {
    b.samples.resize(index(size));
    for (const data_field& f : fields_) b.rows.emplace_back(index(size) * f.row_bytes());
    const auto of = [&](int count) {
      batch made(count);
      for (std::size_t f = 0; f < fields_.size(); ++f)
        made.add(
            {fields_[f].name, b.rows[f].data(), index(count) * fields_[f].size, fields_[f].type, fields_[f].unread});
      made.named(b.samples.data());
      return made;
    };
    b.whole = of(size);
    b.last = of(rest > 0 ? rest : size);
  }
  thread_ = std::thread([this] { run(); });
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
    for (int b = 0; at_.epoch < order_.epochs; b = 1 - b) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !buffers_[b].full || stopped_; });
        if (stopped_) return;
      }
      if (begins) rows_.begin(order_.shuffled, order_.seed, at_.epoch);
      fill(buffers_[b], at_);
      begins = ++at_.batch == count;
      if (begins) at_ = {at_.epoch + 1, 0};
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

GPIPE_INLINE void prefetched_stream::fill(buffer& into, data_position at) {
  const int size = buffers_[0].whole.samples(), first = static_cast<int>(at.batch * order_.size);
  const int count = (std::min)(size, samples_ - first);
  const std::span<int> wanted(into.samples.data(), index(count));
  if (rows_.rows(first, wanted)) filler_->enter(rows_);
  into.filled = count == size ? &into.whole : &into.last;
  filler_->fill({wanted, at, fields_, into.rows});
}
#endif

}  // namespace gpipe::detail
