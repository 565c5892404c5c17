#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace laws {

/// An element of a drawing (SVG): its name, its attributes, its own words, and the words of a title inside it.
struct svg_element {
  std::string name, words, hint;
  std::map<std::string, std::string> attributes;

  std::string operator[](const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? "" : found->second;
  }
  double number(const std::string& attribute) const { return std::strtod((*this)[attribute].c_str(), nullptr); }
  double right() const { return number("x") + number("width"); }
  double bottom() const { return number("y") + number("height"); }
};

/// The elements of a drawing, in its order.
class svg {
 public:
  explicit svg(std::string_view text) {
    std::vector<std::size_t> open;
    for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at)) {
      const auto end = text.find('>', at);
      std::string_view tag = text.substr(at + 1, end - at - 1);
      at = end;
      if (tag.front() == '/') {
        open.pop_back();
        continue;
      }
      const bool closed = tag.back() == '/';
      if (closed) tag.remove_suffix(1);
      svg_element found = element_of(tag);
      found.words = text.substr(end + 1, text.find('<', end) - end - 1);
      if (found.name == "title" && !open.empty()) all_[open.back()].hint = found.words;
      all_.push_back(found);
      if (!closed) open.push_back(all_.size() - 1);
    }
  }

  const svg_element& root() const { return all_.front(); }
  /// The elements of a class.
  std::vector<svg_element> of(const std::string& kind) const {
    std::vector<svg_element> found;
    for (const svg_element& e : all_)
      if (e["class"] == kind) found.push_back(e);
    return found;
  }
  /// The boxes of actions whose hint begins with these words.
  std::vector<svg_element> boxes(const std::string& hint) const {
    std::vector<svg_element> found;
    for (const svg_element& e : of("event"))
      if (e.hint.rfind(hint, 0) == 0) found.push_back(e);
    return found;
  }
  /// The words of all texts of a class.
  std::vector<std::string> words(const std::string& kind) const {
    std::vector<std::string> found;
    for (const svg_element& e : of(kind)) found.push_back(e.words);
    return found;
  }

 private:
  static svg_element element_of(std::string_view tag) {
    svg_element found;
    found.name = tag.substr(0, tag.find(' '));
    for (std::size_t at = tag.find(' '); at != tag.npos; at = tag.find(' ', at)) {
      const auto equals = tag.find('=', at), end = tag.find('"', equals + 2);
      if (equals == tag.npos) break;
      found.attributes[std::string(tag.substr(at + 1, equals - at - 1))] = tag.substr(equals + 2, end - equals - 2);
      at = end;
    }
    return found;
  }

  std::vector<svg_element> all_;
};

}  // namespace laws
