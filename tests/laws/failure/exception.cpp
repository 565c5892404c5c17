#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/disturbed_training.hpp"

// A throw anywhere fails the step: the caller gets the first cause and its location, nothing changes, and the next step
// works.

using namespace disturbed;

TEST_CASE("a throw before any instruction of any stage fails the step, names its location and changes nothing") {
  const auto fails_everywhere = [](const std::vector<int>& cut, schedule_kind schedule) {
    const int S = static_cast<int>(cut.size()) + 1;
    CAPTURE(name_of(schedule));
    pair both(cut, 60s, schedule);
    both.recovers();
    std::array<std::vector<instruction>, 8> programs;
    both.disturbance = [&](const instruction& i) { programs[static_cast<std::size_t>(i.stage)].push_back(i); };
    both.recovers();
    for (int s = 0; s < S; ++s) {
      const auto& program = programs[static_cast<std::size_t>(s)];
      REQUIRE(program.size() >= 3 * M + 1);
      const step_plan& plan = both.disturbed.plan();
      bool first = true;  // the first stage of its worker; the updates of its other stages come after the commit
      for (int before = 0; before < s; ++before) first = first && plan.worker_of(before) != plan.worker_of(s);
      CHECK(program.back().kind == (first ? action_kind::update : action_kind::reduce));
      for (const instruction& at : program) {
        CAPTURE(S);
        CAPTURE(s);
        CAPTURE(name_of(at.kind));
        CAPTURE(at.micro_batch);
        both.disturbance = [&](const instruction& i) {
          if (!(i == at)) return;
          if (at.micro_batch % 2 == 0) throw std::runtime_error("thrown here");
          throw error("thrown here", "do that");
        };
        const error found = both.failure();
        CHECK(found.wrong() == "thrown here");
        CHECK(found.remedy() == (at.micro_batch % 2 == 0 ? "" : "do that"));
        CHECK(found.where().stage == s);
        CHECK(found.where().micro_batch == at.micro_batch);
        CHECK(found.where().action == name_of(at.kind));
        CHECK(found.where().step == both.steps);
        CHECK(found.where().layer_index == -1);  // no layer ran
        both.recovers();
      }
    }
  };
  for (const auto& cut : cuts) fails_everywhere(cut, schedule_kind::fill_drain);
  for (const schedule_kind schedule : schedule_kinds)
    if (schedule != schedule_kind::forward_only) fails_everywhere({2, 4, 6}, schedule);
}

TEST_CASE("a throw in any replica fails the step; micro-batches are numbered through all replicas") {
  const auto fails_in_any = [](const std::vector<int>& cut, shard shares) {
    CAPTURE(name_of(shares));
    pair both(cut, 60s, schedule_kind::one_f_one_b, 0, 2, shares);
    both.recovers();
    std::vector<instruction> lines;
    std::mutex mutex;
    both.disturbance = [&](const instruction& i) {
      const std::lock_guard<std::mutex> inside(mutex);
      if (std::find(lines.begin(), lines.end(), i) == lines.end()) lines.push_back(i);
    };
    both.recovers();
    int largest = 0;
    for (const instruction& at : lines) {
      CAPTURE(at.stage);
      CAPTURE(name_of(at.kind));
      CAPTURE(at.micro_batch);
      largest = (std::max)(largest, at.micro_batch);
      both.disturbance = [&](const instruction& i) {
        if (i == at) throw std::runtime_error("thrown here");
      };
      const error found = both.failure();
      CHECK(found.wrong() == "thrown here");
      CHECK(found.where().stage == at.stage);
      CHECK(found.where().micro_batch == at.micro_batch);
      CHECK(found.where().action == name_of(at.kind));
      both.recovers();
    }
    CHECK(largest == 5);  // of 2 samples each, the last of 1

    auto bad = data;
    bad.inputs[12 * 9 + 5] = std::numeric_limits<float>::quiet_NaN();  // sample 9 is in micro-batch 4
    const error found = both.failure(bad.take(0, batch_size));
    CHECK(has(found, "the field \"inputs\" of the data is not finite"));
    CHECK(found.where().micro_batch == 4);
    both.recovers();
    both.disturbed.accumulate(both.next());
    both.disturbance = [](const instruction& i) {
      if (i.kind == action_kind::update) throw std::runtime_error("thrown here");
    };
    CHECK(has(both.failure(), "the gradients of 1 accumulated call are dropped"));
    both.recovers();
    const error too_few = both.failure(data.take(0, 1));
    CHECK(has(too_few, "a batch of 1 sample is too small for 2 replicas"));
    both.recovers();
  };
  for (const auto& cut : {std::vector<int>{}, {2, 4}})
    for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) fails_in_any(cut, shares);
}

