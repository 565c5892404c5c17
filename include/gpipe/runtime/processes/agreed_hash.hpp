#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/hash.hpp>

namespace gpipe::detail {

/// The hash of a value that processes agree on, if the value is larger than a number.
class agreed_hash {
 public:
  template <class... T>
  agreed_hash& operator()(const T&... values) {
    (add(values), ...);
    return *this;
  }
  std::uint64_t value() const { return sum_.value(); }

 private:
  void add(std::string_view text) {
    add(text.size());
    sum_.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
  }
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T x) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(x);
    sum_.add(bytes.data(), bytes.size());
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& x : list) add(x);
  }

  hash sum_;
};

}  // namespace gpipe::detail
