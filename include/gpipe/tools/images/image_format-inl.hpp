#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gpipe/tools/images/image_format.hpp>

namespace gpipe::detail {

/// The text of a PGM's or PPM's header and, in P2 and P3, of its numbers.
class pnm_text {
 public:
  pnm_text(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  [[noreturn]] void fail(const std::string& wrong, const std::string& remedy) const {
    throw error(wrong, remedy, {.file = path_});
  }
  /// The next number, of at most `most`.
  std::uint32_t number(const char* name, std::uint32_t max);
  /// Skips the one white space that ends a header. The numbers of P5 and P6 begin at the returned position.
  std::size_t skip_one() {
    if (position_ == file_.size() || !space(file_[position_]))
      fail("has no white space behind its header", "give a whole file");
    return ++position_;
  }
  /// Skips white space and comments.
  void skip();
  std::size_t left() const { return file_.size() - position_; }

 private:
  static bool space(std::byte b) {
    const int c = std::to_integer<int>(b);
    return c == ' ' || (c >= '\t' && c <= '\r');
  }

  std::span<const std::byte> file_;
  const std::string& path_;
  std::size_t position_ = 2;
};

GPIPE_COLD GPIPE_INLINE void pnm_text::skip() {
  while (position_ < file_.size() && (space(file_[position_]) || file_[position_] == std::byte{'#'})) {
    if (file_[position_] == std::byte{'#'})
      while (position_ < file_.size() && file_[position_] != std::byte{'\n'}) ++position_;
    else ++position_;
  }
}

GPIPE_COLD GPIPE_INLINE std::uint32_t pnm_text::number(const char* name, std::uint32_t max) {
  skip();
  const std::size_t first = position_;
  std::uint64_t value = 0;
  for (; position_ < file_.size() && file_[position_] >= std::byte{'0'} && file_[position_] <= std::byte{'9'};
       ++position_)
    if ((value = 10 * value + std::to_integer<std::uint64_t>(file_[position_]) - '0') > max)
      fail(detail::concat({"has a ", name, " above ", max}), "give a file with smaller numbers");
  if (position_ == first) fail(detail::concat({"has no ", name, " at byte ", first}), "give a whole PGM or PPM file");
  return static_cast<std::uint32_t>(value);
}

GPIPE_COLD GPIPE_INLINE image_set decode_pnm(std::span<const std::byte> file, const std::string& path) {
  pnm_text text(file, path);
  const int kind = std::to_integer<int>(file[1]) - '0';
  if (kind != 2 && kind != 3 && kind != 5 && kind != 6)
    text.fail(detail::concat({"is of the kind P", kind}), "give a PGM (P2, P5) or a PPM (P3, P6)");
  constexpr std::uint32_t longest = 1'000'000;
  image_set image;
  image.channels = kind == 2 || kind == 5 ? 1 : 3;
  image.width = static_cast<int>(text.number("width", longest));
  image.height = static_cast<int>(text.number("height", longest));
  const std::uint32_t largest = text.number("largest number", 65535);
  if (image.row() == 0)
    text.fail(detail::concat({"has ", image.width, " x ", image.height, " pixels"}), "give an image with pixels");
  if (largest == 0) text.fail("has 0 as its largest number", "give a file whose numbers go from 0 to 255, say");

  const bool as_text = kind < 4;
  const std::size_t bytes = as_text ? 2 : largest > 255 ? 2 : 1;  // of a number; as text a digit and white space
  const std::size_t first = as_text ? 0 : text.skip_one(), left = text.left();
  // Nothing is allocated before the file's size has confirmed the header. (The last number needs no white space after
  // it.)
  if (left + (as_text ? 1 : 0) < image.row() * bytes)
    text.fail(detail::concat({"has ", left, " bytes of numbers, but ", image.width, " x ", image.height, " pixels of ",
                              image.channels, " channels need ", image.row() * bytes}),
              "give a whole file");
  image.pixels.reserve(image.row());
  for (std::size_t i = 0; i < image.row(); ++i) {
    std::uint32_t value;
    if (as_text) value = text.number("number", largest);
    else if (bytes == 1) value = std::to_integer<std::uint32_t>(file[first + i]);
    else
      value = std::to_integer<std::uint32_t>(file[first + 2 * i]) << 8 |
              std::to_integer<std::uint32_t>(file[first + 2 * i + 1]);
    if (value > largest)
      text.fail(detail::concat({"has the number ", value, ", above its largest, ", largest}), "give a whole file");
    image.pixels.push_back(static_cast<float>(value) / static_cast<float>(largest));
  }
  if (as_text) text.skip();
  const std::size_t extra = as_text ? text.left() : left - image.row() * bytes;
  if (extra != 0)
    text.fail(detail::concat({"has ", extra, " bytes behind its ", image.width, " x ", image.height, " pixels"}),
              "give a file with one image");
  return image;
}

}  // namespace gpipe::detail