TEST_CASE("a failed step does not change the averages of layers") {
  for (const auto& cut : {std::vector<int>{}, {2}, {1, 2, 3, 4}}) {
    pair_of<averaging_net> both(cut);
    both.recovers();
    const auto average = both.disturbed.state(3, "mean");
    for (const action_kind where : {action_kind::forward, action_kind::backward, action_kind::backward_parameters,
                                    action_kind::reduce, action_kind::update})
      for (int s = 0; s <= static_cast<int>(cut.size()); ++s) {
        bool thrown = false;
        both.disturbance = [&](const instruction& i) {
          if (i.kind != where || i.stage != s || i.micro_batch > 0) return;
          thrown = true;
          throw std::runtime_error("thrown here");
        };
        const batch with = both.next();
        try {
          both.disturbed.step(with);
        } catch (const error&) {
          CHECK(thrown);
        }
        both.disturbance = {};
        if (!thrown) both.twin.step(with), ++both.steps;  // this stage has no action of this kind
        both.recovers();
      }
    CHECK(both.disturbed.state(3, "mean") != average);

    // The loss is not finite, so the step is replayed.
    auto bad = data;
    bad.inputs[12 * 7] = std::numeric_limits<float>::quiet_NaN();
    CHECK(has(both.failure(bad.take(0, batch_size)), "the field \"inputs\" of the data is not finite"));
    both.recovers();
    // An evaluation does not change the averages either.
    const std::uint64_t before = state_of(both.disturbed);
    both.disturbed.evaluate(both.next());
    CHECK_THROWS_AS(both.disturbed.evaluate(bad.take(0, batch_size)), error);
    CHECK(state_of(both.disturbed) == before);
  }
}

TEST_CASE("a throw in a layer's kernel names the layer") {
  struct {
    int id;
    action_kind where;
    int passes;
    const char* action[2];  // in one stage, in three
  } const cases[] = {{0, action_kind::forward, 0, {"forward", "forward"}},
                     {2, action_kind::forward, 0, {"forward", "forward"}},
                     {3, action_kind::forward, 0, {"forward", "forward"}},
                     {1, action_kind::forward, 1, {"recompute", "recompute"}},
                     {1, action_kind::backward_input, 0, {"backward", "backward input"}},
                     {3, action_kind::backward_input, 0, {"backward", "backward input"}},
                     {0, action_kind::backward_parameters, 0, {"backward", "backward"}},
                     {2, action_kind::backward_parameters, 0, {"backward", "backward parameters"}},
                     {3, action_kind::backward_parameters, 0, {"backward", "backward parameters"}}};
  constexpr int layer_of[] = {0, 2, 4, 6};
  const std::string layers[] = {
      std::string(gpipe::detail::type_name<fuse<0>>), std::string(gpipe::detail::type_name<fuse<1>>),
      std::string(gpipe::detail::type_name<fuse<2>>), std::string(gpipe::detail::type_name<fuse<3>>)};
  for (const int form : {0, 1}) {
    pair both(cuts[form]);
    for (const auto& c : cases)
      for (const int m : {0, 2, 3}) {
        CAPTURE(form);
        CAPTURE(c.id);
        CAPTURE(c.action[form]);
        CAPTURE(m);
        trap.first_sample = 3 * m;
        trap.where = c.where;
        trap.passes = c.passes;
        trap.id = c.id;
        const error found = both.failure();
        CHECK(found.wrong() == "blown");
        CHECK(found.where().layer == layers[c.id]);
        CHECK(found.where().layer_index == layer_of[c.id]);
        CHECK(found.where().stage == both.disturbed.plan().cut().stage_of(layer_of[c.id]));
        CHECK(found.where().micro_batch == m);
        CHECK(found.where().action == c.action[form]);
        CHECK(found.where().step == both.steps);
        both.recovers();
      }
  }
}

namespace {

// An exception that a user's kernel may throw. It has causes of its own, which stay with it.
struct own_failure : std::out_of_range, std::nested_exception {
  using std::out_of_range::out_of_range;
};
struct own_error : error {
  using error::error;
};

}  // namespace

