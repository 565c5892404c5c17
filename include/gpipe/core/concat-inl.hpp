#pragma once

#include <initializer_list>
#include <string>

#include <gpipe/core/concat.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail
