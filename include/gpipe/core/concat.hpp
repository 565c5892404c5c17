#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>
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
/// `std::to_string` costs a kilobyte of code per use.
std::string concat(std::initializer_list<text_part> text_parts);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/core/concat-inl.hpp>
#endif
