#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace gpipe {

/// Where something went wrong, as far as known: an empty text or a negative number is unknown.
struct place {
  std::string file{};
  long line = -1;
  std::string layer{};  ///< the layer's type, such as `linear<512>`
  int slot = -1;        ///< its position in the model
  int stage = -1;
  int micro_batch = -1;
  std::string action{};  ///< what the worker was doing, such as `forward`
  long step = -1;
};

/// The library's one error: what is wrong, what to do about it, and where.
class error : public std::runtime_error {
 public:
  error(std::string wrong, std::string remedy, place where = {})
      : std::runtime_error(text(wrong, remedy, where)),
        wrong_(std::move(wrong)),
        remedy_(std::move(remedy)),
        where_(std::move(where)) {}

  const std::string& wrong() const noexcept { return wrong_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const gpipe::place& where() const noexcept { return where_; }

 private:
  static std::string text(const std::string& wrong, const std::string& remedy, const place& where) {
    // `+=` throughout: g++ 12 warns wrongly of overlap (-Wrestrict, its bug 105651) at `"text" + std::to_string(n)`.
    std::string at;
    const auto part = [&at](const char* name, const std::string& value) {
      if (!at.empty()) at += ", ";
      at += name;
      at += value;
    };
    const auto number = [](long n) { return n < 0 ? std::string() : std::to_string(n); };
    if (!where.file.empty()) {
      part("", where.file);
      if (where.line >= 0) (at += ":") += std::to_string(where.line);
    }
    if (!where.layer.empty() || where.slot >= 0) {
      part(where.slot < 0 ? "layer" : "layer ", number(where.slot));
      if (!where.layer.empty()) (at += " ") += where.layer;
    }
    if (where.stage >= 0) part("stage ", number(where.stage));
    if (where.micro_batch >= 0) part("micro-batch ", number(where.micro_batch));
    if (!where.action.empty()) part("", where.action);
    if (where.step >= 0) part("step ", number(where.step));
    if (!at.empty()) at += ": ";
    at += wrong;
    if (!remedy.empty()) (at += "; ") += remedy;
    return at;
  }

  std::string wrong_, remedy_;
  place where_;
};

}  // namespace gpipe
