#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/instances.hpp"
#include "support/nets.hpp"

using namespace laws;
using namespace std::chrono_literals;

namespace {

/// What a kernel of `fuse` looks at: it throws if all that is asked for here is so.
struct {
  std::atomic<int> id{-1}, first_sample{0}, passes{0};
  std::atomic<act> where{act::idle};
} trap;

/// y = x w. Its kernels may throw.
template <int Id>
struct fuse {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initialiser::uniform(1)}};
    static constexpr keep keeps{.input = true};
    static void blow(act where, const auto& a) {
      if (trap.id == Id && trap.where == where && static_cast<int>(a.random().first_sample) == trap.first_sample &&
          trap.passes.fetch_sub(1) == 0)
        throw std::runtime_error("blown");
    }
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i] * a.template parameter<0>()[i % N]; });
      blow(act::forward, a);
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template parameter<0>()[i % N]; });
      blow(act::backward_input, a);
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.template gradient<0>()[i % N] += a.out_gradient()[i] * a.in()[i]; });
      blow(act::backward_parameters, a);
    }
  };
};

/// 8 slots; in three stages there are links from the first to the second and third, and from there to the third.
struct net : model<input<float, 12>, fuse<0>, dropout<20>, stash<"x">, fuse<1>, relu, fuse<2>, pop<"x">, add, fuse<3>,
                   passing_loss> {};
/// Moving averages beside the parameters.
struct averaging_net : model<input<float, 12>, fuse<4>, batch_norm<>, fuse<5>, batch_norm<>, passing_loss> {};

const samples<float> data(120, 12, 1);
constexpr int M = 4, batch_size = 11;  // 3 + 3 + 3 + 2 samples
const std::vector<int> cuts[] = {{}, {2, 4}, {1, 2, 3, 4, 5, 6, 7}};

/// A training that is disturbed, and a twin that is not: after each failure both must be the same.
/// Takes 60 ms for the parameter part of a micro-batch.
struct slow {
  template <class In>
  struct on : linear<8>::on<In> {
    static void backward_parameters(const auto&, const auto&) { std::this_thread::sleep_for(60ms); }
  };
};
struct slow_net : model<input<float, 12>, slow, gelu, linear<7>, softmax_cross_entropy> {};

template <class Net>
struct pair_of {
  using training = trainer<Net, adam>;
  training_options how;
  std::function<void(const instruction&)> disturbance;  // called by all workers
  training disturbed, twin;
  int steps = 0;

  explicit pair_of(const std::vector<int>& cut, std::chrono::nanoseconds deadline = 60s,
                   schedule_kind schedule = schedule_kind::fill_drain, std::int64_t link_bytes_per_second = 0,
                   int replicas = 1)
      : how(options(cut, deadline)),
        disturbed(plan(cut, schedule, replicas), adam{}, hooked(link_bytes_per_second)),
        twin(plan({}, schedule_kind::fill_drain, replicas), adam{}, options({}, 60s)) {}

  static plan_options plan(const std::vector<int>& cut, schedule_kind schedule = schedule_kind::fill_drain,
                           int replicas = 1) {
    return {.stages = static_cast<int>(cut.size()) + 1,
            .micro_batches = M,
            .micro_batch_size = 3,
            .recompute = recompute_mode::always,
            .schedule = schedule,
            .replicas = replicas};
  }
  static training_options options(const std::vector<int>& cut, std::chrono::nanoseconds deadline) {
    training_options o;
    o.seed = 3;
    o.clip = 0.5;
    o.cut = cut;
    o.deadline = deadline;
    return o;
  }
  training_options hooked(std::int64_t link_bytes_per_second) {
    training_options o = how;
    o.link_bytes_per_second = link_bytes_per_second;
    o.before = [this](const instruction& i) {
      if (disturbance) disturbance(i);
    };
    return o;
  }

  batch next() const { return data.take(steps * batch_size % 100, batch_size); }

  /// The step must fail and change nothing; returns what it said.
  error failure(const batch& with) {
    const std::uint64_t before = state_of(disturbed);
    error found("no failure", "");
    try {
      disturbed.step(with);
    } catch (const error& cause) {
      found = cause;
    }
    CHECK(found.wrong() != "no failure");
    CHECK(state_of(disturbed) == before);
    CHECK(replicas_agree(disturbed));
    disturbance = {};
    trap.id = -1;
    return found;
  }
  error failure() { return failure(next()); }

