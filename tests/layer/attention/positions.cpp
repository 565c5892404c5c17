// optimize: yes

#include <gpipe/layer/attention/positions.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/larger_error.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using table = bound<learned_positions<9>, tensor<bf16, 4, 6>>;
static_assert(table::parameters[0].extents == shape{9, 6} && !table::keeps.input && table::extras.empty());
using drawn = bound<sinusoidal_positions, tensor<bf16, 4, 6>>;
static_assert(drawn::parameters.empty() && drawn::derived[0].size == 24 && drawn::derived[0].type == dtype::float32);

TEST_CASE("a position's row is added, and gets the sum of all samples' gradients") {
  host::layer_fixture<learned_positions<3>, tensor<double, 2, 2>> t(3, 4);
  t.randomize(1);
  t.forward();
  t.backward_parameters();
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (std::size_t s = 0; s < 3; ++s) {
      CHECK(t.out[0].get(4 * s + i) == t.in[0].get(4 * s + i) + t.parameters[0].get(i));
      sum += t.out_gradient[0].get(4 * s + i);
    }
    CHECK(t.gradients[0].get(i) == doctest::Approx(sum).epsilon(1e-15));
  }
  for (std::size_t i = 4; i < 6; ++i) CHECK(t.gradients[0].get(i) == 0);  // the table is longer than the sequence
}

// Positions beyond the 64th are reached by turning, and begin again at each 64th.
TEST_CASE_TEMPLATE("the waves are those of the paper's formula", T, float, double) {
  constexpr int tokens = 200, width = 7;
  host::layer_fixture<sinusoidal_positions, tensor<T, tokens, width>> t(1, 1);
  for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, 0);
  t.refresh();
  t.forward();
  double worst = 0;
  for (int p = 0; p < tokens; ++p)
    for (int i = 0; i < width; ++i) {
      const double angle = p / std::pow(10000.0, (i - i % 2) / double{width});
      const double want = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      worst = larger_error(worst, std::fabs(t.out[0].get(static_cast<std::size_t>(p * width + i)) - want));
    }
  CHECK(worst < (sizeof(T) == 4 ? 1e-7 : 1e-13));
}

TEST_CASE("the table of waves is there for every stage, also for one without parameters") {
  struct net : model<input<float, 4, 2>, linear<2>, sinusoidal_positions, mean_squared_error> {};
  const std::vector<float> x(16, 0.5F), y(16, 0);
  const batch all = batch(2).with("inputs", x).with("targets", y);
  double losses[2];
  for (const int stages : {1, 3}) {
    trainer<net, sgd> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 1}, sgd{});
    training.step(all);
    losses[stages == 3] = training.evaluate(all).loss;
  }
  CHECK(losses[0] == losses[1]);
  CHECK(std::isfinite(losses[0]));
}
