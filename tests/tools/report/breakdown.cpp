#include <gpipe/tools/report/breakdown.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

using gpipe::action_kind;
using gpipe::breakdown;
using gpipe::breakdown_of;
using gpipe::stage_report;

namespace {

/// Two steps of 100 ms on two workers; the second has two stages.
std::vector<stage_report> three() {
  std::vector<stage_report> stages(3);
  for (int s = 0; s < 3; ++s) {
    stages[static_cast<std::size_t>(s)].stage = s;
    stages[static_cast<std::size_t>(s)].worker = s > 0;
    stages[static_cast<std::size_t>(s)].steps = 2;
    stages[static_cast<std::size_t>(s)].step_ns = 200;
  }
  stages[0].busy(action_kind::forward) = 40;
  stages[0].busy(action_kind::recompute) = 30;
  stages[0].busy(action_kind::backward) = 60;
  stages[0].busy(action_kind::send_activation) = 2;
  stages[0].busy(action_kind::update) = 8;
  stages[0].wait_ns = 50;
  stages[1].busy(action_kind::forward) = 20;
  stages[1].busy(action_kind::backward_input) = 20;
  stages[1].busy(action_kind::backward_parameters) = 20;
  stages[1].busy(action_kind::reduce) = 1;
  stages[2].busy(action_kind::forward) = 20;
  stages[2].busy(action_kind::backward) = 20;
  stages[2].busy(action_kind::receive_activation) = 3;
  stages[2].busy(action_kind::update) = 5;
  stages[2].wait_ns = 60;
  stages[2].link_ns = 10;
  return stages;
}

std::string drawn(const breakdown& b, const std::string& title = "t") {
  std::ostringstream out;
  gpipe::write_breakdown(out, b, title);
  return out.str();
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("every part is correct, and the parts sum to the workers' time") {
  const breakdown b = breakdown_of(three());
  CHECK(b.compute == 200);
  CHECK(b.recompute == 30);
  CHECK(b.transfer == 2 + 3 + 10);
  CHECK(b.update == 8 + 1 + 5);
  CHECK(b.imbalance == 30);  // worker 0 works for 130, worker 1 for 100 and is idle for 81
  CHECK(b.bubble == 60 + 81 - 30);
  CHECK(b.total() == 2 * 200);
  CHECK(b.workers == 2);
  CHECK(b.step_ms() == doctest::Approx(100e-6));
  CHECK(gpipe::describe(b) ==
        "compute 50.0 %, recompute 7.5 %, imbalance 7.5 %, bubble 27.8 %, transfer 3.8 %, update 3.5 %");
}

TEST_CASE("no worker has more imbalance than idle time") {
  auto stages = three();
  stages[2].busy(action_kind::update) += 76;  // leaves 5
  const breakdown b = breakdown_of(stages);
  CHECK(b.imbalance == 5);
  CHECK(b.bubble == 60);
  CHECK(b.total() == 2 * 200);
}

TEST_CASE("equal workers have no imbalance, and no measurement gives an empty breakdown") {
  std::vector<stage_report> stages(2);
  CHECK(breakdown_of(stages).total() == 0);
  CHECK(breakdown_of({}).step_ms() == 0);
  for (int s = 0; s < 2; ++s) {
    auto& it = stages[static_cast<std::size_t>(s)];
    it.worker = s, it.steps = 1, it.step_ns = 10;
    it.busy(action_kind::forward) = 7;
  }
  CHECK(breakdown_of(stages).imbalance == 0);
  CHECK(breakdown_of(stages).bubble == 6);
}

TEST_CASE("a bar is as wide as its share") {
  const std::string text = drawn(breakdown_of(three()), "S<2");
  CHECK(text.substr(0, 5) == "<svg ");
  CHECK(text.substr(text.size() - 7) == "</svg>\n");
  CHECK(count(text, "class=\"part\"") == 6);
  CHECK(count(text, "class=\"key\"") == 6);
  CHECK(count(text, "class=\"part\" x=\"20.00\" y=\"48.00\" width=\"429.20\"") == 1);  // half of 860, minus a gap
  CHECK(count(text, "class=\"part\" x=\"450.00\"") == 1);
  CHECK(count(text, "<title>bubble 27.8 %</title>") == 1);
  CHECK(count(text, "S&lt;2") == 2);
  CHECK(count(text, "on 2 workers; mean of 2") == 1);
  const std::string none = drawn({});
  CHECK(count(none, "class=\"part\"") == 0);
  CHECK(none.find("nan") == none.npos);
}

TEST_CASE("an error names the path that cannot be written") {
  CHECK_THROWS_WITH_AS(gpipe::write_breakdown("no/such/folder/b.svg", breakdown{}),
                       doctest::Contains("no/such/folder/b.svg"), gpipe::error);
}
