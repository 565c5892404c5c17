#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/train/data/batch_request.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

namespace detail {

/// Batches that a thread fills while the step runs. There are two buffers: the caller reads one, the thread fills the
/// other.
///
///     thread   fill 0 | fill 1 | wait   | fill 2 | wait  | fill 3
///     caller   wait   | step on 0       | step on 1      | step on 2
///
/// `next` throws an exception of `fill` when it reaches that batch, and in every later call.
class prefetched_stream final : public data_stream {
 public:
  using fill_function = std::function<void(const batch_request&)>;
  /// Called before the first batch of a window, whose rows will be read, and then the rows of the next window.
  using enter_function = std::function<void(const row_order&)>;

  prefetched_stream(int samples, const std::vector<data_field>& fields, const block_shuffle& shuffle,
                    const batch_order& order, fill_function fill, enter_function enter = {});
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
  const fill_function fill_;
  const enter_function enter_;
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

}  // namespace detail

/// Samples that a function makes: it decodes a file, augments an image, draws numbers. One thread calls it, and
/// prepares the next batch while the step runs.
///
///     const generated_data data(50'000, {{"inputs", 64}, {"labels", 1, dtype::int32}}, [&](const batch_request& r) {
///       for (std::size_t i = 0; i < r.samples().size(); ++i)
///         r.rows<std::int32_t>("labels")[i] = decode(r.samples()[i], r.rows<float>("inputs").subspan(64 * i, 64));
///     });
///
/// The function fills all rows of all fields; rows that it does not write hold an earlier batch. The call that reads
/// the data throws its exceptions, of any type. If its result depends on the request alone, a resumed training has the
/// same bits.
class generated_data final : public data_source {
 public:
  using fill_function = detail::prefetched_stream::fill_function;

  /// An epoch has `samples` samples, in the order that `shuffle` defines.
  generated_data(int samples, std::vector<data_field> fields, fill_function fill, block_shuffle shuffle = {})
      : samples_(samples), fields_(std::move(fields)), fill_(std::move(fill)), shuffle_(shuffle) {}

  int samples() const override { return samples_; }
  GPIPE_INLINE std::unique_ptr<data_stream> open(const batch_order& order) const override;

 private:
  int samples_;
  std::vector<data_field> fields_;
  fill_function fill_;
  block_shuffle shuffle_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/data/generated_data-inl.hpp>
#endif
