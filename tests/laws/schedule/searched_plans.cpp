// optimize: yes

// A plan that searches its own table has no longer step than one with a schedule of the library, obeys the memory
// limit, and trains with the bits of one stage.

#include <gpipe/make_plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/train/trainer.hpp>

#include <gpipe/checkpoint.hpp>

#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;

namespace {

// Its stages differ: the last has a wide head.
struct net
    : model<input<float, 8>, linear<16>, repeat<8, residual<layer_norm, linear<24>, gelu, dropout<0.2>, linear<16>>>,
            linear<40>, softmax_cross_entropy> {};

plan_options options(int stages, int micro_batches, int chunks, schedule_kind kind = schedule_kind::searched) {
  return {.stages = stages, .micro_batches = micro_batches, .micro_batch_size = 2, .schedule = kind, .chunks = chunks};
}

/// The schedules of the library whose workers have the same stages.
std::vector<schedule_kind> placed_as(const plan_options& o) {
  const schedule_choice placed = o.chosen_schedule();
  std::vector<schedule_kind> same;
  for (const schedule_kind kind : schedule_kinds) {
    const schedule_choice known(kind);
    bool is =
        known.trains && known.admits(o.stages, o.micro_batches) && known.workers(o.stages) == placed.workers(o.stages);
    for (int s = 0; is && s < o.stages; ++s) is = known.worker_of(o.stages, s) == placed.worker_of(o.stages, s);
    if (is) same.push_back(kind);
  }
  return same;
}

std::int64_t largest(const step_plan& plan) {
  std::int64_t bytes = 0;
  for (int s = 0; s < plan.stages(); ++s) bytes = std::max(bytes, plan.memory(s).total());
  return bytes;
}

struct trained {
  std::vector<float> values;

  explicit trained(trainer<net, adam>& training, int steps) {
    std::vector<float> x(8 * 11);
    std::vector<std::int32_t> labels(11);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1F * static_cast<float>(i % 17) - 0.7F;
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
    for (int i = 0; i < steps; ++i)
      values.push_back(static_cast<float>(training.step(batch(11).with("inputs", x).with("labels", labels)).loss));
    for (auto& p : training.parameters())
      for (const float value : p.values()) values.push_back(value);
  }
  bool operator==(const trained& other) const {
    return values.size() == other.values.size() &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0;
  }
};

}  // namespace

TEST_CASE("a searched plan is as quick as the best of the library's with the same stages a worker" *
          doctest::skip(laws::thread_sanitized)) {  // it starts no thread
  int searched = 0;
  for (const int chunks : {1, 2})
    for (const int stages : {2, 4, 6})
      for (const int micro_batches : {1, 4, 7})
        for (const bool transfers : {false, true}) {
          plan_options o = options(stages, micro_batches, chunks);
          o.cost_transfers = transfers;
          const step_plan found = make_plan(network_of<net>, o);
          CAPTURE(stages);
          CAPTURE(micro_batches);
          CHECK(found.workers() == stages / chunks);
          for (const schedule_kind kind : placed_as(o)) {
            o.schedule = kind;
            CHECK(step_time(network_of<net>, found) <= step_time(network_of<net>, make_plan(network_of<net>, o)));
          }
          searched += found.table != nullptr;
        }
  CHECK(searched >= 12);  // stages that differ leave room
}

