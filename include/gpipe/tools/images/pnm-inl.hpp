#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gpipe/tools/images/pnm.hpp>

namespace gpipe {

namespace detail {

/// The text of a PGM's or PPM's header and, in P2 and P3, of its numbers.
class pnm_text {
 public:
  pnm_text(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  [[noreturn]] void fail(const std::string& wrong, const std::string& remedy) const {
    throw error(wrong, remedy, {.file = path_});
  }
  /// The next number, of at most `most`.
  std::uint32_t number(const char* what, std::uint32_t max);
  /// Behind the one white space that ends a header; the numbers of P5 and P6 begin here.
  std::size_t skip_one() {
    if (at_ == file_.size() || !space(file_[at_])) fail("has no white space behind its header", "give a whole file");
    return ++at_;
  }
  /// Skips white space and comments.
  void skip();
  std::size_t left() const { return file_.size() - at_; }

 private:
  static bool space(std::byte b) {
    const int c = std::to_integer<int>(b);
    return c == ' ' || (c >= '\t' && c <= '\r');
  }

  std::span<const std::byte> file_;
  const std::string& path_;
  std::size_t at_ = 2;
};

GPIPE_COLD GPIPE_INLINE void pnm_text::skip() {
  while (at_ < file_.size() && (space(file_[at_]) || file_[at_] == std::byte{'#'})) {
    if (file_[at_] == std::byte{'#'})
      while (at_ < file_.size() && file_[at_] != std::byte{'\n'}) ++at_;
    else ++at_;
  }
}

GPIPE_COLD GPIPE_INLINE std::uint32_t pnm_text::number(const char* what, std::uint32_t max) {
  skip();
  const std::size_t first = at_;
  std::uint64_t value = 0;
  for (; at_ < file_.size() && file_[at_] >= std::byte{'0'} && file_[at_] <= std::byte{'9'}; ++at_)
    if ((value = 10 * value + std::to_integer<std::uint64_t>(file_[at_]) - '0') > max)
      fail(detail::concat({"has a ", what, " above ", max}), "give a file with smaller numbers");
  if (at_ == first) fail(detail::concat({"has no ", what, " at byte ", first}), "give a whole PGM or PPM file");
  return static_cast<std::uint32_t>(value);
}

GPIPE_COLD GPIPE_INLINE image_set decode_pnm(std::span<const std::byte> file, const std::string& path) {
  pnm_text text(file, path);
  const int kind = std::to_integer<int>(file[1]) - '0';
  if (kind != 2 && kind != 3 && kind != 5 && kind != 6)
    text.fail(detail::concat({"is of the kind P", kind}), "give a PGM (P2, P5) or a PPM (P3, P6)");
  constexpr std::uint32_t longest = 1'000'000;
  image_set one;
  one.channels = kind == 2 || kind == 5 ? 1 : 3;
  one.width = static_cast<int>(text.number("width", longest));
  one.height = static_cast<int>(text.number("height", longest));
  const std::uint32_t largest = text.number("largest number", 65535);
  if (one.row() == 0)
    text.fail(detail::concat({"has ", one.width, " x ", one.height, " pixels"}), "give an image with pixels");
  if (largest == 0) text.fail("has 0 as its largest number", "give a file whose numbers go from 0 to 255, say");

  const bool as_text = kind < 4;
  const std::size_t bytes = as_text ? 2 : largest > 255 ? 2 : 1;  // of a number; as text a digit and white space
  const std::size_t first = as_text ? 0 : text.skip_one(), left = text.left();
  // Nothing is allocated before the file's size has confirmed the header. (A last number needs no white space behind.)
  if (left + (as_text ? 1 : 0) < one.row() * bytes)
    text.fail(detail::concat({"has ", left, " bytes of numbers, but ", one.width, " x ", one.height, " pixels of ",
                              one.channels, " channels need ", one.row() * bytes}),
              "give a whole file");
  one.pixels.reserve(one.row());
  for (std::size_t i = 0; i < one.row(); ++i) {
    std::uint32_t value;
    if (as_text) value = text.number("number", largest);
    else if (bytes == 1) value = std::to_integer<std::uint32_t>(file[first + i]);
    else
      value = std::to_integer<std::uint32_t>(file[first + 2 * i]) << 8 |
              std::to_integer<std::uint32_t>(file[first + 2 * i + 1]);
    if (value > largest)
      text.fail(detail::concat({"has the number ", value, ", above its largest, ", largest}), "give a whole file");
    one.pixels.push_back(static_cast<float>(value) / static_cast<float>(largest));
  }
  if (as_text) text.skip();
  const std::size_t behind = as_text ? text.left() : left - one.row() * bytes;
  if (behind != 0)
    text.fail(detail::concat({"has ", behind, " bytes behind its ", one.width, " x ", one.height, " pixels"}),
              "give a file with one image");
  return one;
}

}  // namespace detail

}  // namespace gpipe
