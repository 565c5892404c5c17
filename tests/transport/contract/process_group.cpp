// sanitizers: address

#include <gpipe/transport/contract/process_group.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gpipe;

namespace {

enum class colour { red, green };
const char* name_of(colour c) { return c == colour::red ? "red" : "green"; }

std::string difference(collective_kind one, std::vector<agreed_value> ones, collective_kind other,
                       std::vector<agreed_value> others) {
  const error found = call_fingerprint(one, ones).difference({other, others}, 2, ones);
  CHECK(found.where().rank == 2);
  return found.wrong();
}

}  // namespace

TEST_CASE("fingerprints are equal if the call and all values are") {
  const agreed_value three[] = {agreed_value::number("the samples", 3)},
                     four[] = {agreed_value::number("the samples", 4)};
  CHECK(call_fingerprint(collective_kind::step, three) == call_fingerprint(collective_kind::step, three));
  CHECK_FALSE(call_fingerprint(collective_kind::step, three) == call_fingerprint(collective_kind::step, four));
  CHECK_FALSE(call_fingerprint(collective_kind::step, three) == call_fingerprint(collective_kind::predict, three));
}

TEST_CASE("a value that a process does not know agrees with every value") {
  const auto of = [](std::uint64_t first, std::uint64_t second) {
    const agreed_value values[] = {{"the inputs", first}, {"the labels", second}};
    return call_fingerprint(collective_kind::step, values);
  };
  constexpr std::uint64_t unknown = agreed_value::unknown;
  CHECK(of(1, unknown) == of(1, 2));
  CHECK(of(1, 2) == of(unknown, 2));
  CHECK(of(unknown, 2) == of(1, unknown));
  CHECK_FALSE(of(1, unknown) == of(2, 2));
  CHECK(difference(collective_kind::step, {{"the inputs", unknown}, {"the labels", 1}}, collective_kind::step,
                   {{"the inputs", 3}, {"the labels", 2}}) == "ranks 0 and 2 do not agree on the labels");
}

TEST_CASE("the error names the first value that differs, with both values as text") {
  const auto step = collective_kind::step;
  CHECK(difference(step, {}, collective_kind::read, {}) == "ranks 0 and 2 do not agree on the call: step and read");
  CHECK(difference(step, {agreed_value::number("the samples", 16), agreed_value::real("the rate", 0.5)}, step,
                   {agreed_value::number("the samples", -9), agreed_value::real("the rate", 1)}) ==
        "ranks 0 and 2 do not agree on the samples: 16 and -9");
  CHECK(difference(step, {agreed_value::number("the samples", 16), agreed_value::real("the rate", 0.5)}, step,
                   {agreed_value::number("the samples", 16), agreed_value::real("the rate", 1)}) ==
        "ranks 0 and 2 do not agree on the rate: 0.5 and 1");
  CHECK(difference(step, {agreed_value::choice("the colour", colour::red)}, step,
                   {agreed_value::choice("the colour", colour::green)}) ==
        "ranks 0 and 2 do not agree on the colour: red and green");
  CHECK(difference(step, {{"the data", 5}}, step, {{"the data", 6}}) == "ranks 0 and 2 do not agree on the data");
}

TEST_CASE("a call has a limited number of values") {
  const std::vector<agreed_value> max(call_fingerprint::max_values), more(call_fingerprint::max_values + 1);
  CHECK_NOTHROW(call_fingerprint(collective_kind::step, max));
  CHECK_THROWS_WITH_AS(call_fingerprint(collective_kind::step, more), "a call has 32 agreed values; choose at most 31",
                       error);
}
