#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// A piece of a text: words or a whole number. It points to the words.
class piece {
 public:
  piece(const char* words) : words_(words) {}
  piece(std::string_view words) : words_(words) {}
  piece(const std::string& words) : words_(words) {}
  template <std::integral T>
  piece(T number)
      : is_number_(true),
        negative_(number < 0),
        magnitude_(negative_ ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number)) {}

  GPIPE_ONCE void append_to(std::string& text) const {
    if (negative_) text += '-';
    if (is_number_) text += std::to_string(magnitude_);
    else text += words_;
  }

 private:
  std::string_view words_{};
  bool is_number_ = false, negative_ = false;
  std::uint64_t magnitude_ = 0;
};

/// The pieces as one text: `phrase({"stage ", 3, " of ", stages})`. One function for all texts, where each chain of
/// `+` and `std::to_string` is a kilobyte of code.
GPIPE_ONCE inline std::string phrase(std::initializer_list<piece> pieces) {
  std::string text;
  for (const piece& p : pieces) p.append_to(text);
  return text;
}

}  // namespace gpipe::detail