  /// The next step is as if nothing had happened.
  void recovers() {
    const outcome expected = twin.step(next()), found = disturbed.step(next());
    ++steps;
    CHECK(found.loss == expected.loss);
    CHECK(found.norm == expected.norm);
    CHECK(state_of(disturbed) == state_of(twin));
    CHECK(replicas_agree(disturbed));
  }
};

using pair = pair_of<net>;

std::string told(const error& e) { return e.what(); }
bool has(const error& e, const char* part) { return told(e).find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a throw before any instruction of any stage fails the step, named, and changes nothing") {
  const auto fails_everywhere = [](const std::vector<int>& cut, schedule_kind schedule) {
    const int S = static_cast<int>(cut.size()) + 1;
    CAPTURE(name(schedule));
    pair both(cut, 60s, schedule);
    both.recovers();
    std::array<std::vector<instruction>, 8> programs;
    both.disturbance = [&](const instruction& i) { programs[static_cast<std::size_t>(i.stage)].push_back(i); };
    both.recovers();
    for (int s = 0; s < S; ++s) {
      const auto& program = programs[static_cast<std::size_t>(s)];
      REQUIRE(program.size() >= 3 * M + 1);
      const run_plan& plan = both.disturbed.plan();
      bool first = true;  // stage of its worker: the others' updates come after the commit
      for (int before = 0; before < s; ++before) first = first && plan.worker_of(before) != plan.worker_of(s);
      CHECK(program.back().kind == (first ? act::update : act::reduce));
      for (const instruction& at : program) {
        CAPTURE(S);
        CAPTURE(s);
        CAPTURE(name(at.kind));
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
        CHECK(found.where().action == name(at.kind));
        CHECK(found.where().step == both.steps);
        CHECK(found.where().slot == -1);  // no layer ran
        both.recovers();
      }
    }
  };
  for (const auto& cut : cuts) fails_everywhere(cut, schedule_kind::fill_drain);
  for (const schedule_kind schedule : schedule_kinds)
    if (schedule != schedule_kind::forward_only) fails_everywhere({2, 4, 6}, schedule);
}

TEST_CASE("and so in any replica, whose micro-batches are counted through") {
  for (const auto& cut : {std::vector<int>{}, {2, 4}}) {
    pair both(cut, 60s, schedule_kind::one_f_one_b, 0, 2);
    both.recovers();
    std::vector<instruction> lines;
    std::mutex door;
    both.disturbance = [&](const instruction& i) {
      const std::lock_guard<std::mutex> inside(door);
      if (std::find(lines.begin(), lines.end(), i) == lines.end()) lines.push_back(i);
    };
    both.recovers();
    int most = 0;
    for (const instruction& at : lines) {
      CAPTURE(at.stage);
      CAPTURE(name(at.kind));
      CAPTURE(at.micro_batch);
      most = (std::max)(most, at.micro_batch);
      both.disturbance = [&](const instruction& i) {
        if (i == at) throw std::runtime_error("thrown here");
      };
      const error found = both.failure();
      CHECK(found.wrong() == "thrown here");
      CHECK(found.where().stage == at.stage);
      CHECK(found.where().micro_batch == at.micro_batch);
      CHECK(found.where().action == name(at.kind));
      both.recovers();
    }
    CHECK(most == 5);  // of 2 samples each, the last of 1

    auto bad = data;
    bad.inputs[12 * 9 + 5] = std::numeric_limits<float>::quiet_NaN();  // sample 9 is in micro-batch 4
    const error found = both.failure(bad.take(0, batch_size));
    CHECK(has(found, "the field \"inputs\" of the data is not finite"));
    CHECK(found.where().micro_batch == 4);
    both.recovers();
    both.disturbed.accumulate(both.next());
    both.disturbance = [](const instruction& i) {
      if (i.kind == act::update) throw std::runtime_error("thrown here");
    };
    CHECK(has(both.failure(), "the gradients of 1 accumulated call are dropped"));
    both.recovers();
    const error too_few = both.failure(data.take(0, 1));
    CHECK(has(too_few, "a batch of 1 sample is too small for 2 replicas"));
    both.recovers();
  }
}

