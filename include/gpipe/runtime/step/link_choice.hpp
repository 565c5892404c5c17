#pragma once

#include <concepts>
#include <cstdint>

#include <gpipe/core/included.hpp>

namespace gpipe {

namespace detail {

struct link_emulation;

/// The emulation of links. Only <gpipe/testing.hpp> completes it.
template <class>
struct link_emulator;

}  // namespace detail

// change: link emulation
/// The emulation of links at a number of bytes per second, or none: `{.link_bytes_per_second = 1'000'000}`. A program
/// that emulates no link compiles none of it, because only the constructor from a number refers to it.
class link_choice {
 public:
  link_choice() = default;
  template <std::integral Rate>
  link_choice(Rate bytes_per_second)
      : bytes_per_second_(static_cast<std::int64_t>(bytes_per_second)), emulation_(emulation_by<Rate>()) {}

  explicit operator bool() const { return bytes_per_second_ != 0; }
  std::int64_t bytes_per_second() const { return bytes_per_second_; }
  /// Only if links are emulated.
  const detail::link_emulation& emulation() const { return *emulation_; }

 private:
  template <class Rate>
  static const detail::link_emulation* emulation_by() {
    static_assert(
        detail::included<detail::link_emulator<Rate>>,
        "gpipe: the option .link_bytes_per_second of a training emulates links: #include <gpipe/testing.hpp>");
    if constexpr (detail::included<detail::link_emulator<Rate>>) return &detail::link_emulator<Rate>::emulation;
    else return nullptr;
  }

  std::int64_t bytes_per_second_ = 0;
  const detail::link_emulation* emulation_ = nullptr;
};

}  // namespace gpipe
