#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>

namespace gpipe::detail {

/// Whether all bytes are UTF-8: no surrogate, no form that is longer than needed, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// As a JSON string, with its quotes, in the bytes of the reference of safetensors: short escapes where there are some,
/// everything from U+0020 on as it is.
void append_json(std::string& to, std::string_view text);

/// Reads JSON (RFC 8259) from front to back and keeps nothing: the caller asks for what it expects. Every text that is
/// not JSON is an error that names the byte. Numbers are whole and not negative, except in values that are skipped.
class json_reader {
 public:
  /// `what` is what the text is called in errors, such as "the header"; `file` is the place.
  json_reader(std::string_view text, const char* what, const std::string& file);

  /// For each member of an object calls `member(key)`, which reads its value.
  template <class Member>
  void object(Member&& member) {
    enter('{');
    std::string key;
    for (bool first = true; next('}', first); first = false) {
      string(key);
      expect(':');
      member(static_cast<const std::string&>(key));
    }
    --depth_;
  }

  /// For each element of an array calls `element()`, which reads it.
  template <class Element>
  void array(Element&& element) {
    enter('[');
    for (bool first = true; next(']', first); first = false) element();
    --depth_;
  }

  void string(std::string& into);
  std::uint64_t number();
  void skip();          ///< any value
  std::string value();  ///< any value, as its text
  bool is_null();       ///< reads null, if it is next
  void end();           ///< nothing but white space may follow

  [[noreturn]] void fail(std::string_view wrong) const;

 private:
  // As deep as the reference of safetensors goes. A recursion over a hostile text ends before the stack does.
  static constexpr int max_depth = 127;

  bool done() const { return at_ == text_.size(); }
  void blank();
  char peek();
  void expect(char c);
  void enter(char c);
  bool next(char closing, bool first);
  void word(std::string_view expected);
  unsigned hex();
  void escape(std::string& into);
  void any_number();

  std::string_view text_;
  const char* what_;
  const std::string* file_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/json_reader-inl.hpp>
#endif
