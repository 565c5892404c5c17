#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/tools/images/augmented_images.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

/// Writes a changed copy of an image. `words` are random.
GPIPE_COLD inline void change_image(const image_changes& how, const random_words& words, const float* from, float* to) {
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

GPIPE_COLD inline generated_data changing_source(const dataset& images, const image_changes& how) {
  if (how.height < 1 || how.width < 1 || how.channels < 1)
    throw_error({"height, width and channels are ", how.height, ", ", how.width, " and ", how.channels},
                {"choose at least 1 of each"});
  if (const int max = (std::max)(how.height, how.width); how.shift < 0 || how.shift > max)
    throw_error({"shift is ", how.shift, ", and images have ", how.height, " x ", how.width, " pixels"},
                {"choose a number of pixels from 0 to ", max});
  image_changes of_mask = how;
  of_mask.channels = 1, of_mask.border = 0;
  const std::vector<data_field> fields = images.fields();
  const auto check = [&](const std::string& name, int channels) {
    static_cast<void>(images.field<float>(name));  // throws unless there is such a field of floats
    const std::size_t size =
        static_cast<std::size_t>(how.height) * static_cast<std::size_t>(how.width) * static_cast<std::size_t>(channels);
    for (const data_field& it : fields)
      if (it.name == name && it.size != size)
        throw_error({"field ", detail::quoted(name), " has ", it.size, " numbers a sample, and an image of ",
                     how.height, " x ", how.width, " pixels and ", channels, " channels has ", size},
                    {"give the extents of the images"});
  };
  check(how.field, how.channels);
  if (!how.mask.empty()) check(how.mask, 1);
  return generated_data(images.samples(), fields, [=, &images](const batch_request& wanted) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::size_t bytes = fields[f].row_bytes();
      const auto rows = wanted.bytes(f);
      for (std::size_t i = 0; i < wanted.samples().size(); ++i) {
        const auto sample = static_cast<std::size_t>(wanted.samples()[i]);
        const std::byte* const from = images.bytes(f).data() + sample * bytes;
        std::byte* const to = rows.data() + i * bytes;
        if (fields[f].name == how.field || fields[f].name == how.mask)
          change_image(fields[f].name == how.field ? how : of_mask,
                       draw({.seed = how.seed, .step = wanted.at().epoch}, static_cast<std::uint32_t>(sample), 0),
                       reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
        else std::memcpy(to, from, bytes);
      }
    }
  });
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE augmented_images::augmented_images(const dataset& images, image_changes changes)
    : source_(detail::changing_source(images, changes)) {}

}  // namespace gpipe
