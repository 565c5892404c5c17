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

/// What the processes of a job do together.
enum class request : std::uint8_t {
  make, step, accumulate, measure, examine, evaluate, predict, read, write, freeze, watch
};

constexpr const char* name_of(request what) {
  constexpr const char* names[] = {"make a trainer", "step", "accumulate", "measure", "examine", "evaluate",
                                   "predict",        "read", "write",      "freeze",  "watch"};
  return names[static_cast<int>(what)];
}

/// Something that all processes of a job must agree on: a number, or the hash of what is more than that. It owns
/// nothing.
struct trait {
  std::string_view name;
  std::uint64_t value;
  std::string (*tell)(std::uint64_t) = nullptr;  ///< the value in words; null: of a hash they say nothing

  GPIPE_ONCE static trait number(std::string_view name, std::int64_t value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::to_string(static_cast<std::int64_t>(x)); }};
  }
  GPIPE_ONCE static trait real(std::string_view name, double value) {
    return {name, std::bit_cast<std::uint64_t>(value), [](std::uint64_t x) {
              char text[32];
              std::snprintf(text, sizeof text, "%.17g", std::bit_cast<double>(x));
              return std::string(text);
            }};
  }
  /// Of an enumeration whose names `name_of` tells.
  template <class Choice>
  GPIPE_ONCE static trait choice(std::string_view name, Choice value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::string(name_of(static_cast<Choice>(x))); }};
  }
};

/// What a process was asked for: a call and its traits, as words that can be sent.
struct asked {
  static constexpr std::size_t most = 31;
  std::array<std::uint64_t, 1 + most> words{};

  asked() = default;
  asked(request what, std::span<const trait> traits) {
    if (traits.size() > most) detail::refuse({"a call of ", traits.size(), " traits"}, {"it may have ", most});
    words[0] = static_cast<std::uint64_t>(what);
    for (std::size_t i = 0; i < traits.size(); ++i) words[1 + i] = traits[i].value;
  }
  bool operator==(const asked&) const = default;

  /// How what `rank` was asked for differs from this, which rank 0 was asked for with these traits.
  GPIPE_ONCE error difference(const asked& other, int rank, std::span<const trait> traits) const {
    std::string about = "the call", told;
    const auto told_of = [](std::string (*tell)(std::uint64_t), std::uint64_t a, std::uint64_t b) {
      return tell == nullptr ? "" : detail::phrase({": ", tell(a), " and ", tell(b)});
    };
    if (words[0] != other.words[0]) {
      told = told_of(trait::choice("", request{}).tell, words[0], other.words[0]);
    } else {
      std::size_t i = 0;
      while (i + 1 < traits.size() && words[1 + i] == other.words[1 + i]) ++i;
      if (i < traits.size()) about = traits[i].name, told = told_of(traits[i].tell, words[1 + i], other.words[1 + i]);
    }
    return {detail::phrase({"ranks 0 and ", rank, " do not agree on ", about, told}),
            "run the same program with the same options and data in every process", {.rank = rank}};
  }
};

}  // namespace gpipe
