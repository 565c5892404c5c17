#include <gpipe/plan/options/option.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include <gpipe/plan/options/options.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

std::string refusal(const option_description& option, std::int64_t value) {
  try {
    detail::require_in_range(option, value);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

constexpr const option_description& option_named(std::string_view name) {
  for (const option_description& option : plan_option_list)
    if (option.name == name) return option;
  return plan_option_list[0];
}

// A compile-time option needs no alias.
constexpr plan_options eight = [] {
  plan_options o;
  option<&plan_options::chunks, 8>::choose(o);
  return o;
}();
static_assert(eight.chunks == 8);

}  // namespace

TEST_CASE("every option has a name of its own, and a default within its range") {
  std::set<std::string> names;
  for (const option_description& option : plan_option_list) {
    CAPTURE(option.name);
    CHECK(names.insert(option.name).second);
    CHECK(std::strlen(option.help) > 0);
    CHECK(refusal(option, option.get(plan_options{})) == "");
  }
}

TEST_CASE("a description reads and writes its member") {
  plan_options o;
  for (const option_description& option : plan_option_list) {
    CAPTURE(option.name);
    const std::int64_t other = option.get(o) == option.range.min ? option.range.min + 1 : option.range.min;
    option.set(o, other);
    CHECK(option.get(o) == other);
  }
  CHECK(o.stages == 2);
  CHECK(o.separate_memory);
  CHECK(o.recompute == recompute_mode::always);
}

TEST_CASE("an error names the option, its value and the range") {
  CHECK(refusal(option_named("replicas"), 0) == "replicas is 0; choose at least 1");
  CHECK(refusal(option_named("group_gradients"), 9) ==
        "group_gradients is 9; choose 1 to 8, or 0 for as many as pay off");
  CHECK(refusal(option_named("optimizer_moments"), 5) == "optimizer_moments is 5; choose 0 to 4");
  CHECK(refusal(option_named("workers"), -1) ==
        "workers is -1; choose at least 1, or 0 for as many as the schedule has");
}

TEST_CASE("a value in words is a number or the choice's name") {
  CHECK(option_named("chunks").text(4) == "4");
  CHECK(option_named("recompute").text(static_cast<std::uint64_t>(recompute_mode::as_needed)) == "as-needed");
  CHECK(option_named("schedule").text(static_cast<std::uint64_t>(schedule_kind::custom)) == "custom");
  CHECK(option_named("precision").text(static_cast<std::uint64_t>(precision::bf16)) == "bf16");
}