TEST_CASE("averages that layers keep are part of what a failed step does not change") {
  for (const auto& cut : {std::vector<int>{}, {2}, {1, 2, 3, 4}}) {
    pair_of<averaging_net> both(cut);
    both.recovers();
    const auto average = both.disturbed.state(3, "mean");
    for (const act where : {act::forward, act::backward, act::backward_parameters, act::reduce, act::update})
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
        if (!thrown) both.twin.step(with), ++both.steps;  // the stage's backward is not of this kind
        both.recovers();
      }
    CHECK(both.disturbed.state(3, "mean") != average);

    // The loss is not finite, and the step is replayed.
    auto bad = data;
    bad.inputs[12 * 7] = std::numeric_limits<float>::quiet_NaN();
    CHECK(has(both.failure(bad.take(0, batch_size)), "the field \"inputs\" of the data is not finite"));
    both.recovers();
    // Neither do they change in an evaluation.
    const std::uint64_t before = state_of(both.disturbed);
    both.disturbed.evaluate(both.next());
    CHECK_THROWS_AS(both.disturbed.evaluate(bad.take(0, batch_size)), error);
    CHECK(state_of(both.disturbed) == before);
  }
}

TEST_CASE("of an evaluation that is not finite, no layer is blamed that tells nothing in it") {
  training_options how;
  how.arena_fill = std::byte{0xff};
  trainer<averaging_net, adam> fresh(pair_of<averaging_net>::plan({}), adam{}, how);
  auto bad = data;
  bad.weights[0] = std::numeric_limits<float>::infinity();
  try {
    fresh.evaluate(bad.take(0, batch_size));
    CHECK(false);
  } catch (const error& found) {
    CHECK(found.where().slot == 4);
  }
}

TEST_CASE("a throw in a layer's kernel names the layer") {
  struct {
    int id;
    act where;
    int passes;
    const char* action[2];  // in one stage, in three
  } const cases[] = {{0, act::forward, 0, {"forward", "forward"}},
                     {2, act::forward, 0, {"forward", "forward"}},
                     {3, act::forward, 0, {"forward", "forward"}},
                     {1, act::forward, 1, {"recompute", "recompute"}},
                     {1, act::backward_input, 0, {"backward", "backward input"}},
                     {3, act::backward_input, 0, {"backward", "backward input"}},
                     {0, act::backward_parameters, 0, {"backward", "backward"}},
                     {2, act::backward_parameters, 0, {"backward", "backward parameters"}},
                     {3, act::backward_parameters, 0, {"backward", "backward parameters"}}};
  constexpr int slot_of[] = {0, 2, 4, 6};
  const std::string layers[] = {std::string(type_name<fuse<0>>), std::string(type_name<fuse<1>>),
                                std::string(type_name<fuse<2>>), std::string(type_name<fuse<3>>)};
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
        CHECK(found.where().slot == slot_of[c.id]);
        CHECK(found.where().stage == both.disturbed.plan().cut().stage_of(slot_of[c.id]));
        CHECK(found.where().micro_batch == m);
        CHECK(found.where().action == c.action[form]);
        CHECK(found.where().step == both.steps);
        both.recovers();
      }
  }
}

TEST_CASE("the caller finds what was thrown inside the error, whatever it was") {
  pair both(cuts[1]);
  const auto inside = [&](auto&& look) {
    try {
      both.disturbed.step(both.next());
    } catch (const error& e) {
      try {
        std::rethrow_if_nested(e);
      } catch (...) {
        look();
      }
    }
    both.disturbance = {};
  };
  std::string what;
  both.disturbance = [](const instruction&) { throw std::out_of_range("far"); };
  inside([&] {
    try {
      throw;
    } catch (const std::out_of_range& e) {
      what = e.what();
    }
  });
  CHECK(what == "far");
  int number = 0;
  both.disturbance = [](const instruction&) { throw 42; };
  inside([&] {
    try {
      throw;
    } catch (int n) {
      number = n;
    }
  });
  CHECK(number == 42);
  both.recovers();
}

