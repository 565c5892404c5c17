#pragma once

#include <gpipe/core/error.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace gpipe {

/// A call that the processes of a job make together.
enum class collective_kind : std::uint8_t {
  make,
  step,
  accumulate,
  measure,
  examine,
  evaluate,
  predict,
  read,
  write,
  freeze,
  watch,
  save,
  load,
  generate,
  search,
  refresh
};

constexpr const char* name_of(collective_kind kind) {
  constexpr const char* names[] = {"make a trainer", "step",     "accumulate",      "measure",
                                   "examine",        "evaluate", "predict",         "read",
                                   "write",          "freeze",   "watch",           "save",
                                   "load",           "generate", "search by beams", "refresh a generator"};
  return names[static_cast<int>(kind)];
}

/// A value that all processes of a job must agree on: a number, or a hash of larger data. It owns nothing.
struct agreed_value {
  static constexpr std::uint64_t unknown = 0x8f3c'51d2'7be9'46a0;  ///< agrees with every value

  std::string_view name;
  std::uint64_t value;
  std::string (*text)(std::uint64_t) = nullptr;  ///< the value as text; null: the value is a hash

  GPIPE_COLD static agreed_value number(std::string_view name, std::int64_t value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::to_string(static_cast<std::int64_t>(x)); }};
  }
  GPIPE_COLD static agreed_value real(std::string_view name, double value) {
    return {name, std::bit_cast<std::uint64_t>(value), [](std::uint64_t x) {
              char digits[32];
              std::snprintf(digits, sizeof digits, "%.17g", std::bit_cast<double>(x));
              return std::string(digits);
            }};
  }
  /// A value of an enumeration for which `name_of` returns a name.
  template <class Choice>
  GPIPE_COLD static agreed_value choice(std::string_view name, Choice value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::string(name_of(static_cast<Choice>(x))); }};
  }
};

/// A call and its agreed values, as words that can be sent.
struct call_fingerprint {
  static constexpr std::size_t max_values = 31;
  std::array<std::uint64_t, 1 + max_values> words{};

  call_fingerprint() = default;
  call_fingerprint(collective_kind kind, std::span<const agreed_value> values) {
    if (values.size() > max_values)
      detail::throw_error({"a call has ", values.size(), " agreed values"}, {"choose at most ", max_values});
    words[0] = static_cast<std::uint64_t>(kind);
    for (std::size_t i = 0; i < values.size(); ++i) words[1 + i] = values[i].value;
  }
  /// Whether both are the same call with the same values, apart from unknown ones.
  bool operator==(const call_fingerprint& right) const {
    bool equal = true;
    for (std::size_t i = 0; i < words.size(); ++i) equal &= agree(words[i], right.words[i]);
    return equal;
  }

  // change: an error location
  /// The error if `rank` makes `call`, and rank 0 this call with these values.
  GPIPE_COLD error difference(const call_fingerprint& call, int rank, std::span<const agreed_value> values) const {
    std::string name = "the call", both;
    const auto text_of = [](std::string (*text)(std::uint64_t), std::uint64_t a, std::uint64_t b) {
      return text == nullptr ? "" : detail::concat({": ", text(a), " and ", text(b)});
    };
    if (words[0] != call.words[0]) {
      both = text_of(agreed_value::choice("", collective_kind{}).text, words[0], call.words[0]);
    } else {
      std::size_t i = 0;
      while (i + 1 < values.size() && agree(words[1 + i], call.words[1 + i])) ++i;
      if (i < values.size()) name = values[i].name, both = text_of(values[i].text, words[1 + i], call.words[1 + i]);
    }
    return {detail::concat({"ranks 0 and ", rank, " do not agree on ", name, both}),
            "run the same program with the same options and data in every process",
            {.rank = rank}};
  }

 private:
  static bool agree(std::uint64_t a, std::uint64_t b) {
    return a == b || a == agreed_value::unknown || b == agreed_value::unknown;
  }
};

}  // namespace gpipe
