#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

class by_length_stream;

}  // namespace detail

/// The treatment of a sequence that is longer than the longest length.
enum class too_long : std::uint8_t {
  refuse,  ///< the constructor throws: the error has the first such row, and their number
  cut,     ///< its first positions are read; a field "lengths" counts no more than these
  drop,    ///< no batch has it
};

struct by_length_options {
  std::vector<int> lengths{};  ///< ascending, as in the training's `lengths<net, 16, 32, 64>`
  int tokens = 1024;           ///< in a batch, with padding: tokens / length samples, and at least one
  gpipe::too_long too_long = gpipe::too_long::refuse;
  /// The fields with an element for each position, which are cut to the length. Empty: all fields whose rows are
  /// as large as the rows of "inputs".
  std::vector<std::string> fields{};
};

/// Sequences of a dataset, in batches of one length each. A sequence goes to the shortest length that holds it, and a
/// batch has as many of them as `tokens` positions hold:
///
///     const batches_by_length data(pairs, words, {.lengths = {16, 32, 64}, .tokens = 2048});
///     fit(training, data, {.epochs = 3, .seed = 1});       // batches of 128 x 16, 64 x 32 and 32 x 64 tokens
///
/// The rows of the dataset are padded to the longest length or further; `words[i]` is the number of positions of row i
/// that count. The sequences of a length that fill no batch go to the next longer one, so only one batch of an epoch is
/// smaller. If shuffled, the order of the sequences of each length, and of the batches, is a function of seed and
/// epoch alone, so a stopped training resumes exactly. The source chooses the size of its batches, so
/// `fit_options::batch` is ignored.
class batches_by_length final : public data_source {
 public:
  /// `data` must outlive this object. Throws `error` if the lengths do not ascend, a field has shorter rows than the
  /// longest, a number of positions is missing or negative, or a sequence is too long and is to be refused.
  batches_by_length(const dataset& data, std::span<const int> positions, by_length_options options);

  /// The samples of an epoch, without dropped ones.
  int samples() const override { return samples_; }
  own_batches own() const override { return {batches_, options_.tokens}; }
  GPIPE_INLINE std::unique_ptr<data_stream> open(const batch_order& order) const override;

  /// The batches of an epoch with this length. Throws `error` if it is none of the lengths.
  int batches_of(int length) const;
  /// Sequences longer than the longest length, which were cut or dropped.
  int too_long() const { return too_long_; }

 private:
  friend class detail::by_length_stream;
  int size_of(std::size_t length) const;

  const dataset& data_;
  by_length_options options_;
  std::vector<data_field> fields_;
  std::vector<bool> is_cut_;            // [field]
  std::vector<std::vector<int>> rows_;  // [length]
  std::vector<int> counts_;             // [length], of batches
  int samples_ = 0, too_long_ = 0;
  long batches_ = 0;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/batches_by_length-inl.hpp>
#endif