TEST_CASE("of two workers that throw at once one is the cause") {
  pair both(cuts[1]);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    both.disturbance = [&](const instruction& i) {
      if (i.kind != act::forward || !((i.stage == 0 && i.micro_batch == 0) || (i.stage == 1 && i.micro_batch == 3)))
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
        if (i.stage == s && i.kind == act::backward_parameters) throw std::runtime_error("at its end");
        if (i.stage == s && i.kind == act::reduce) throw std::runtime_error("at its end");
      };
      both.failure();
    }
}

TEST_CASE("a throw while others wait for a slow link") {
  pair both(cuts[1], 60s, schedule_kind::one_f_one_b, 20'000);
  for (const act where : {act::forward, act::backward}) {
    both.disturbance = [&](const instruction& i) {
      if (i.kind == where && i.micro_batch == 1) throw std::out_of_range("far");
    };
    const error found = both.failure();
    CHECK(has(found, "far"));
    CHECK(found.where().micro_batch == 1);
    both.recovers();
  }
}

TEST_CASE("parameter gradients of several micro-batches, together longer than the deadline, are no silence") {
  training_options how;
  how.deadline = 250ms;
  const plan_options plan{.stages = 2, .micro_batches = 8, .recompute = recompute_mode::never, .coalesce = 8};
  trainer<slow_net, sgd> training(plan, sgd{}, how);
  CHECK_NOTHROW(training.step(data.take(0, 8)));
}

TEST_CASE("a worker that makes no progress: the deadline ends the step and tells who waits for whom") {
  const auto blocks = [](pair& both, act where, int stage) {
    // Blocks longer and longer, until the deadline was shorter.
    for (auto blocked = 600ms;; blocked *= 2) {
      both.disturbance = [=](const instruction& i) {
        if (i.kind == where && i.stage == stage && i.micro_batch <= 0) std::this_thread::sleep_for(blocked);
      };
      try {
        both.disturbed.step(both.next());
        both.disturbance = {};
        both.twin.step(both.next());
        ++both.steps;
      } catch (const error& e) {
        both.disturbance = {};
        return e;
      }
    }
  };
  pair both(cuts[1], 300ms);
  const error in_channel = blocks(both, act::forward, 1);
  // Stage 2 waits for an activation of stage 1, or stage 0 for the gradient that stage 2 then does not send.
  CHECK(has(in_channel,
            in_channel.where().stage == 2 ? "waits for worker 1 to fill slot" : "waits for worker 2 to fill slot"));
  CHECK(has(in_channel, "no worker made progress for 300 ms"));
  CHECK(has(in_channel, "see what worker 1 does"));
  CHECK(in_channel.where().stage != 1);
  CHECK(in_channel.where().micro_batch == 0);
  CHECK(in_channel.where().action.find("receive") == 0);
  both.recovers();
  const error at_gate = blocks(both, act::update, 0);
  CHECK(has(at_gate, "waits for the others at the gate"));
  CHECK(has(at_gate, "see what worker 0 does"));
  CHECK(at_gate.where().action == "update");
  both.recovers();
}

TEST_CASE("numbers that are not finite: the layer where they begin is named") {
  for (const auto& cut : cuts) {
    CAPTURE(cut);
    pair both(cut);
    both.recovers();
    const int last = both.disturbed.plan().stages() - 1;
    auto bad = data;
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      bad.inputs[12 * 7 + 5] = value;  // sample 7 is in micro-batch 2
      const error found = both.failure(bad.take(0, batch_size));
      CHECK(has(found, "the field \"inputs\" of the data is not finite"));
      CHECK(found.where().slot == 0);
      CHECK(found.where().layer == type_name<fuse<0>>);
      CHECK(found.where().stage == 0);
      CHECK(found.where().micro_batch == 2);
      CHECK(found.where().action == "forward");
      CHECK(found.where().step == both.steps);
      both.recovers();
    }
    bad = data;
    bad.weights[10] = std::numeric_limits<float>::infinity();
    const error at_loss = both.failure(bad.take(0, batch_size));
    CHECK(has(at_loss, "its loss or another of its partials is not finite"));
    CHECK(at_loss.where().slot == 7);
    CHECK(at_loss.where().stage == last);
    CHECK(at_loss.where().micro_batch == 3);
    both.recovers();

    // All that goes forward is finite, and what comes back is not: dx = dy w, then dw = x dy.
    for (const bool of_parameters : {false, true}) {
      const float in = of_parameters ? 1e20F : 1e-10F;
      bad = data;
      for (float& x : bad.inputs) x = in;
      for (float& w : bad.weights) w = 1e30F;
      pair large(cut);
      for (const int l : {0, 2, 4}) large.disturbed.set_parameter<float>(l, "weight", std::vector<float>(12, 1.0F));
      large.disturbed.set_parameter<float>(6, "weight", std::vector<float>(12, 1 / in));
      const error back = large.failure(bad.take(0, batch_size));
      CHECK(has(back, of_parameters ? "the gradient of its parameters" : "the gradient of its input is not finite"));
      CHECK(back.where().slot == 6);
      CHECK(back.where().micro_batch == 0);
      CHECK(back.where().action.find("backward") == 0);
    }

    // Each of two factors is finite, their product is not.
    both.disturbed.set_parameter<float>(2, "weight", std::vector<float>(12, 1e30F));
    both.disturbed.set_parameter<float>(4, "weight", std::vector<float>(12, 1e30F));
    const error overflow = both.failure();
    CHECK(has(overflow, "its output is not finite"));
    CHECK(overflow.where().slot == 4);
    CHECK(overflow.where().stage == both.disturbed.plan().cut().stage_of(4));
  }
}

