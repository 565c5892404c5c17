#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/tools/data/prefetched_stream.hpp>

namespace gpipe {

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
  using fill_function = std::function<void(const batch_request&)>;

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
