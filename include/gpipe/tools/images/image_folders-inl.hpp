#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/tools/images/image_folders.hpp>

namespace gpipe {

namespace detail {

/// The names in a folder, sorted, without those that begin with a dot.
GPIPE_COLD inline std::vector<std::filesystem::path> visible_entries(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().filename().string()[0] != '.') found.push_back(entry->path());
  if (failed)
    throw error("cannot be listed: " + failed.message(), "give the path of a folder", {.file = folder.string()});
  std::sort(found.begin(), found.end());
  return found;
}

/// Converts an image to this number of channels; 0: keeps them.
GPIPE_COLD inline void set_channels(image_set& image, int wanted, const std::string& path) {
  if (wanted == 0 || wanted == image.channels) return;
  std::vector<float> pixels;
  if (wanted == 3 && image.channels == 1)
    for (const float grey : image.pixels) pixels.insert(pixels.end(), 3, grey);
  else if (wanted == 1 && image.channels == 3)
    for (std::size_t i = 0; i < image.pixels.size(); i += 3)
      pixels.push_back(multiply_add(0.114F, image.pixels[i + 2],
                                    multiply_add(0.587F, image.pixels[i + 1], 0.299F * image.pixels[i])));
  else
    throw error(concat({"has ", image.channels, " channels, and channels is ", wanted}),
                "choose channels 0, 1 or 3, and give images of 1 or 3", {.file = path});
  image.pixels = std::move(pixels);
  image.channels = wanted;
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE image_set read_image(const std::string& path, const image_options& options) {
  const detail::mapped_file file(path);
  const std::span<const std::byte> bytes(file.data(), file.size());
  std::string known;
  for (const image_format& format : options.formats) {
    if (format.recognizes(bytes)) {
      image_set image = format.decode(bytes, path);
      if (image.row() == 0 || image.pixels.size() != image.row())
        throw error(
            detail::concat({"has ", image.pixels.size(), " numbers by format ", detail::quoted(format.name), ", and ",
                            image.width, " x ", image.height, " pixels of ", image.channels, " channels"}),
            "let the format's decode give one number for each channel of each pixel", {.file = path});
      detail::set_channels(image, options.channels, path);
      if (options.height != 0 || options.width != 0)
        image.resize(options.height != 0 ? options.height : image.height,
                     options.width != 0 ? options.width : image.width);
      return image;
    }
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  const bool png =
      bytes.size() > 3 && bytes[1] == std::byte{'P'} && bytes[2] == std::byte{'N'} && bytes[3] == std::byte{'G'};
  const bool jpeg = bytes.size() > 2 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8};
  throw error("has an image of an unknown format; those of image_options are " + known,
              png    ? "it is a PNG: include <gpipe/png.hpp>, link gpipe::png and add png_format"
              : jpeg ? "it is a JPEG: include <gpipe/jpeg.hpp>, link gpipe::jpeg and add jpeg_format"
                     : "convert it, or add its format",
              {.file = path});
}

GPIPE_COLD GPIPE_INLINE image_set read_image_folders(const std::string& path, const image_options& options) {
  namespace fs = std::filesystem;
  image_set images;
  std::string first_name;
  for (const fs::path& folder : detail::visible_entries(path)) {
    if (std::error_code unknown; !fs::is_directory(folder, unknown)) continue;
    const auto label = static_cast<std::int32_t>(images.classes.size());
    images.classes.push_back(folder.filename().string());
    const std::vector<fs::path> files = detail::visible_entries(folder);
    if (files.empty())
      throw error("class " + detail::quoted(images.classes.back()) + " has no image", "add some, or delete the folder",
                  {.file = folder.string()});
    for (const fs::path& file : files) {
      const std::string name = file.string();
      const image_set image = read_image(name, options);
      if (first_name.empty())
        first_name = name, images.channels = image.channels, images.height = image.height, images.width = image.width;
      if (image.height != images.height || image.width != images.width)
        throw error(
            detail::concat({"has ", image.width, " x ", image.height, " pixels, and ", detail::quoted(first_name),
                            " has ", images.width, " x ", images.height}),
            detail::concat({"resize all by image_options{.height = ", images.height, ", .width = ", images.width, "}"}),
            {.file = name});
      if (image.channels != images.channels)
        throw error(detail::concat({"has ", image.channels, " channels, and ", detail::quoted(first_name), " has ",
                                    images.channels}),
                    "set image_options::channels to 1 or 3", {.file = name});
      images.pixels.insert(images.pixels.end(), image.pixels.begin(), image.pixels.end());
      images.labels.push_back(label);
    }
  }
  if (images.classes.empty())
    throw error("has no folders, which would be classes", "give a folder that has a folder for each class",
                {.file = path});
  return images;
}

}  // namespace gpipe
