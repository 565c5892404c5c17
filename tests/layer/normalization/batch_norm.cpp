// optimize: yes

#include <gpipe/layer/normalization/batch_norm.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using feature_maps = bound<batch_norm<>, tensor<float, 3, 4, 5>>;
static_assert(feature_maps::parameters[1].extents == shape{3} && feature_maps::state[1].extents == shape{3});
static_assert(feature_maps::partials[0].size == 3 && feature_maps::partials[2].size == 1);
static_assert(feature_maps::extras.empty() && feature_maps::keeps.input && !feature_maps::keeps.output);
static_assert(bound<batch_norm<>, tensor<float, 9>>::state[0].extents == shape{9});

namespace {

template <class Trial>
struct channels : Trial {
  static constexpr std::size_t C = Trial::bound::state[0].extents.size(), inner = Trial::bound::input::size / C;
  using Trial::Trial;

  template <class F>
  void each(std::size_t channel, F f) {
    const auto samples = static_cast<std::size_t>(this->call().samples);
    for (std::size_t s = 0; s < samples; ++s)
      for (std::size_t i = 0; i < inner; ++i) f((s * C + channel) * inner + i);
  }
  double mean(std::size_t channel) {
    double sum = 0, count = 0;
    each(channel, [&](std::size_t i) { sum += this->in[0].get(i), count += 1; });
    return sum / count;
  }
  /// The sum of squared distances from `middle`.
  double squares(std::size_t channel, double middle) {
    double sum = 0;
    each(channel, [&](std::size_t i) { sum += std::pow(this->in[0].get(i) - middle, 2); });
    return sum;
  }
  double average(std::size_t which, std::size_t channel) {
    return this->state[0].get(this->first_of_state(which) + channel);
  }
  void is_normalized_by(std::size_t channel, double middle, double variance, double tolerance) {
    each(channel, [&](std::size_t i) {
      const double h = (this->in[0].get(i) - middle) / std::sqrt(variance + 1e-5);
      const double want = this->parameters[0].get(channel) * h + this->parameters[0].get(this->first_of(1) + channel);
      CHECK(std::fabs(this->out[0].get(i) - want) < tolerance);
    });
  }
};

template <class Trial>
void agrees(double tolerance) {
  channels<Trial> t(5, 7);
  t.randomize(3);
  for (const double far : {0.0, 1000.0}) {
    for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, t.in[0].get(i) + far);
    t.call().training = true;
    t.forward();
    for (std::size_t c = 0; c < t.C; ++c) {
      const double mean = t.mean(c), squares = t.squares(c, mean);
      t.is_normalized_by(c, mean, squares / static_cast<double>(5 * t.inner), tolerance);
      CHECK(t.partials[0].get(c) == doctest::Approx(mean));
      CHECK(t.partials[0].get(t.C + c) == doctest::Approx(squares));
    }
    CHECK(t.partials[0].get(2 * t.C) == static_cast<double>(5 * t.inner));
    t.call().training = false;
    const auto recorded = t.partials[0].bits();
    for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, t.in[0].get(i) + 1);  // of other statistics
    t.forward();
    for (std::size_t c = 0; c < t.C; ++c)
      t.is_normalized_by(c, t.average(0, c), t.average(1, c), tolerance * (1 + far));
    CHECK(t.partials[0].bits() == recorded);
    // Averages do not depend on the input: its gradient is that of a scale.
    t.backward_input();
    for (std::size_t c = 0; c < t.C; ++c)
      t.each(c, [&](std::size_t i) {
        const double scale = t.parameters[0].get(c) / std::sqrt(t.average(1, c) + 1e-5);
        CHECK(std::fabs(t.in_gradient[0].get(i) - scale * t.out_gradient[0].get(i)) < tolerance);
      });
  }
  CHECK(t.overrun().empty());
}

}  // namespace

TEST_CASE("training uses the statistics of the micro-batch, evaluation the averages") {
  agrees<host::layer_fixture<batch_norm<>, tensor<float, 21>>>(3e-4);
  agrees<host::layer_fixture<batch_norm<>, tensor<double, 21>>>(1e-11);
  agrees<host::layer_fixture<batch_norm<>, tensor<float, 3, 2, 9>>>(3e-4);
  agrees<host::layer_fixture<batch_norm<>, tensor<double, 3, 2, 9>>>(1e-11);
}

