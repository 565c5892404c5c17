#include <gpipe/plan/make_plan.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gpipe/device/contract/address_space.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/program/print.hpp>

#include "support/error_message.hpp"
#include "support/layers.hpp"
#include "support/sanitized.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct net : model<input<float, 8>, halve, cross, join, stash<"x">, relu, pop<"x">, add, relu, passing_loss> {};
constexpr const network& n = network_of<net>;
/// One tensor of 16 numbers on each edge.
struct chain : model<input<float, 16>, linear<16>, relu, relu, relu, passing_loss> {};
struct chain_without_loss : model<input<float, 16>, relu, relu> {};

struct lends : model<input<float, 64>, tied<"w", linear<64>>, linear<64>, tied<"w", linear<64>>, passing_loss> {};

/// The second worker begins with the micro-batch that the first sends only after its first backward.
struct wishful {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "wishful"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 2 && micro_batches == 2; }
  static constexpr int workers(int) { return 2; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int, int) { return 4; }
  static constexpr int in_flight(int, int, int) { return 2; }
  static constexpr cell at(int, int, int worker, int tick) {
    using enum action_kind;
    constexpr cell rows[2][4] = {{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}},
                                 {{forward, 1, 1}, {forward, 1, 0}, {backward, 1, 0}, {backward, 1, 1}}};
    return rows[worker][tick];
  }
};

step_plan made(plan_options options, const std::vector<int>& cut = {}) { return make_plan(n, options, cut); }

}  // namespace

TEST_CASE("workers that share no memory have slots for sent values") {
  const auto bytes = [](bool apart, int workers) {
    plan_options o{
        .stages = 3, .micro_batches = 4, .micro_batch_size = 2, .workers = workers, .separate_memory = apart};
    std::vector<std::int64_t> found;
    for (const stage_plan& s : make_plan(network_of<chain>, o, {1, 3}).stage_plans)
      found.push_back(s.memory.of(memory_kind::outgoing));
    return found;
  };
  // 16 floats a sample leave forward, and as many gradients back: two slots of two samples each.
  constexpr std::int64_t one = 2 * 2 * 16 * 4;
  CHECK(bytes(false, 0) == std::vector<std::int64_t>{0, 0, 0});
  CHECK(bytes(true, 0) == std::vector<std::int64_t>{one, 2 * one, one});
  CHECK(bytes(true, 2) == std::vector<std::int64_t>{0, one, one});  // the first two stages have one worker
}

TEST_CASE("replicas that share no memory have landing memory for each other's gradients, tied ones too") {
  const auto landing = [](int replicas, bool apart) {
    const plan_options o{.stages = 2, .micro_batches = 4, .separate_memory = apart, .replicas = replicas};
    std::vector<std::int64_t> found;
    for (const stage_plan& s : make_plan(network_of<lends>, o, {2}).stage_plans)
      found.push_back(s.memory.of(memory_kind::landing));
    return found;
  };
  constexpr std::int64_t layer = 4 * 64 * 65;
  CHECK(landing(1, true) == std::vector<std::int64_t>{0, 0});
  CHECK(landing(2, false) == std::vector<std::int64_t>{0, 0});
  CHECK(landing(2, true) == std::vector<std::int64_t>{layer, aligned(layer / 2)});
  CHECK(landing(4, true) == std::vector<std::int64_t>{3 * layer / 2, 3 * aligned(layer / 4)});
}

TEST_CASE("a plan holds all layers, and no stage is empty") {
  for (int S = 1; S <= 7; ++S) {
    const step_plan p = made({.stages = S, .micro_batches = 4});
    CHECK(p.stages() == S);
    CHECK(p.first.front() == 0);
    CHECK(p.first.back() == 7);
    double shares = 0;
    for (int s = 0; s < S; ++s) {
      CHECK(p.first[static_cast<std::size_t>(s)] < p.first[static_cast<std::size_t>(s) + 1]);
      shares += p.share(s);
    }
    CHECK(shares == doctest::Approx(1));
    CHECK(p.stage_plans.size() == static_cast<std::size_t>(S));
  }
}

TEST_CASE("a plan keeps its devices when the caller's array has ended") {
  std::vector<device_spec> each{this_cpu.in_process(0), this_cpu.in_process(1)};
  const step_plan p = made({.stages = 2, .micro_batches = 4, .devices = each.data(), .device_count = 2});
  CHECK(p.options.devices != each.data());
  each.assign(2, {});
  CHECK(p.options.named_processes() == 2);
  CHECK(p.options.device_of(1).float32 == this_cpu.float32);
  const step_plan copied = p;
  CHECK(copied.options.devices == copied.devices->data());
}

