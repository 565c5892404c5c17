#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/tools/images/image_format.hpp>

// Files of images, whole and broken.

namespace image_files {

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline gpipe::image_set decoded(const gpipe::image_format& format, const std::string& text) {
  REQUIRE(format.recognizes(bytes_of(text)));
  return format.decode(bytes_of(text), "its path");
}

/// The file is refused by an error that names it and has this text.
inline void refused(const gpipe::image_format& format, const char* what, const std::string& text) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(decoded(format, text), doctest::Contains(what), gpipe::error);
  CHECK_THROWS_WITH_AS(decoded(format, text), doctest::Contains("its path"), gpipe::error);
}

/// Each beginning of a file is refused, and a file with changed bytes is read or refused.
inline void survives_changes(const gpipe::image_format& format, const std::string& whole, int changes) {
  for (std::size_t size = 0; size + 1 < whole.size(); ++size)
    if (const std::string part = whole.substr(0, size); format.recognizes(bytes_of(part)))
      CHECK_THROWS_AS(decoded(format, part), gpipe::error);
  int accepted = 0;
  for (int i = 0; i < changes; ++i) {
    std::string changed = whole;
    const gpipe::random_words words = gpipe::draw({.seed = 5}, static_cast<std::uint32_t>(i), 0);
    for (int k = 0; k < 1 + i % 3; ++k)
      changed[words.word[k] % changed.size()] = static_cast<char>(words.word[3] >> (8 * k));
    if (!format.recognizes(bytes_of(changed))) continue;
    try {
      const gpipe::image_set one = format.decode(bytes_of(changed), "its path");
      CHECK(one.pixels.size() == one.row());
      for (const float x : one.pixels) CHECK((x >= 0 && x <= 1));
      ++accepted;
    } catch (const gpipe::error&) {
    }
  }
  CHECK(accepted > 0);
  CHECK(accepted < changes);
}

}  // namespace image_files
