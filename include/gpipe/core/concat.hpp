#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// A part of a text: a view of characters, or a whole number.
class text_part {
 public:
  text_part(const char* words) : words_(words) {}
  text_part(std::string_view words) : words_(words) {}
  text_part(const std::string& words) : words_(words) {}
  template <std::integral T>
  text_part(T number)
      : is_number_(true),
        negative_(number < 0),
        magnitude_(negative_ ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number)) {}

  void append_to(std::string& text) const;

 private:
  std::string_view words_{};
  bool is_number_ = false, negative_ = false;
  std::uint64_t magnitude_ = 0;
};

/// Joins the parts: `concat({"stage ", 3, " of ", stages})`. One function builds all texts; a chain of `+` and
/// `std::to_string` is a kilobyte of code in every place.
std::string concat(std::initializer_list<text_part> text_parts);

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE void text_part::append_to(std::string& text) const {
  if (negative_) text += '-';
  if (is_number_) text += std::to_string(magnitude_);
  else text += words_;
}

GPIPE_COLD GPIPE_INLINE std::string concat(std::initializer_list<text_part> text_parts) {
  std::string text;
  for (const text_part& p : text_parts) p.append_to(text);
  return text;
}
#endif

}  // namespace gpipe::detail