TEST_CASE("a custom cut is used as it is, with its links at both ends") {
  const step_plan p = made({.stages = 3, .micro_batches = 4, .micro_batch_size = 5}, {3, 4});
  CHECK(p.first == std::vector<int>{0, 3, 4, 7});
  CHECK(p.links == std::vector<stage_link>{{0, 1, true}, {0, 2, true}, {1, 2, true}});
  CHECK(p.outgoing == std::vector<std::vector<int>>{{0, 1}, {2}, {}});
  CHECK(p.incoming == std::vector<std::vector<int>>{{}, {0}, {1, 2}});
  CHECK(p.max_batch() == 20);
  CHECK(p.own_slots == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("the micro-batches in flight decide the slots") {
  const step_plan p = made({.stages = 2, .micro_batches = 3, .recompute = recompute_mode::except_last});
  CHECK(p.slots_of_stages[0].entering == std::vector<int>{2, 1, 0});  // forward runs 2, 1, 0
  CHECK(p.slots_of_stages[1].forward == std::vector<int>{0, 0, 0});
  CHECK(p.slots_of_links[0].stash == std::vector<int>{2, 1, 0});
  CHECK(p.slots_of_links[0].returned == std::vector<int>{0, 1, 0});
  CHECK(p.requirements(1).kept_copies == 1);
  CHECK(p.requirements(1).in_flight == 3);
  const step_plan kept = made({.stages = 2, .micro_batches = 3, .recompute = recompute_mode::never});
  CHECK(kept.slots_of_stages[1].forward == std::vector<int>{2, 1, 0});
  CHECK(kept.slots_of_stages[1].backward == kept.slots_of_stages[1].forward);
  CHECK(kept.requirements(1).kept_copies == 3);
  CHECK(kept.costs_of_layers == p.costs_of_layers);
}

TEST_CASE("invalid cuts are rejected") {
  const auto refused = [](plan_options options, const std::vector<int>& cut, const char* what) {
    CHECK_THROWS_WITH_AS(made(options, cut), what, error);
  };
  refused({.stages = 3}, {1},
          "the cut names 1 layer, but 3 stages need 2; give the first layer of every stage but the first");
  for (const auto& cut : {std::vector<int>{0, 3}, {3, 3}, {4, 3}, {3, 7}, {-1, 2}})
    CHECK_THROWS_AS(made({.stages = 3}, cut), error);
  refused(
      {.stages = 2}, {7},
      "stage 1: the cut gives the stage the layers [7, 7); cuts must ascend strictly from 0 to the number of layers");
  refused({.stages = 8}, {}, "stages is 8; choose 1 to 7, the number of layers");
}

namespace {

/// A value that four layers read.
struct many_readers
    : model<input<float, 8>, relu, stash<"x">, relu, pop<"x">, add, relu, pop<"x">, add, relu, pop<"x">, add, relu> {};

}  // namespace

TEST_CASE("no stage of a plan exceeds its limit, for any readers of its values") {
  int plans = 0;
  for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
    for (int S = 2; S <= 6; ++S) {
      plan_options o{.stages = S, .micro_batches = 12, .schedule = kind};
      const step_plan free = make_plan(network_of<many_readers>, o);
      std::int64_t max = 0;
      for (const stage_plan& s : free.stage_plans) max = s.memory.total() > max ? s.memory.total() : max;
      for (int part = 99; part > 50; --part) {
        o.memory_limit = max * part / 100;
        const std::string refusal = error_message([&] {
          for (const stage_plan& s : make_plan(network_of<many_readers>, o).stage_plans)
            CHECK(s.memory.total() <= o.memory_limit);
          ++plans;
        });
        CHECK((refusal == "" || refusal.find("fit") != std::string::npos));
      }
    }
  CHECK(plans > 0);
}

TEST_CASE("a custom cut must obey the limit") {
  plan_options o{.stages = 2, .micro_batches = 4, .recompute = recompute_mode::except_last};
  const std::int64_t needed = made(o, {3}).memory(1).total();
  o.memory_limit = needed > made(o, {3}).memory(0).total() ? needed : made(o, {3}).memory(0).total();
  CHECK_NOTHROW(made(o, {3}));
  --o.memory_limit;
  CHECK_THROWS_WITH_AS(made(o, {3}), doctest::Contains("and the stage needs"), error);
}

TEST_CASE("the stages of a worker together obey the limit of its device") {
  struct eight : model<input<float, 64>, repeat<8, linear<64>>, passing_loss> {};
  for (const schedule_kind kind : {schedule_kind::interleaved, schedule_kind::zb_v, schedule_kind::one_f_one_b}) {
    plan_options o{.stages = 4, .micro_batches = 4, .micro_batch_size = 64, .schedule = kind, .workers = 2};
    std::int64_t largest = 0;
    for (const stage_plan& s : make_plan(network_of<eight>, o).stage_plans)
      largest = s.memory.total() > largest ? s.memory.total() : largest;
    int shared = 0, refused = 0;
    for (int part = 50; part <= 100; part += 2) {
      o.device.memory_limit = 2 * largest * part / 100;
      const std::string refusal = error_message([&] {
        const step_plan p = make_plan(network_of<eight>, o);
        std::int64_t bytes[2]{};
        for (int s = 0; s < 4; ++s) bytes[p.worker_of(s)] += p.memory(s).total();
        CHECK(bytes[0] <= o.device.memory_limit);
        CHECK(bytes[1] <= o.device.memory_limit);
        ++shared;
      });
      if (refusal == "") continue;
      CHECK(refusal.find("device.memory_limit is ") != std::string::npos);
      CHECK(refusal.find("(this CPU), for 2 stages: no cut into 4 stages") != std::string::npos);
      ++refused;
    }
    CHECK(shared > 1);
    CHECK(refused > 1);
  }
}

TEST_CASE("a list of recomputed layers that names none, a loss or the last layer is refused, and two kinds at once") {
  struct named_net
      : model<input<float, 8>, named<"h", repeat<2, named<"act", relu>, linear<8>>>, linear<4>, softmax_cross_entropy> {
  };
  const network& net = network_of<named_net>;
  const auto refuse = [&](const layer_patterns& layers, const char* text) {
    CHECK_THROWS_WITH_AS(make_plan(net, {.stages = 2, .recompute_layers = layers}), text, error);
  };
  refuse(
      {"relu", "h.*.mlp"},
      "recompute_layers has the pattern \"h.*.mlp\", and no layer is there; write the path of a layer or a group, with "
      "* for any part, such as \"h.*.mlp\", or a type, such as \"layer_norm\"; the first layer's path is "
      "\"h.0.act\"");
  refuse({"softmax_cross_entropy"},
         "recompute_layers has the pattern \"softmax_cross_entropy\", which names \"2\", a loss; leave this layer out: "
         "its backward follows directly, so nothing is saved");
  CHECK_THROWS_WITH_AS(make_plan(network_of<chain_without_loss>, {.recompute_layers = {"0", "*"}}),
                       doctest::Contains("has the pattern \"*\", which names \""), error);
  CHECK_THROWS_WITH_AS(make_plan(network_of<chain_without_loss>, {.recompute_layers = {"*"}}),
                       doctest::Contains("\", the last layer; leave this layer out"), error);
  CHECK_THROWS_WITH_AS(make_plan(net, {.recompute = recompute_mode::always, .recompute_layers = {"relu"}}),
                       "recompute_layers names layers, and recompute is always, for whole micro-batches; choose one of "
                       "them",
                       error);
  const step_plan made = make_plan(net, {.stages = 2, .recompute_layers = {"h.*.act"}});
  CHECK(made.cut().recomputed_before != nullptr);
}

TEST_CASE("a schedule whose workers wait in a circle is refused, with the worker, tick and cell of each") {
  const plan_options options{.stages = 2,
                             .micro_batches = 2,
                             .schedule = schedule_kind::custom,
                             .custom_schedule = &custom_schedule_of<wishful>};
  CHECK_THROWS_WITH_AS(make_plan(network_of<chain>, options),
                       doctest::Contains("the schedule's workers wait in a circle: worker 0 waits at tick 1 in 0B0 "
                                         "(backward), for worker 1 waits at tick 0 in 1F1 (forward), for the first"),
                       error);
}

template <class Schedule>
std::string error_of() {
  const plan_options options{.stages = 2,
                             .micro_batches = 3,
                             .schedule = schedule_kind::custom,
                             .custom_schedule = &custom_schedule_of<Schedule>};
  return error_message([&] { make_plan(network_of<chain>, options); });
}

template <class Change>
struct changed : fill_drain {
  static constexpr const char* name() { return "mine"; }
  static constexpr cell at(int S, int M, int worker, int tick) {
    cell found = fill_drain::at(S, M, worker, tick);
    Change::change(found, worker, tick);
    return found;
  }
};

TEST_CASE("a wrong table of a user's schedule is refused, with its name, the cell, and what to do") {
  struct another_stage {
    static constexpr void change(cell& it, int worker, int tick) {
      if (worker == 1 && tick == 2) it.stage = 0;
    }
  };
  struct repeats {
    static constexpr void change(cell& it, int worker, int tick) {
      if (worker == 0 && tick == 1) it.micro_batch = 0;
    }
  };
  struct omits {
    static constexpr void change(cell& it, int, int) {
      if (it.kind == action_kind::backward && it.micro_batch == 2) it = {};
    }
  };
  struct descends {
    static constexpr void change(cell& it, int, int) {
      if (it.kind == action_kind::backward) it.micro_batch = 2 - it.micro_batch;
    }
  };
  struct hurries {
    static constexpr void change(cell& it, int worker, int tick) {
      if (worker == 1 && tick < 4) it = tick < 3 ? cell{action_kind::forward, 1, tick} : cell{};
    }
  };
  struct holds_two : changed<omits> {
    static constexpr cell at(int S, int M, int worker, int tick) { return fill_drain::at(S, M, worker, tick); }
    static constexpr int in_flight(int, int, int) { return 2; }
  };
  struct spare_worker : changed<omits> {
    static constexpr int workers(int S) { return S + 1; }
  };
  const auto says = [](const std::string& message, const char* text) {
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  says(
      error_of<changed<another_stage>>(),
      "the schedule's table is wrong: mine: 0F1 (forward) of worker 1 at tick 2 is of a stage or micro-batch that this "
      "worker does not have; choose a stage that worker_of() gives to the worker, and a micro-batch from 0 to 2");
  says(error_of<changed<repeats>>(),
       "mine: 0F0 (forward) of worker 0 at tick 2 ran before, or must not run; run every stage and micro-batch");
  says(error_of<changed<omits>>(), "mine: 0B2 (backward) of worker 0 is missing; run every stage and micro-batch");
  says(error_of<changed<descends>>(),
       "(backward) of worker 1 at tick 4 has parameter gradients, which a stage makes in the order 0, 1, 2, ...; run");
  says(error_of<changed<hurries>>(), "mine: 1F0 (forward) of worker 1 at tick 0 runs before what it needs; run it");
  says(error_of<holds_two>(),
       "mine: 0F0 (forward) of worker 0 at tick 2: the stage then holds the inputs of more micro-batches than "
       "in_flight(), which is 2; return more from in_flight(), or run backward earlier");
  says(error_of<spare_worker>(), "mine: worker 2 has no stage; let workers() count those of worker_of()");
}

TEST_CASE("the plan has the programs of all workers, for a pass that trains and for one that runs forward") {
  const step_plan p = made({.stages = 3, .micro_batches = 2, .schedule = schedule_kind::one_f_one_b});
  REQUIRE(p.programs.size() == 3);
  REQUIRE(p.forward_programs.size() == 3);
  const auto text = [](const std::vector<instruction>& lines) {
    return describe(program_view{lines.data(), static_cast<int>(lines.size())});
  };
  CHECK(text(p.forward_programs[0]).find("B") == std::string::npos);
  for (const auto& program : p.programs) CHECK(text(program).find("reduce update") != std::string::npos);
}

TEST_CASE("more micro-batches than an int counts, or than memory holds, are refused before the plan is made") {
  const plan_options most{.stages = 1, .micro_batches = 2147483647, .micro_batch_size = 1};
  const auto began = std::chrono::steady_clock::now();
  const std::string text = error_message([&] { made(most); });
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(1));
  CHECK(
      text.starts_with("stages x micro_batches is 1 x 2147483647, of at most 8 actions each, more than an int counts; "
                       "choose at most 268435455 micro-batches"));
// Sanitizers need more addresses than the limit leaves.
#if defined(__linux__) && !defined(TESTS_SANITIZED)
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  low.rlim_cur -= static_cast<rlim_t>(address_space_left()) - (rlim_t{256} << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  const std::string limited =
      error_message([&] { made({.stages = 2, .micro_batches = 10'000'000, .micro_batch_size = 1}); });
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(
      limited ==
      "micro_batches is 10000000: a plan of 2 stages needs 4800000000 bytes while it is made, and the system does not "
      "give them; choose fewer micro-batches");
#endif
}
