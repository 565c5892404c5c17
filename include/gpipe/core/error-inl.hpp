#pragma once

#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include <gpipe/core/error.hpp>

namespace gpipe {

namespace detail {

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

}  // namespace detail

GPIPE_COLD GPIPE_INLINE error::error(std::string wrong, std::string remedy, detail::location where)
    : std::runtime_error(text(wrong, remedy, where)),
      wrong_(std::move(wrong)),
      remedy_(std::move(remedy)),
      where_(std::move(where)) {}

GPIPE_COLD GPIPE_INLINE std::string error::text(const std::string& wrong, const std::string& remedy,
                                                const detail::location& where) {
  std::string message;
  const auto part = [&message](const char* name, detail::text_part value) {
    if (!message.empty()) message += ", ";
    message += name;
    value.append_to(message);
  };
  if (!where.file.empty()) {
    part("", where.file);
    if (where.line >= 0) message += detail::concat({":", where.line});
  }
  if (!where.layer.empty() || where.layer_index >= 0) {
    if (where.layer_index < 0) part("layer", "");
    else part("layer ", where.layer_index);
    if (!where.layer.empty()) (message += " ") += where.layer;
  }
  if (where.rank >= 0) part("rank ", where.rank);
  if (!where.host.empty()) part("host ", where.host);
  if (where.stage >= 0) part("stage ", where.stage);
  if (where.micro_batch >= 0) part("micro-batch ", where.micro_batch);
  if (!where.action.empty()) part("", where.action);
  if (where.step >= 0) part("step ", where.step);
  if (!message.empty()) message += ": ";
  message += wrong;
  if (!remedy.empty()) (message += "; ") += remedy;
  return message;
}

GPIPE_COLD GPIPE_INLINE void rethrow_cause() {
  try {
    throw;
  } catch (const std::nested_exception& outer) {  // a handler also finds it in a program without RTTI
    if (outer.nested_ptr()) outer.rethrow_nested();
    throw;
  }
}

namespace detail {

GPIPE_COLD GPIPE_INLINE void throw_instead(error changed) {
  try {
    rethrow_cause();
  } catch (...) {
    std::throw_with_nested(std::move(changed));
  }
}

GPIPE_COLD GPIPE_INLINE void throw_error(std::initializer_list<text_part> wrong,
                                         std::initializer_list<text_part> remedy, const location& where) {
  throw error(concat(wrong), concat(remedy), where);
}
GPIPE_COLD GPIPE_INLINE void throw_error(std::initializer_list<text_part> wrong,
                                         std::initializer_list<text_part> remedy) {
  throw_error(wrong, remedy, {});
}

}  // namespace detail

}  // namespace gpipe
