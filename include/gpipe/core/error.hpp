#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <gpipe/core/concat.hpp>
#include <gpipe/core/config.hpp>

namespace gpipe {

/// Where something went wrong, as far as known: an empty text or a negative number is unknown.
struct place {
  std::string file{};
  long line = -1;
  std::string layer{};  ///< the layer's type, such as `linear<512>`
  int slot = -1;        ///< its position in the model
  int rank = -1;  ///< of a process in its job
  int stage = -1;
  int micro_batch = -1;
  std::string action{};  ///< what the worker was doing, such as `forward`
  long step = -1;
};

/// The library's one error: what is wrong, what to do about it, and where.
class error : public std::runtime_error {
 public:
  GPIPE_ONCE error(std::string wrong, std::string remedy, place where = {})
      : std::runtime_error(text(wrong, remedy, where)),
        wrong_(std::move(wrong)),
        remedy_(std::move(remedy)),
        where_(std::move(where)) {}

  const std::string& wrong() const noexcept { return wrong_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const gpipe::place& where() const noexcept { return where_; }

 private:
  GPIPE_ONCE static std::string text(const std::string& wrong, const std::string& remedy, const place& where) {
    std::string at;
    const auto part = [&at](const char* name, detail::piece value) {
      if (!at.empty()) at += ", ";
      at += name;
      value.append_to(at);
    };
    if (!where.file.empty()) {
      part("", where.file);
      if (where.line >= 0) at += detail::phrase({":", where.line});
    }
    if (!where.layer.empty() || where.slot >= 0) {
      if (where.slot < 0) part("layer", "");
      else part("layer ", where.slot);
      if (!where.layer.empty()) (at += " ") += where.layer;
    }
    if (where.rank >= 0) part("rank ", where.rank);
    if (where.stage >= 0) part("stage ", where.stage);
    if (where.micro_batch >= 0) part("micro-batch ", where.micro_batch);
    if (!where.action.empty()) part("", where.action);
    if (where.step >= 0) part("step ", where.step);
    if (!at.empty()) at += ": ";
    at += wrong;
    if (!remedy.empty()) (at += "; ") += remedy;
    return at;
  }

  std::string wrong_, remedy_;
  place where_;
};

namespace detail {

/// Throws an `error` whose texts are joined from pieces.
[[noreturn]] GPIPE_ONCE inline void refuse(std::initializer_list<piece> wrong, std::initializer_list<piece> remedy,
                                           const place& where) {
  throw error(phrase(wrong), phrase(remedy), where);
}
[[noreturn]] GPIPE_ONCE inline void refuse(std::initializer_list<piece> wrong, std::initializer_list<piece> remedy) {
  refuse(wrong, remedy, {});
}

}  // namespace detail

}  // namespace gpipe
