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
    std::string at;
    const auto add = [&at](const std::string& part) { at += (at.empty() ? "" : ", ") + part; };
    if (!where.file.empty()) add(where.file + (where.line < 0 ? "" : ":" + std::to_string(where.line)));
    if (!where.layer.empty() || where.slot >= 0)
      add("layer" + (where.slot < 0 ? "" : " " + std::to_string(where.slot)) +
          (where.layer.empty() ? "" : " " + where.layer));
    if (where.stage >= 0) add("stage " + std::to_string(where.stage));
    if (where.micro_batch >= 0) add("micro-batch " + std::to_string(where.micro_batch));
    if (!where.action.empty()) add(where.action);
    if (where.step >= 0) add("step " + std::to_string(where.step));
    return (at.empty() ? "" : at + ": ") + wrong + (remedy.empty() ? "" : "; " + remedy);
  }

  std::string wrong_, remedy_;
  place where_;
};

}  // namespace gpipe
