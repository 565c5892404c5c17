#pragma once

#include <cstdint>
#include <memory>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/runtime/step/batch.hpp>

namespace gpipe {

/// The batches of a stream: all epochs from `first` on, without a gap between two epochs.
struct batch_order {
  int size = 32;          ///< samples in a batch; the last batch of an epoch may be smaller
  bool shuffled = false;  ///< by seed and epoch, else in the order of the data
  std::uint64_t seed = 0;
  data_position first{};
  std::uint64_t epochs = 1;  ///< the stream ends before this epoch
};

/// Batches, one after the other.
class data_stream {
 public:
  data_stream() = default;
  data_stream(const data_stream&) = delete;
  data_stream& operator=(const data_stream&) = delete;
  virtual ~data_stream() = default;

  /// The next batch, valid until the next call. Null after the last one.
  virtual const batch* next() = 0;
};

/// The batches of a source that chooses their sizes itself.
struct own_batches {
  long count = 0;  ///< of an epoch; 0: the source gives batches of the order's size
  int tokens = 0;  ///< in a batch, at most: a position is one in batches of this size
};

// change: a data source
/// The data that `fit`, `evaluate` and `predict` read: a `dataset`, `mapped_data`, `generated_data`, or your own class.
/// The batch at a position is a function of the order alone, so a stream can begin anywhere.
class data_source {
 public:
  virtual ~data_source() = default;
  virtual int samples() const = 0;
  /// The source must outlive the stream.
  virtual std::unique_ptr<data_stream> open(const batch_order& order) const = 0;
  /// A source whose batches differ in size, such as `batches_by_length`, returns their number. Their samples add up to
  /// `samples()`, and it ignores `batch_order::size`.
  virtual own_batches own() const { return {}; }

 protected:
  data_source() = default;
  data_source(const data_source&) = default;
  data_source& operator=(const data_source&) = default;
};

namespace detail {

/// The number of batches of an epoch.
inline long batches_of(int samples, int size) { return samples / size + (samples % size != 0); }
inline long batches_of(const data_source& data, int size) {
  const long count = data.own().count;
  return count > 0 ? count : batches_of(data.samples(), size);
}

/// The first batch's position if the source has batches and the order is valid; else throws.
data_position first_of(const batch_order& order, int samples);
data_position first_of(const batch_order& order, const data_source& data);

/// The stream that the source opens. Throws if it opens none.
std::unique_ptr<data_stream> opened(const data_source& data, const batch_order& order);

/// The next batch of a stream: the batch with this number in an epoch of `samples` samples, `size` in each batch and
/// the rest in the last; 0: batches of any size. Throws unless the stream gives it with as many samples.
const batch& next_batch(data_stream& stream, long number, int samples, int size);

/// Throws unless the batches of an epoch had `samples` samples.
void require_samples(long found, int samples);
/// Throws if the stream gives a batch after an epoch of `samples` samples.
void require_end(data_stream& stream, int samples);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/data_source-inl.hpp>
#endif
