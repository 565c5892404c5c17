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
GPIPE_COLD inline void change_image(const image_changes& changes, const random_words& words, const float* source,
                                    float* target) {
  const auto moved = [&](std::uint32_t word) {
    return static_cast<int>(word % static_cast<std::uint32_t>(2 * changes.shift + 1)) - changes.shift;
  };
  const int down = moved(words.word[0]), across = moved(words.word[1]);
  const bool mirrored = changes.mirror && (words.word[2] >> 31) != 0;
  for (int y = 0; y < changes.height; ++y)
    for (int x = 0; x < changes.width; ++x, target += changes.channels) {
      const int row = y - down, column = (mirrored ? changes.width - 1 - x : x) - across;
      if (row < 0 || row >= changes.height || column < 0 || column >= changes.width)
        std::fill_n(target, changes.channels, changes.border);
      else
        std::copy_n(source + (std::ptrdiff_t{row} * changes.width + column) * changes.channels, changes.channels,
                    target);
    }
}

GPIPE_COLD inline generated_data changing_source(const dataset& images, const image_changes& changes) {
  if (changes.height < 1 || changes.width < 1 || changes.channels < 1)
    throw_error({"height, width and channels are ", changes.height, ", ", changes.width, " and ", changes.channels},
                {"choose at least 1 of each"});
  if (const int max = (std::max)(changes.height, changes.width); changes.shift < 0 || changes.shift > max)
    throw_error({"shift is ", changes.shift, ", and images have ", changes.height, " x ", changes.width, " pixels"},
                {"choose a number of pixels from 0 to ", max});
  image_changes mask_changes = changes;
  mask_changes.channels = 1, mask_changes.border = 0;
  const std::vector<data_field> fields = images.fields();
  const auto check = [&](const std::string& name, int channels) {
    static_cast<void>(images.field<float>(name));  // throws unless there is such a field of floats
    const std::size_t size = static_cast<std::size_t>(changes.height) * static_cast<std::size_t>(changes.width) *
                             static_cast<std::size_t>(channels);
    for (const data_field& field : fields)
      if (field.name == name && field.size != size)
        throw_error({"field ", detail::quoted(name), " has ", field.size, " numbers a sample, and an image of ",
                     changes.height, " x ", changes.width, " pixels and ", channels, " channels has ", size},
                    {"give the extents of the images"});
  };
  check(changes.field, changes.channels);
  if (!changes.mask.empty()) check(changes.mask, 1);
  return generated_data(images.samples(), fields, [=, &images](const batch_request& wanted) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::size_t bytes = fields[f].row_bytes();
      const auto rows = wanted.bytes(f);
      for (std::size_t i = 0; i < wanted.samples().size(); ++i) {
        const auto sample = static_cast<std::size_t>(wanted.samples()[i]);
        const std::byte* const source = images.bytes(f).data() + sample * bytes;
        std::byte* const target = rows.data() + i * bytes;
        if (fields[f].name == changes.field || fields[f].name == changes.mask)
          change_image(fields[f].name == changes.field ? changes : mask_changes,
                       draw({.seed = changes.seed, .step = wanted.at().epoch}, static_cast<std::uint32_t>(sample), 0),
                       reinterpret_cast<const float*>(source), reinterpret_cast<float*>(target));
        else std::memcpy(target, source, bytes);
      }
    }
  });
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE augmented_images::augmented_images(const dataset& images, image_changes changes)
    : source_(detail::changing_source(images, changes)) {}

}  // namespace gpipe
