#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/tools/images/image_set.hpp>

namespace gpipe {

/// Reads files of CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html), such as data_batch_1.bin to
/// data_batch_5.bin, or test_batch.bin:
///
///     byte   0      1 ... 1024   ... 2048   ... 3072    then the next image
///            label  red          green      blue        each 32 x 32, row after row
///
/// Throws `error` unless there is a file, and each has whole images with labels from 0 to 9.
GPIPE_COLD inline image_set read_cifar10(const std::vector<std::string>& paths) {
  constexpr std::size_t pixels = 32 * 32, bytes = 1 + 3 * pixels;
  image_set images{.channels = 3, .height = 32, .width = 32};
  images.classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  if (paths.empty()) detail::throw_error({"there is no file of CIFAR-10"}, {"give data_batch_1.bin, say"});
  for (const std::string& path : paths) {
    const detail::mapped_file file(path);
    if (file.size() % bytes != 0)
      throw error(detail::concat({"has ", file.size(), " bytes, which are not whole images of ", bytes}),
                  file.size() % (bytes + 1) == 0 ? "give files of CIFAR-10; this one may be of CIFAR-100"
                                                 : "give a whole file of CIFAR-10's binary version",
                  {.file = path});
    for (std::size_t n = 0; n < file.size() / bytes; ++n) {
      const std::byte* const image = file.data() + n * bytes;
      const int label = std::to_integer<int>(*image);
      if (label > 9)
        throw error(detail::concat({"has the label ", label, " at image ", n}),
                    "give a file of CIFAR-10's binary version, whose labels go from 0 to 9", {.file = path});
      images.labels.push_back(label);
      for (std::size_t i = 0; i < pixels; ++i)
        for (std::size_t c = 0; c < 3; ++c)
          images.pixels.push_back(static_cast<float>(std::to_integer<int>(image[1 + c * pixels + i])) / 255.0F);
    }
  }
  return images;
}

}  // namespace gpipe