TEST_CASE("a searched plan obeys the memory limit of stages, and that of devices" *
          doctest::skip(laws::thread_sanitized)) {  // it starts no thread
  for (const int chunks : {1, 2}) {
    plan_options o = options(4, 8, chunks);
    o.recompute = recompute_mode::never;
    const std::int64_t all = largest(make_plan(network_of<net>, o));
    int fitting = 0;
    for (const int percent : {100, 95, 90, 85, 80, 75, 70}) {
      o.memory_limit = all * percent / 100;
      std::vector<step_plan> known;
      for (const schedule_kind kind : placed_as(o)) {
        plan_options with = o;
        with.schedule = kind;
        try {
          known.push_back(make_plan(network_of<net>, with));
        } catch (const error&) {
          continue;
        }
      }
      CAPTURE(percent);
      if (known.empty()) {
        CHECK_THROWS_WITH_AS(make_plan(network_of<net>, o), doctest::Contains("memory_limit is"), error);
        continue;
      }
      ++fitting;
      const step_plan found = make_plan(network_of<net>, o);
      CHECK(largest(found) <= o.memory_limit);
      plan_options on = o;  // the stages of a device share its bytes
      on.memory_limit = no_memory_limit;
      on.device.memory_limit = chunks * o.memory_limit;
      CHECK(make_plan(network_of<net>, on).programs == found.programs);
      for (const step_plan& it : known) CHECK(step_time(network_of<net>, found) <= step_time(network_of<net>, it));
    }
    CHECK(fitting >= 3);
  }
}

TEST_CASE("a searched plan trains with the bits of one stage, on as many workers or on fewer") {
  trainer<net, adam> one({.stages = 1, .micro_batches = 6, .micro_batch_size = 2});
  const trained alone(one, 3);
  int tables = 0;
  for (const int chunks : {1, 2})
    for (const int workers : {0, 1, 2})
      for (const recompute_mode mode : {recompute_mode::never, recompute_mode::always, recompute_mode::as_needed}) {
        plan_options o = options(4, 6, chunks);
        o.workers = workers;
        o.recompute = mode;
        trainer<net, adam> training(o);
        CAPTURE(chunks);
        CAPTURE(workers);
        tables += training.plan().table != nullptr;
        CHECK(trained(training, 3) == alone);
      }
  CHECK(tables >= 4);
}

TEST_CASE("the same options make the same plan, and a plan's own options search again" *
          doctest::skip(laws::thread_sanitized)) {  // it starts no thread
  const step_plan first = make_plan(network_of<net>, options(4, 6, 2)),
                  again = make_plan(network_of<net>, options(4, 6, 2)), own = make_plan(network_of<net>, first.options);
  REQUIRE(first.table != nullptr);
  CHECK(first.programs == again.programs);
  CHECK(first.programs == own.programs);
  CHECK(first.options.schedule == schedule_kind::searched);
  CHECK(own.options.custom_schedule != first.options.custom_schedule);
  step_plan copy = first;
  CHECK(copy.options.chosen_schedule().ticks(4, 6) == first.options.chosen_schedule().ticks(4, 6));
}

TEST_CASE("a training goes on with a searched table where one with another schedule was saved") {
  const temporary_folder folder;
  const std::string path = folder.path();
  trainer<net, adam> first(options(4, 6, 1, schedule_kind::one_f_one_b));
  const trained start(first, 2);
  first.save(path);
  trainer<net, adam> other(options(4, 6, 2));
  REQUIRE(other.plan().table != nullptr);
  other.load(path);
  CHECK(trained(other, 2) == trained(first, 2));
  other.save(path);
  first.load(path);
  CHECK(trained(other, 1) == trained(first, 1));
}

TEST_CASE("a searched plan says how far it is from the best") {
  const step_plan found = make_plan(network_of<net>, options(4, 6, 2));
  const std::string text = describe(network_of<net>, found);
  CHECK(text.find("searched, 6 micro-batches") != text.npos);
  CHECK(text.find("the searched table is the shortest for these stages") != text.npos);
  step_plan worse = found;
  worse.table_gap = 0.012;
  CHECK(describe(network_of<net>, worse).find("the searched table is at most 1.2 % longer than the shortest") !=
        text.npos);
}

TEST_CASE("a searched plan needs one stage a worker or two") {
  CHECK_THROWS_WITH_AS(make_plan(network_of<net>, options(3, 4, 2)),
                       doctest::Contains("schedule is searched, chunks is 2 and stages is 3"), error);
  CHECK_THROWS_WITH_AS(make_plan(network_of<net>, options(6, 4, 3)),
                       doctest::Contains("choose chunks 1, for one stage a worker"), error);
  CHECK(make_plan(network_of<net>, options(3, 4, 1)).workers() == 3);
}
