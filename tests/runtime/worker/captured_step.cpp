// sanitizers: address

#include <gpipe/runtime/worker/captured_step.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace gpipe;
using namespace gpipe::detail;

// Captured and launched steps: tests/laws/device/training.cpp.

TEST_CASE("two steps have the same key if they differ only in the rows of their batches") {
  const std::byte rows[4]{};
  const auto step = [&] {
    step_context s;
    s.rows.samples = 12;
    s.rows.fields = {rows, nullptr};
    s.per_micro_batch = 3;
    s.step = 7;
    return s;
  };
  const auto alike = [&](bool draws, const std::function<void(step_context&)>& change) {
    step_context other = step();
    change(other);
    return detail::step_key::of(step(), draws) == detail::step_key::of(other, draws);
  };
  for (const bool draws : {false, true}) {
    CHECK(alike(draws, [](step_context&) {}));
    CHECK(alike(draws, [&](step_context& s) { s.rows.fields[0] = rows + 1, s.rows.inputs = rows; }));
    CHECK(!alike(draws, [](step_context& s) { s.rows.samples = 11; }));
    CHECK(!alike(draws, [](step_context& s) { s.per_micro_batch = 4; }));
    CHECK(!alike(draws, [](step_context& s) { s.samples_before = 4; }));
    CHECK(!alike(draws, [](step_context& s) { ++s.changes; }));
    CHECK(!alike(draws, [](step_context& s) { s.rows.fields[0] = nullptr; }));
    CHECK(!alike(draws, [&](step_context& s) { s.rows.fields[1] = rows; }));
    CHECK(alike(draws, [](step_context& s) { s.step = 8; }) == !draws);
  }
}