TEST_CASE("the error has the original exception as its cause, at its type and as it was thrown") {
  for (const auto& cut : cuts)
    for (const bool accumulated : {false, true})
      for (const int stage : {0, static_cast<int>(cut.size())}) {
        pair both(cut);
        // What `step` threw, and its cause: by the standard's function and by ours.
        const auto fails = [&](auto&& raise, auto&& look) {
          for (const bool ours : {false, true}) {
            if (accumulated) both.disturbed.accumulate(both.next());
            both.disturbance = [&](const instruction& i) {
              if (i.stage == stage && i.kind == action_kind::backward_parameters && i.micro_batch == 1) raise();
              if (i.stage == stage && i.kind == action_kind::backward && i.micro_batch == 1) raise();
            };
            bool found = false;
            try {
              both.disturbed.step(both.next());
            } catch (const error& failure) {
              CHECK(failure.where().stage == stage);
              CHECK(has(failure, accumulated ? "1 accumulated call are dropped" : "thrown here"));
              found = look([&] { ours ? rethrow_cause() : std::rethrow_if_nested(failure); });
            }
            CHECK(found);
            both.disturbance = {};
          }
        };
        fails(
            [] {
              try {
                throw 42;
              } catch (int) {
                throw own_failure("thrown here");
              }
            },
            [](auto&& rethrow) {
              try {
                rethrow();
              } catch (const own_failure& mine) {
                CHECK(std::string(mine.what()) == "thrown here");
                CHECK_THROWS_AS(mine.rethrow_nested(), int);
                return true;
              }
              return false;
            });
        fails([] { throw own_error("thrown here", "do that"); },
              [](auto&& rethrow) {
                try {
                  rethrow();
                } catch (const own_error& mine) {
                  CHECK(std::string(mine.what()) == "thrown here; do that");
                  return true;
                }
                return false;
              });
        both.recovers();
      }
}

TEST_CASE("a cause need not be a std::exception; an error without a cause is its own") {
  pair both(cuts[1]);
  both.disturbance = [](const instruction&) { throw 42; };
  const auto cause = [](auto&& call) {
    try {
      call();
    } catch (const error&) {
      rethrow_cause();
    }
  };
  CHECK_THROWS_AS(cause([&] { both.disturbed.step(both.next()); }), int);
  both.disturbance = {};
  CHECK_THROWS_AS(cause([] { throw own_error("x", "y"); }), own_error);
  both.disturbed.accumulate(both.next());
  auto bad = data;
  bad.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH_AS(cause([&] { both.disturbed.step(bad.take(0, batch_size)); }),
                       doctest::Contains("the field \"inputs\" of the data is not finite"), error);
  both.recovers();
}

TEST_CASE("if two workers throw at once, one of them is the cause") {
  pair both(cuts[1]);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    both.disturbance = [&](const instruction& i) {
      if (i.kind != action_kind::forward ||
          !((i.stage == 0 && i.micro_batch == 0) || (i.stage == 1 && i.micro_batch == 3)))
        return;
      for (++arrived; arrived < 2;) std::this_thread::yield();
      throw std::runtime_error("stage " + std::to_string(i.stage) + " throws");
    };
    const error found = both.failure();
    CHECK(found.wrong() == "stage " + std::to_string(found.where().stage) + " throws");
    CHECK(found.where().micro_batch == (found.where().stage == 0 ? 0 : 3));
    both.recovers();
  }
}

TEST_CASE("destruction right after a failure, or without a step, does not hang") {
  for (const auto& cut : cuts)
    for (int s = 0; s <= static_cast<int>(cut.size()); ++s) {
      pair both(cut);
      both.disturbance = [&](const instruction& i) {
        if (i.stage == s && i.kind == action_kind::backward_parameters) throw std::runtime_error("at its end");
        if (i.stage == s && i.kind == action_kind::reduce) throw std::runtime_error("at its end");
      };
      both.failure();
    }
}

TEST_CASE("a throw while other workers wait for a slow link") {
  pair both(cuts[1], 60s, schedule_kind::one_f_one_b, 20'000);
  for (const action_kind where : {action_kind::forward, action_kind::backward}) {
    both.disturbance = [&](const instruction& i) {
      if (i.kind == where && i.micro_batch == 1) throw std::out_of_range("far");
    };
    const error found = both.failure();
    CHECK(has(found, "far"));
    CHECK(found.where().micro_batch == 1);
    both.recovers();
  }
}

TEST_CASE("a failed evaluation changes nothing") {
  pair both(cuts[1]);
  both.recovers();
  const std::uint64_t before = state_of(both.disturbed);
  both.disturbance = [](const instruction& i) {
    if (i.stage == 1 && i.micro_batch == 1) throw std::runtime_error("not now");
  };
  CHECK_THROWS_WITH_AS(both.disturbed.evaluate(both.next()),
                       "stage 1, micro-batch 1, receive activation, step 1: not now", error);
  both.disturbance = {};
  auto bad = data;
  bad.inputs[12 * 4] = std::numeric_limits<float>::quiet_NaN();  // sample 4 is in micro-batch 1
  CHECK_THROWS_WITH_AS(both.disturbed.evaluate(bad.take(0, batch_size)),
                       doctest::Contains("stage 0, micro-batch 1, forward, step 1: the field \"inputs\" of the data"),
                       error);
  std::fill(bad.weights.begin(), bad.weights.end(), 0.0F);
  CHECK(both.disturbed.evaluate(bad.take(20, 4)).loss == 0);  // of nothing
  CHECK_THROWS_AS(both.disturbed.evaluate(batch(0)), error);
  CHECK(state_of(both.disturbed) == before);
  CHECK(both.disturbed.evaluate(both.next()).loss == both.twin.evaluate(both.next()).loss);
  both.recovers();
}
