#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

/// Whether all bytes are UTF-8: no surrogates, no overlong forms, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// Appends a JSON string, with its quotes, as the reference of safetensors does: short escapes if they exist, and all
/// other characters from U+0020 on verbatim.
void append_json(std::string& json, std::string_view text);

/// The text of a JSON file of at most `max` bytes. Errors call it `subject`, such as "the index".
std::string read_json(const std::string& path, const char* subject, std::uint64_t max, const char* remedy,
                      file_operations& files);

/// Reads JSON (RFC 8259) in one pass without storing it: the caller calls a function for each value that it expects.
/// Text that is not JSON is an error that names the byte. Numbers are nonnegative integers, except in skipped values.
class json_reader {
 public:
  /// `subject` is the name of the text in errors, such as "the header"; `file` is its file.
  json_reader(std::string_view text, const char* subject, const std::string& file);

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

  void string(std::string& result);
  std::uint64_t number();
  void skip();          ///< any value
  std::string value();  ///< any value, as its text
  /// Reads null, if it is next.
  GPIPE_COLD bool is_null() {
    if (peek() != 'n') return false;
    word("null");
    return true;
  }
  /// Nothing but white space may follow.
  GPIPE_COLD void end() {
    blank();
    if (!done()) fail("something follows the object");
  }

  [[noreturn]] void fail(std::string_view wrong) const;

 private:
  // The depth of the reference of safetensors. It bounds the recursion over a hostile text.
  static constexpr int max_depth = 127;

  bool done() const { return at_ == text_.size(); }
  GPIPE_COLD void blank() {
    while (!done() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  /// The next character that is not blank; 0 at the end.
  GPIPE_COLD char peek() {
    blank();
    return done() ? '\0' : text_[at_];
  }
  GPIPE_COLD void expect(char c) {
    const char expected[] = {'\'', c, '\'', ' ', 'i', 's', ' ', 'm', 'i', 's', 's', 'i', 'n', 'g'};
    if (peek() != c || done()) fail({expected, sizeof expected});
    ++at_;
  }
  GPIPE_COLD void enter(char c) {
    expect(c);
    if (++depth_ > max_depth) fail("objects and arrays are nested too deeply");
  }
  /// Whether another member follows; reads the comma before it, or the closing bracket.
  GPIPE_COLD bool next(char closing, bool first) {
    if (peek() == closing) {
      ++at_;
      return false;
    }
    if (!first) expect(',');
    return true;
  }
  GPIPE_COLD void word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) fail("a value is missing");
    at_ += expected.size();
  }
  unsigned hex();
  void escape(std::string& result);
  void any_number();

  std::string_view text_;
  const char* subject_;
  const std::string* file_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/json_reader-inl.hpp>
#endif