TEST_CASE("gradients of the parameters add to those of earlier micro-batches") {
  host::layer_fixture<batch_norm<>, feature_map<double, 3, 2, 2>> t(2, 2);
  t.randomize(1);
  t.forward();
  t.backward_parameters();
  const std::size_t count = t.gradients[0].count();
  std::vector<double> once;
  for (std::size_t i = 0; i < count; ++i) once.push_back(t.gradients[0].get(i));
  t.backward_parameters();
  for (std::size_t i = 0; i < count; ++i) CHECK(t.gradients[0].get(i) == 2 * once[i]);
  CHECK(once[0] != 0);
}

TEST_CASE("one sample gives the bias, not NaN") {
  host::layer_fixture<batch_norm<>, tensor<float, 8>> t(1, 1);
  t.randomize(1);
  t.forward();
  t.backward();
  for (std::size_t i = 0; i < 8; ++i) CHECK(t.out[0].get(i) == t.parameters[0].get(t.first_of(1) + i));
  for (std::size_t i = 0; i < 8; ++i) CHECK(t.in_gradient[0].get(i) == 0);
}

TEST_CASE("averages move by the statistics of the whole mini-batch for any cut into micro-batches") {
  using layer_fixture = channels<host::layer_fixture<batch_norm<250>, tensor<double, 3, 4>>>;
  layer_fixture whole(7, 7);
  whole.randomize(5);
  for (std::size_t i = 0; i < whole.in[0].count(); ++i) whole.in[0].set(i, 1e4 + whole.in[0].get(i));  // far from 0
  constexpr std::ptrdiff_t stride = 16;
  for (const int size : {1, 2, 3, 7}) {
    CAPTURE(size);
    alignas(alignment) double partials[8 * stride];
    for (double& x : partials) x = std::nan("");  // partials of micro-batches without samples must not be read
    layer_fixture t(size, size);
    t.randomize(5);
    int M = 0;
    for (int first = 0; first < 7; first += size, ++M) {
      t.call().samples = (std::min)(size, 7 - first);
      for (std::size_t i = 0; i < t.in[0].count(); ++i)
        if (const std::size_t from = static_cast<std::size_t>(first) * 12 + i; from < whole.in[0].count())
          t.in[0].set(i, whole.in[0].get(from));
      t.call().partials = partials + M * stride;
      t.forward();
    }
    t.call().partials = partials;
    t.call().partial_stride = stride;
    t.call().micro_batches = M;
    double before[2][3];
    for (std::size_t c = 0; c < 3; ++c) before[0][c] = t.average(0, c), before[1][c] = t.average(1, c);
    t.update_state();
    for (std::size_t c = 0; c < 3; ++c) {
      const double mean = whole.mean(c), variance = whole.squares(c, mean) / (7 * 4 - 1);
      CHECK(std::fabs(t.average(0, c) - (before[0][c] + 0.25 * (mean - before[0][c]))) < 1e-9);
      CHECK(std::fabs(t.average(1, c) - (before[1][c] + 0.25 * (variance - before[1][c]))) < 1e-11);
    }
    CHECK(t.overrun().empty());
  }
}

TEST_CASE("a channel with one element does not move the variance") {
  channels<host::layer_fixture<batch_norm<500>, tensor<float, 2>>> t(1, 1);
  t.randomize(1);
  t.forward();
  const double mean = t.average(0, 1), variance = t.average(1, 1);
  t.update_state();
  CHECK(t.average(0, 1) == doctest::Approx((mean + t.in[0].get(1)) / 2));
  CHECK(t.average(1, 1) == variance);
}

TEST_CASE("channels of feature maps are normalized as by torch.nn.BatchNorm2d") {
  laws::are_like_torch<feature_map<float, 3, 3, 4>, batch_norm<>, batch_norm<100, 250'000>>(
      reference::feature_maps::batch_norm);
}

TEST_CASE("averages are those of PyTorch, or with the biased variance those of torchgpipe") {
  const auto holds = [&]<class Layer>(Layer, const double* want) {
    host::layer_fixture<Layer, feature_map<double, 3, 3, 4>> t(2, 2);
    for (std::size_t c = 0; c < 3; ++c) {
      t.parameters[0].set(c, 1), t.parameters[0].set(t.first_of(1) + c, 0);
      t.state[0].set(c, 0), t.state[0].set(t.first_of_state(1) + c, 1);
    }
    for (const double factor : {1.0, 2.0}) {
      for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, factor * laws::torch_number(1, i));
      t.forward();
      t.update_state();
    }
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(std::fabs(t.state[0].get(c) - want[c]) < 1e-14);
      CHECK(std::fabs(t.state[0].get(t.first_of_state(1) + c) - want[3 + c]) < 1e-14);
    }
  };
  holds(batch_norm<>{}, reference::feature_maps::averages);
  holds(batch_norm_with<batch_statistics{.biased = true}>{}, reference::feature_maps::biased_averages);
}
