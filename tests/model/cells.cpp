// Cells with many edges, as those of AmoebaNet: a cell takes two tensors and gives two, and sums operations on named
// states.

#include <gpipe/model/structure/items.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/nets.hpp"

using namespace gpipe;

namespace {

/// States 0 and 1 are made of the two tensors, 2 = f(1) + 0, 3 = g(0) + f(2), and the cell gives 1, 2, 3 beside what
/// the cell before gave.
template <int W>
struct cell : scope<stash<"before", "earlier">,                           //
                    only<pop<"before">>, relu, linear<W>, stash<"0">,     //
                    only<pop<"earlier">>, relu, linear<W>, stash<"1">,    //
                    gelu, linear<W>, pop<"0">, add, stash<"2">,           //
                    scope<only<pop<"0">>, relu, linear<W>, stash<"one">,  //
                          only<pop<"2">>, gelu, linear<W>, pop<"one">, add>,
                    stash<"3">,  //
                    only<pop<"1">>, pop<"2">, pop<"3">, concat<>, pop<"before">> {};

template <class T>
struct cells : model<input<T, 6>, linear<4>, stash<"x">, pop<"x">, cell<3>, cell<4>,
                     scope<stash<"out", "unused">, only<pop<"out">>, linear<3>, pop<"unused">, concat<>>,
                     softmax_cross_entropy> {};

constexpr int layers = layers_of<cells<float>>;
static_assert(layers == 1 + 2 * 13 + 2 + 1);

std::vector<double> losses_of(const std::vector<int>& cut, recompute_mode mode, schedule_kind schedule) {
  trainer<cells<double>, adam> training{{.stages = static_cast<int>(cut.size()) + 1,
                                         .micro_batches = 3,
                                         .micro_batch_size = 2,
                                         .recompute = mode,
                                         .schedule = schedule},
                                        adam{.learning_rate = 0.02},
                                        {.cut = cut}};
  const laws::samples<double> data(6, 6, 1);
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) losses.push_back(training.step(data.take(0, 6)).loss);
  return losses;
}

}  // namespace

TEST_CASE("cells of two tensors train with the same bits wherever they are cut") {
  const auto whole = losses_of({}, recompute_mode::never, schedule_kind::fill_drain);
  CHECK(whole.back() < whole.front());
  for (int at = 1; at < layers; ++at)
    for (const recompute_mode mode : {recompute_mode::always, recompute_mode::never}) {
      CAPTURE(at);
      CHECK(losses_of({at}, mode, schedule_kind::one_f_one_b) == whole);
    }
  std::vector<int> every;
  for (int at = 1; at < layers; ++at) every.push_back(at);
  CHECK(losses_of(every, recompute_mode::except_last, schedule_kind::fill_drain) == whole);
}

TEST_CASE("the gradients of cells are those of differences") {
  const plan_options plan{.stages = 2, .micro_batches = 1, .micro_batch_size = 4};
  trainer<cells<double>, sgd> stepped{plan, sgd{.learning_rate = 1}}, moved{plan, sgd{.learning_rate = 1}};
  const laws::samples<double> data(4, 6, 1);
  stepped.step(data.take(0, 4));
  int checked = 0;
  for (const auto& p : moved.parameters()) {
    auto values = moved.parameter<double>(p.path);
    const auto after = stepped.parameter<double>(p.path);
    for (std::size_t i = 0; i < values.size(); i += 3) {
      const double was = values[i], h = 1e-5;
      const auto loss_at = [&](double x) {
        values[i] = x;
        moved.array(p.path).set(values);
        return moved.evaluate(data.take(0, 4)).loss;
      };
      const double difference = (loss_at(was + h) - loss_at(was - h)) / (2 * h);
      loss_at(was);
      CAPTURE(p.path);
      CHECK(was - after[i] == doctest::Approx(difference).epsilon(1e-5).scale(1e-3));
      ++checked;
    }
  }
  CHECK(checked > 50);
}
