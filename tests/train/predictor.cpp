#include <gpipe/train/predictor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/schedule/custom.hpp>
#include <gpipe/plan/schedule/one_f_one_b.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/small_training.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;
using namespace small;

namespace {

/// With state: the moving averages of batch_norm.
struct normalized : model<input<float, 4>, linear<8>, batch_norm<>, gelu, linear<4>, softmax_cross_entropy> {};

std::vector<float> values_of(const tensor_rows& rows) {
  const auto all = rows.template all<float>();
  return {all.begin(), all.end()};
}

trainer<normalized, adam> trained() {
  trainer<normalized, adam> training{two, adam{.learning_rate = 0.1}};
  for (int i = 0; i < 3; ++i) training.step(all);
  return training;
}

}  // namespace

TEST_CASE("a predictor gives the bits of the training whose weights it loads, for every number of stages") {
  const temporary_folder folder;
  auto training = trained();
  training.save(folder.beside("model.safetensors"));
  training.save(folder.beside("run"));
  const std::vector<float> expected = values_of(training.predict(data));
  const step_result evaluated = training.evaluate(data);
  for (int S = 1; S <= 5; ++S)
    for (const char* from : {"model.safetensors", "run"}) {
      predictor<normalized> model{plan_options{.stages = S, .micro_batches = 3, .micro_batch_size = 2}};
      CHECK(values_of(model.predict(data)) != expected);
      CHECK(model.load(folder.beside(from)).missing.empty());
      CHECK(model.parameter_hash() == training.parameter_hash());
      CHECK(values_of(model.predict(data)) == expected);
      CHECK(model.evaluate(data).loss == evaluated.loss);
      CHECK(model.steps() == 0);
    }
}

TEST_CASE("a predictor has memory for weights and a forward pass alone, whatever the schedule") {
  for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::one_f_one_b}) {
    const plan_options options{.stages = 2, .micro_batches = 4, .micro_batch_size = 3, .schedule = kind};
    predictor<normalized> model{options};
    trainer<normalized, adam> training{options};
    for (int s = 0; s < 2; ++s) {
      const stage_memory &here = model.plan().memory(s), &there = training.plan().memory(s);
      CHECK(here.of(memory_kind::parameters) == there.of(memory_kind::parameters));
      CHECK(here.of(memory_kind::gradients) == 0);
      CHECK(here.of(memory_kind::moments) == 0);
      CHECK(model.plan().requirements(s).in_flight == 1);
      CHECK(here.total() < there.total());
    }
    CHECK(std::string(model.plan().schedule) == "forward-only");
  }
}

TEST_CASE("a predictor takes the options of a training with a schedule of its own, and runs forward only") {
  const plan_options options{.stages = 2,
                             .micro_batches = 3,
                             .micro_batch_size = 2,
                             .schedule = schedule_kind::custom,
                             .custom_schedule = &custom_schedule_of<one_f_one_b>};
  CHECK(predictor<normalized>(options).plan().options.schedule == schedule_kind::forward_only);
}

TEST_CASE("a predictor runs a plan that the compiler made") {
  using served = plan<normalized, stages<2>, micro_batches<2>, micro_batch_size<3>, schedule<forward_only>>;
  static_assert(served::memory(0).of(memory_kind::gradients) == 0);
  predictor model{served{}};
  static_assert(std::is_same_v<decltype(model), predictor<normalized>>);
  auto training = trained();
  for (model_array& it : training.parameters())
    if (it.kind == array_kind::parameter) model.array(it.path).set(it.template values<float>());
    else model.state_array(it.path).set(it.template values<float>());
  CHECK(values_of(model.predict(data)) == values_of(training.predict(data)));
}

TEST_CASE("a predictor does not train and has no training to save") {
  const temporary_folder folder;
  predictor<normalized> model{two};
  rejects("a predictor has no training to save", [&] { model.save(folder.beside("run")); });
  model.save(folder.beside("model.safetensors"));
  trainer<normalized, sgd> training{plan_options{}};
  training.load(folder.beside("model.safetensors"));
  CHECK(training.parameter_hash() == model.parameter_hash());
}

TEST_CASE("a training that moves goes on with the same bits, and its handles and hooks with it") {
  static_assert(std::is_nothrow_move_constructible_v<trainer<normalized, adam>> &&
                std::is_nothrow_move_assignable_v<trainer<normalized, adam>> &&
                !std::is_copy_constructible_v<trainer<normalized, adam>>);
  const temporary_folder folder;
  auto whole = trained();
  whole.step(all), whole.step(all);

  int calls = 0;
  std::vector<trainer<normalized, adam>> several;
  several.push_back(trained());
  several.front().on_step([&](const step_result&, std::uint64_t) { ++calls; });
  const model_array weight = several.front().array("0.weight");
  several.push_back(trained());  // moves the first
  several.front().step(all);
  several.front().save(folder.beside("run"), {.wait = false});
  several.back() = std::move(several.front());  // ends one training, moves the other
  several.back().wait_for_save();
  several.back().step(all);
  CHECK(calls == 2);
  CHECK(several.back().parameter_hash() == whole.parameter_hash());
  CHECK(weight.template values<float>() == whole.array("0.weight").template values<float>());
  trainer<normalized, adam>& gone = several.front();
  for (const auto& call : {std::function<void()>([&] { gone.step(all); }), std::function<void()>([&] { gone.net(); }),
                           std::function<void()>([&] { gone.save(folder.beside("gone")); })})
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("the training was moved to another object; use that one"), error);
}
