#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/train/data/batch_request.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe::detail {

/// Fills batches on the thread of a stream.
class batch_filler {
 public:
  batch_filler() = default;
  batch_filler(const batch_filler&) = delete;
  batch_filler& operator=(const batch_filler&) = delete;
  virtual ~batch_filler() = default;
  virtual void fill(const batch_request& wanted) = 0;
  /// Called before the first batch of a window, whose rows will be read, and then the rows of the next window.
  virtual void enter(const row_order&) {}
};

/// Batches that a thread fills while the step runs. There are two buffers: the caller reads one, the thread fills the
/// other.
///
///     thread   fill 0 | fill 1 | wait   | fill 2 | wait  | fill 3
///     caller   wait   | step on 0       | step on 1      | step on 2
///
/// `next` throws an exception of the filler when it reaches that batch, and in every later call.
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
    std::vector<std::vector<std::byte>> rows{};  // [field]
    batch whole{0}, last{0};                     // all samples, or the samples of an epoch's last batch
    const batch* filled = nullptr;
    bool full = false;  // filled by the thread, and not yet released by the caller
  };

  void run();
  void fill(buffer& target, data_position position);

  const int samples_;
  const std::vector<data_field> fields_;
  const batch_order order_;
  data_position position_;
  row_order rows_;
  std::unique_ptr<batch_filler> filler_;
  buffer buffers_[2];
  int reads_ = 0;         // the buffer of the caller's next batch
  bool holds_ = false;    // the caller has a batch, in the other buffer
  bool ended_ = false;    // the thread fills no more
  bool stopped_ = false;  // the caller reads no more
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses all members above
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/tools/data/prefetched_stream-inl.hpp>
#endif
