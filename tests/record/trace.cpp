#include <gpipe/record/trace.hpp>
#include <gpipe/tools/report/write_trace.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "support/checkpoints.hpp"

using checkpoints::is_json;
using gpipe::action_kind;
using gpipe::trace_event;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string written(const std::vector<gpipe::recorder>& workers) {
  std::ostringstream out;
  gpipe::write_trace(out, workers);
  return out.str();
}

}  // namespace

TEST_CASE("a full recorder keeps its events and counts the rest") {
  gpipe::recorder one(3);
  for (int m = 0; m < 5; ++m) one.record({m, m + 1, action_kind::forward, 0, m});
  CHECK(one.events().size() == 3);
  CHECK(one.events()[2].micro_batch == 2);
  CHECK(one.dropped() == 2);
  one.clear();
  CHECK(one.events().empty());
  CHECK(one.dropped() == 0);
  CHECK(one.capacity() == 3);

  gpipe::recorder none(0);
  none.record({});
  CHECK(none.dropped() == 1);
}

TEST_CASE("recorders of several workers share no cache line") {
  std::vector<gpipe::recorder> workers;
  for (int w = 0; w < 3; ++w) workers.emplace_back(1);
  CHECK(reinterpret_cast<std::uintptr_t>(&workers[1]) % gpipe::detail::alignment == 0);
  CHECK(sizeof(gpipe::recorder) % gpipe::detail::alignment == 0);
}

TEST_CASE("a trace is JSON with a row per worker and an entry per event") {
  std::vector<gpipe::recorder> workers;
  workers.emplace_back(4);
  workers.emplace_back(4);
  workers.emplace_back(1, "the \"last\"\\one\n");
  workers[0].record({1'000'000'000, 1'002'500'007, action_kind::forward, 0, 3});
  workers[1].record({1'002'500'007, 1'003'000'000, action_kind::backward_parameters, 5, 0, 0, 1, 12, 1'000, 400'250});
  workers[1].record({1'003'000'000, 1'003'000'000, action_kind::update, 1, -1});
  workers[2].record({1'000'000'001, 1'000'000'002, action_kind::reduce, 2});
  workers[2].record({1'000'000'003, 1'000'000'004, action_kind::reduce, 2});

  const auto text = written(workers);
  CHECK(is_json(text));
  CHECK(count(text, "\"ph\":\"X\"") == 4);
  CHECK(count(text, "\"thread_name\"") == 3);
  CHECK(count(text, R"("name":"worker 0, stage 0")") == 1);
  CHECK(count(text, R"("name":"worker 1, stages 1 and 5")") == 1);
  CHECK(count(text, R"(the \"last\"\\one\u000a (events dropped: 1))") == 1);
  CHECK(count(text, "\"dropped_events\":1}") == 1);
  CHECK(count(text, R"("name":"forward 3","cat":"forward","ph":"X","pid":0,"tid":0,"ts":0.000,"dur":2500.007,)"
                    R"("args":{"stage":0,"micro_batch":3}})") == 1);
  CHECK(count(text, R"("name":"backward parameters 0")") == 1);
  CHECK(count(text, R"("args":{"stage":5,"micro_batch":0,"step":12,"waited_us":1.000,"not_running_us":400.250}})") ==
        1);
  CHECK(count(text, R"("name":"update",)") == 1);
}

TEST_CASE("an empty trace is valid") {
  CHECK(is_json(written({})));
  std::vector<gpipe::recorder> idle;
  idle.emplace_back(8);
  CHECK(is_json(written(idle)));
}

TEST_CASE("an error names the path that cannot be written") {
  CHECK_THROWS_WITH_AS(gpipe::write_trace("no/such/folder/t.json", std::vector<gpipe::recorder>{}),
                       doctest::Contains("no/such/folder/t.json"), gpipe::error);
}
