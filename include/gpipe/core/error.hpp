#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>

namespace gpipe {

namespace detail {

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

// change: an error location
/// The location of an error, as far as known: an empty text or a negative number means unknown.
struct location {
  std::string file{};
  long line = -1;
  std::string layer{};   ///< the layer's type, such as `linear<512>`
  int layer_index = -1;  ///< the layer's position in the model
  int rank = -1;         ///< of a process in its job
  std::string host{};    ///< where that process runs, if the job has several hosts
  int stage = -1;
  int micro_batch = -1;
  std::string action{};  ///< the worker's current action, such as `forward`
  long step = -1;
};

}  // namespace detail

/// The library's only error type: what is wrong, what to do, and where.
class error : public std::runtime_error {
 public:
  error(std::string wrong, std::string remedy, detail::location where = {});

  const std::string& wrong() const noexcept { return wrong_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const gpipe::detail::location& where() const noexcept { return where_; }

 private:
  // change: an error location
  static std::string text(const std::string& wrong, const std::string& remedy, const detail::location& where);

  std::string wrong_, remedy_;
  detail::location where_;
};

/// Call it in a handler of an error: rethrows the exception of a kernel, or of another function of the user, that
/// caused the error, with its original type. An error without such a cause is rethrown.
[[noreturn]] void rethrow_cause();

namespace detail {

/// In a handler of an error: throws `changed` instead, with the same cause.
[[noreturn]] void throw_instead(error changed);

/// Throws an `error`; both texts are concatenated from their parts.
[[noreturn]] void throw_error(std::initializer_list<text_part> wrong, std::initializer_list<text_part> remedy,
                              const location& where);
[[noreturn]] void throw_error(std::initializer_list<text_part> wrong, std::initializer_list<text_part> remedy);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/core/error-inl.hpp>
#endif