TEST_CASE("a number that is not finite only once does not let the replayed step through") {
  pair both(cuts[1]);
  both.recovers();
  auto bad = data;
  std::atomic<int> forwards{0};
  bad.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  both.disturbance = [&](const instruction& i) {
    if (i.stage == 0 && i.kind == act::forward && ++forwards == M + 1) bad.inputs[0] = 0.5F;
  };
  const error found = both.failure(bad.take(0, batch_size));
  CHECK(forwards == 2 * M);
  CHECK(found.where().step == 1);
  both.recovers();
}

TEST_CASE("a batch that does not fit says why, and changes nothing") {
  pair both(cuts[1]);
  both.recovers();
  const auto good = [&](int n) { return data.take(0, n); };
  const auto& x = data.inputs;
  const auto part = [](const auto& from, int n) { return std::span(from).first(static_cast<std::size_t>(n)); };
  const std::vector<double> doubles(12 * 5);
  std::vector<std::int32_t> labels(5);

  const auto refused = [&](const batch& b, const char* wrong) {
    const error found = both.failure(b);
    CAPTURE(told(found));
    CHECK(has(found, wrong));
    CHECK(!found.remedy().empty());
    both.recovers();
  };
  refused(batch(0), "the batch is empty");
  refused(batch(-3), "the batch is empty");
  refused(good(13), "the batch has 13 samples, but the plan holds 12");
  refused(batch(5).with("labels", labels), "lacks the field \"inputs\"");
  refused(batch(5).with("inputs", part(x, 60)), "lacks the field \"labels\"");
  refused(batch(5).with("inputs", part(x, 59)).with("labels", labels),
          "field \"inputs\" of the batch has 59 elements, but 5 samples of 12 are 60");
  refused(batch(5).with("inputs", doubles).with("labels", labels),
          "field \"inputs\" of the batch holds double, the model reads float");
  refused(batch(5).with("inputs", part(x, 60)).with("labels", part(x, 5)), "holds float, the model reads int32");
  refused(batch(4).with("inputs", part(x, 48)).with("labels", labels), "field \"labels\" of the batch has 5 elements");
  for (const int bad : {12, -1}) {
    labels[3] = bad;
    refused(batch(5).with("inputs", part(x, 60)).with("labels", labels),
            bad < 0 ? "field \"labels\" of sample 3 is -1" : "field \"labels\" of sample 3 is 12");
  }
  labels[3] = 0;
  const std::vector<float> none(5, 0.0F);
  refused(batch(5).with("inputs", part(x, 60)).with("labels", labels).with("weights", none),
          "the weights of the batch's samples sum to 0");
}

TEST_CASE("an evaluation that fails changes nothing either") {
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
