#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/data/generated_data.hpp>

namespace gpipe {

/// How the pictures of a field are changed in each epoch.
struct picture_changes {
  int height, width, channels = 1;  ///< a row of the field has height x width pixels of `channels` neighbouring numbers
  int shift = 0;        ///< moved by -shift ... shift pixels in each direction: a random crop of a padded picture
  bool mirror = false;  ///< left and right exchanged, in half of the cases
  float border = 0;     ///< what moves in
  std::uint64_t seed = 0;
  std::string field = "inputs";
  /// A field with a number for each pixel, such as a U-Net's labels, which moves with the picture; 0 moves in. Empty:
  /// none.
  std::string mask{};
};

/// A dataset whose pictures are moved and mirrored anew in every epoch. The change of a picture is a function of (seed,
/// epoch, sample), so a training has the same bits for every number of stages, and goes on exactly. One thread makes
/// the next batch while the step runs. The dataset must outlive it.
///
///     fit(training, augmented_pictures(train, {.height = 32, .width = 32, .channels = 3, .shift = 4, .mirror = true}))
class augmented_pictures final : public data_source {
 public:
  /// Throws `error` if the dataset has no such fields of floats, if their rows are no pictures of these extents, or if
  /// shift is not from 0 to the larger extent.
  augmented_pictures(const dataset& pictures, picture_changes changes);
  augmented_pictures(const dataset&&, picture_changes) = delete;

  int samples() const override { return source_.samples(); }
  std::unique_ptr<data_stream> open(const batch_order& order) const override { return source_.open(order); }

 private:
  generated_data source_;
};

#if GPIPE_BODIES
namespace detail {

/// Writes a changed copy of a picture. `words` are random.
GPIPE_COLD inline void change_picture(const picture_changes& how, const random_words& words, const float* from,
                                      float* to) {
  const auto moved = [&](std::uint32_t word) {
    return static_cast<int>(word % static_cast<std::uint32_t>(2 * how.shift + 1)) - how.shift;
  };
  const int down = moved(words.word[0]), across = moved(words.word[1]);
  const bool mirrored = how.mirror && (words.word[2] >> 31) != 0;
  for (int y = 0; y < how.height; ++y)
    for (int x = 0; x < how.width; ++x, to += how.channels) {
      const int row = y - down, column = (mirrored ? how.width - 1 - x : x) - across;
      if (row < 0 || row >= how.height || column < 0 || column >= how.width) std::fill_n(to, how.channels, how.border);
      else std::copy_n(from + (std::ptrdiff_t{row} * how.width + column) * how.channels, how.channels, to);
    }
}

GPIPE_COLD inline generated_data changing_source(const dataset& pictures, const picture_changes& how) {
  if (how.height < 1 || how.width < 1 || how.channels < 1)
    throw_error({"height, width and channels are ", how.height, ", ", how.width, " and ", how.channels},
                {"choose at least 1 of each"});
  if (const int most = (std::max)(how.height, how.width); how.shift < 0 || how.shift > most)
    throw_error({"shift is ", how.shift, ", and pictures have ", how.height, " x ", how.width, " pixels"},
                {"choose a number of pixels from 0 to ", most});
  picture_changes of_mask = how;
  of_mask.channels = 1, of_mask.border = 0;
  const std::vector<data_field> fields = pictures.fields();
  const auto check = [&](const std::string& name, int channels) {
    static_cast<void>(pictures.field<float>(name));  // throws unless there is such a field of floats
    const std::size_t size =
        static_cast<std::size_t>(how.height) * static_cast<std::size_t>(how.width) * static_cast<std::size_t>(channels);
    for (const data_field& it : fields)
      if (it.name == name && it.size != size)
        throw_error({"field ", detail::quoted(name), " has ", it.size, " numbers a sample, and a picture of ",
                     how.height, " x ", how.width, " pixels and ", channels, " channels has ", size},
                    {"give the extents of the pictures"});
  };
  check(how.field, how.channels);
  if (!how.mask.empty()) check(how.mask, 1);
  return generated_data(pictures.samples(), fields, [=, &pictures](const batch_request& wanted) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::size_t bytes = fields[f].row_bytes();
      const auto rows = wanted.bytes(f);
      for (std::size_t i = 0; i < wanted.samples().size(); ++i) {
        const auto sample = static_cast<std::size_t>(wanted.samples()[i]);
        const std::byte* const from = pictures.bytes(f).data() + sample * bytes;
        std::byte* const to = rows.data() + i * bytes;
        if (fields[f].name == how.field || fields[f].name == how.mask)
          change_picture(fields[f].name == how.field ? how : of_mask,
                         draw({.seed = how.seed, .step = wanted.at().epoch}, static_cast<std::uint32_t>(sample), 0),
                         reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
        else std::memcpy(to, from, bytes);
      }
    }
  });
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE augmented_pictures::augmented_pictures(const dataset& pictures, picture_changes changes)
    : source_(detail::changing_source(pictures, changes)) {}
#endif

}  // namespace gpipe
