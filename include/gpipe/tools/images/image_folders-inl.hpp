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
#include <gpipe/tools/images/image_folders.hpp>

namespace gpipe {

namespace detail {

/// The names in a folder, sorted, without those that begin with a dot.
GPIPE_COLD inline std::vector<std::filesystem::path> visible_entries(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().filename().string()[0] != '.') found.push_back(at->path());
  if (failed)
    throw error("cannot be listed: " + failed.message(), "give the path of a folder", {.file = folder.string()});
  std::sort(found.begin(), found.end());
  return found;
}

/// The image with this number of channels.
GPIPE_COLD inline void set_channels(image_set& one, int wanted, const std::string& path) {
  if (wanted == 0 || wanted == one.channels) return;
  std::vector<float> pixels;
  if (wanted == 3 && one.channels == 1)
    for (const float grey : one.pixels) pixels.insert(pixels.end(), 3, grey);
  else if (wanted == 1 && one.channels == 3)
    for (std::size_t i = 0; i < one.pixels.size(); i += 3)
      pixels.push_back(
          multiply_add(0.114F, one.pixels[i + 2], multiply_add(0.587F, one.pixels[i + 1], 0.299F * one.pixels[i])));
  else
    throw error(concat({"has ", one.channels, " channels, and channels is ", wanted}),
                "choose channels 0, 1 or 3, and give images of 1 or 3", {.file = path});
  one.pixels = std::move(pixels);
  one.channels = wanted;
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE image_set read_image(const std::string& path, const image_options& how) {
  const detail::mapped_file file(path);
  const std::span<const std::byte> bytes(file.data(), file.size());
  std::string known;
  for (const image_format& it : how.formats) {
    if (it.recognizes(bytes)) {
      image_set one = it.decode(bytes, path);
      if (one.row() == 0 || one.pixels.size() != one.row())
        throw error(detail::concat({"has ", one.pixels.size(), " numbers by format ", detail::quoted(it.name), ", and ",
                                    one.width, " x ", one.height, " pixels of ", one.channels, " channels"}),
                    "let the format's decode give one number for each channel of each pixel", {.file = path});
      detail::set_channels(one, how.channels, path);
      if (how.height != 0 || how.width != 0)
        one.resize(how.height != 0 ? how.height : one.height, how.width != 0 ? how.width : one.width);
      return one;
    }
    known += (known.empty() ? "" : ", ") + std::string(it.name);
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

GPIPE_COLD GPIPE_INLINE image_set read_image_folders(const std::string& path, const image_options& how) {
  namespace fs = std::filesystem;
  image_set all;
  std::string first;
  for (const fs::path& folder : detail::visible_entries(path)) {
    if (std::error_code unknown; !fs::is_directory(folder, unknown)) continue;
    const auto label = static_cast<std::int32_t>(all.classes.size());
    all.classes.push_back(folder.filename().string());
    const std::vector<fs::path> files = detail::visible_entries(folder);
    if (files.empty())
      throw error("class " + detail::quoted(all.classes.back()) + " has no image", "add some, or delete the folder",
                  {.file = folder.string()});
    for (const fs::path& file : files) {
      const std::string name = file.string();
      const image_set one = read_image(name, how);
      if (first.empty()) first = name, all.channels = one.channels, all.height = one.height, all.width = one.width;
      if (one.height != all.height || one.width != all.width)
        throw error(
            detail::concat({"has ", one.width, " x ", one.height, " pixels, and ", detail::quoted(first), " has ",
                            all.width, " x ", all.height}),
            detail::concat({"resize all by image_options{.height = ", all.height, ", .width = ", all.width, "}"}),
            {.file = name});
      if (one.channels != all.channels)
        throw error(
            detail::concat({"has ", one.channels, " channels, and ", detail::quoted(first), " has ", all.channels}),
            "set image_options::channels to 1 or 3", {.file = name});
      all.pixels.insert(all.pixels.end(), one.pixels.begin(), one.pixels.end());
      all.labels.push_back(label);
    }
  }
  if (all.classes.empty())
    throw error("has no folders, which would be classes", "give a folder that has a folder for each class",
                {.file = path});
  return all;
}

}  // namespace gpipe
