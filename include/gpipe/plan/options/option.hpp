#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>

namespace gpipe {

struct plan_options;

namespace detail {

/// Whether all processes of a job must choose the same value.
enum class agreed : bool { no, yes };

}  // namespace detail

/// The values that an option may have.
struct option_range {
  std::int64_t min = 1, max = (std::numeric_limits<int>::max)();
  const char* zero = nullptr;  ///< the meaning of 0; null: 0 is a number like any other
};

/// One option of a plan. The range check, the agreement between processes, the summary and a program's command line all
/// read this description. A value is a whole number; a choice is the number of its enumerator, a flag is 0 or 1.
struct option_description {
  const char* name;  ///< of the member of `plan_options`
  const char* help;  ///< for a command line
  option_range range;
  detail::agreed across_processes;
  bool is_flag;
  std::int64_t (*get)(const plan_options&);
  void (*set)(plan_options&, std::int64_t);
  std::string (*text)(std::uint64_t);  ///< a value in words
};

namespace detail {

template <auto Member>
constexpr std::int64_t get_option(const plan_options& o) {
  return static_cast<std::int64_t>(o.*Member);
}
template <auto Member>
constexpr void set_option(plan_options& o, std::int64_t value) {
  o.*Member = static_cast<std::remove_reference_t<decltype(o.*Member)>>(value);
}

GPIPE_COLD inline std::string number_in_words(std::uint64_t value) {
  return std::to_string(static_cast<std::int64_t>(value));
}

/// A whole number, or a flag.
template <auto Member>
constexpr option_description describe_number(const char* name, option_range range, agreed across_processes,
                                             const char* help) {
  constexpr bool is_flag = std::is_same_v<decltype(Member), bool plan_options::*>;
  if (is_flag) range = {0, 1};
  return {name, help, range, across_processes, is_flag, get_option<Member>, set_option<Member>, number_in_words};
}
/// An enumeration up to `last`, with a function `name_of`.
template <auto Member, class Choice>
constexpr option_description describe_choice(const char* name, Choice last, agreed across_processes, const char* help) {
  return {name,
          help,
          {0, static_cast<std::int64_t>(last)},
          across_processes,
          false,
          get_option<Member>,
          set_option<Member>,
          [](std::uint64_t value) { return std::string(name_of(static_cast<Choice>(value))); }};
}

GPIPE_COLD constexpr void require_in_range(const option_description& option, std::int64_t value) {
  const auto [min, max, zero] = option.range;
  if (value >= min && value <= max) return;
  const bool open = max >= (std::numeric_limits<int>::max)();
  if (zero != nullptr && open) throw_error({option.name, " is ", value}, {"choose at least 1, or 0 for ", zero});
  if (zero != nullptr) throw_error({option.name, " is ", value}, {"choose 1 to ", max, ", or 0 for ", zero});
  if (open) throw_error({option.name, " is ", value}, {"choose at least ", min});
  throw_error({option.name, " is ", value}, {"choose ", min, " to ", max});
}

}  // namespace detail

}  // namespace gpipe
