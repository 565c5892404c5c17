// sanitizers: address

#include <gpipe/runtime/worker/captured_step.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace gpipe;

// Steps that are written down and launched: tests/laws/device.cpp.

TEST_CASE("a step is like another if all is that operations depend on but for the rows") {
  const std::byte rows[4]{};
  const auto step = [&] {
    step_state s;
    s.rows.samples = 12;
    s.rows.fields = {rows, nullptr};
    s.per_micro_batch = 3;
    s.step = 7;
    return s;
  };
  const auto alike = [&](bool draws, const std::function<void(step_state&)>& change) {
    step_state other = step();
    change(other);
    return detail::step_key::of(step(), draws) == detail::step_key::of(other, draws);
  };
  for (const bool draws : {false, true}) {
    CHECK(alike(draws, [](step_state&) {}));
    CHECK(alike(draws, [&](step_state& s) { s.rows.fields[0] = rows + 1, s.rows.inputs = rows; }));
    CHECK(!alike(draws, [](step_state& s) { s.rows.samples = 11; }));
    CHECK(!alike(draws, [](step_state& s) { s.per_micro_batch = 4; }));
    CHECK(!alike(draws, [](step_state& s) { s.samples_before = 4; }));
    CHECK(!alike(draws, [](step_state& s) { ++s.looks; }));
    CHECK(!alike(draws, [](step_state& s) { s.rows.fields[0] = nullptr; }));
    CHECK(!alike(draws, [&](step_state& s) { s.rows.fields[1] = rows; }));
    CHECK(alike(draws, [](step_state& s) { s.step = 8; }) == !draws);
  }
}
