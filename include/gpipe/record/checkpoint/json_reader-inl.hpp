#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/parse_number.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(i + k < text.size() ? text[i + k] : 0); };
    const unsigned first = byte(0);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length == 0) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(k) & 0xc0) != 0x80) return false;
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) || (first == 0xf0 && byte(1) < 0x90) ||
        (first == 0xf4 && byte(1) >= 0x90))
      return false;
    i += length;
  }
  return true;
}

GPIPE_COLD GPIPE_INLINE void append_json(std::string& json, std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (json += '\\') += c;
    else if (c == '\b') json += "\\b";
    else if (c == '\f') json += "\\f";
    else if (c == '\n') json += "\\n";
    else if (c == '\r') json += "\\r";
    else if (c == '\t') json += "\\t";
    else if (code < 0x20) ((json += "\\u00") += digits[code >> 4]) += digits[code & 15];
    else json += c;
  }
  json += '"';
}

GPIPE_COLD GPIPE_INLINE std::string read_json(const std::string& path, const char* subject, std::uint64_t max,
                                              const char* remedy, file_operations& files) {
  const open_file file(files, path, O_RDONLY | O_NONBLOCK);
  const std::uint64_t size = file.size();
  if (size > max)
    throw_error({subject, " has ", size, " bytes, but at most ", max, " are read"}, {remedy}, {.file = path});
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read_at(text.data(), text.size(), 0);
  return text;
}

GPIPE_COLD GPIPE_INLINE json_reader::json_reader(std::string_view text, const char* subject, const std::string& file)
    : text_(text), subject_(subject), file_(&file) {
  if (!is_utf8(text)) throw_error({subject, " is not UTF-8"}, {"write the file anew"}, {.file = file});
}

GPIPE_COLD GPIPE_INLINE void json_reader::fail(std::string_view wrong) const {
  throw_error({subject_, ", byte ", at_, ": ", wrong}, {"write the file anew"}, {.file = *file_});
}

GPIPE_COLD GPIPE_INLINE unsigned json_reader::hex() {
  unsigned code = 0;
  if (text_.size() - at_ < 4) fail("\\u needs four digits");
  const auto [end, wrong] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
  if (wrong != std::errc{} || end != text_.data() + at_ + 4) fail("\\u needs four digits");
  at_ += 4;
  return code;
}

GPIPE_COLD GPIPE_INLINE void json_reader::escape(std::string& result) {
  const char c = done() ? '\0' : text_[at_];
  constexpr std::string_view letters = "\"\\/bfnrt", codes = "\"\\/\b\f\n\r\t";
  const auto plain = letters.find(c);
  if (!done() && plain != std::string_view::npos) {
    ++at_;
    result += codes[plain];
    return;
  }
  if (c != 'u') fail("a backslash begins no escape");
  ++at_;
  unsigned code = hex();
  if (code >= 0xdc00 && code < 0xe000) fail("a surrogate stands alone");
  if (code >= 0xd800 && code < 0xdc00) {
    if (text_.substr(at_, 2) != "\\u") fail("a surrogate stands alone");
    at_ += 2;
    const unsigned low = hex();
    if (low < 0xdc00 || low >= 0xe000) fail("a surrogate stands alone");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  const auto put = [&result](unsigned byte) { result += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) put(0xc0 | code >> 6);
  else {
    if (code < 0x10000) put(0xe0 | code >> 12);
    else put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

GPIPE_COLD GPIPE_INLINE void json_reader::string(std::string& result) {
  result.clear();
  expect('"');
  for (;;) {
    // Plain characters are copied at once.
    std::size_t stop = at_;
    while (stop < text_.size() && text_[stop] != '"' && text_[stop] != '\\' &&
           static_cast<unsigned char>(text_[stop]) >= 0x20)
      ++stop;
    result.append(text_, at_, stop - at_);
    at_ = stop;
    if (done()) fail("a string does not end");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail("a string has a control character");
    ++at_;
    if (c == '"') return;
    escape(result);
  }
}

GPIPE_COLD GPIPE_INLINE std::uint64_t json_reader::number() {
  const char first = peek();
  if (first < '0' || first > '9') fail("a whole number that is not negative is missing");
  std::uint64_t value = 0;
  const char* const begin = text_.data() + at_;
  const auto [end, wrong] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (wrong != std::errc{}) fail("a number has more than 64 bits");
  if (first == '0' && end - begin > 1) fail("a number begins with 0");
  at_ += static_cast<std::size_t>(end - begin);
  if (!done() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) fail("a number is not whole");
  return value;
}

GPIPE_COLD GPIPE_INLINE void json_reader::any_number() {
  const std::size_t begin = at_;
  const auto digits = [this] {
    const std::size_t first = at_;
    while (!done() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == first) fail("a value is missing");
    return at_ - first;
  };
  if (text_[at_] == '-') ++at_;
  const bool zero = !done() && text_[at_] == '0';
  if (digits() > 1 && zero) fail("a number begins with 0");
  if (!done() && text_[at_] == '.') ++at_, digits();
  if (!done() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (!done() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    digits();
  }
  double value = 0;
  const auto wrong = parse_number(text_.data() + begin, text_.data() + at_, value).ec;
  // Numbers that are too small are out of range, too, and mean 0.
  if (wrong == std::errc::result_out_of_range &&
      text_.substr(begin, at_ - begin).find("e-") == std::string_view::npos &&
      text_.substr(begin, at_ - begin).find("E-") == std::string_view::npos)
    fail("a number is out of range");
}

GPIPE_COLD GPIPE_INLINE void json_reader::skip() {
  const char c = peek();
  if (c == '{') return object([this](const std::string&) { skip(); });
  if (c == '[') return array([this] { skip(); });
  if (c == '"') {
    std::string ignored;
    return string(ignored);
  }
  if (done()) fail("a value is missing");
  if (c == 't') return word("true");
  if (c == 'f') return word("false");
  if (c == 'n') return word("null");
  any_number();
}

GPIPE_COLD GPIPE_INLINE std::string json_reader::value() {
  blank();
  const std::size_t begin = at_;
  skip();
  return std::string(text_.substr(begin, at_ - begin));
}

}  // namespace gpipe::detail
