#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/runtime/executor.hpp>

#include "support/larger_error.hpp"
#include "support/reference/batch_norm.hpp"
#include "support/reference/residual_mlp.hpp"

// Three steps of training against the numbers of independent implementations in tests/support/reference:
// residual_mlp.py, and batch_norm.py for numbers that depend on how the batch is cut into micro-batches.

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::residual_mlp;

namespace {

template <class T>
struct net : model<input<T, known::features>, linear<known::width>,
                   repeat<known::blocks, residual<layer_norm, linear<known::hidden>, gelu, linear<known::width>>>,
                   layer_norm, linear<known::classes>, softmax_cross_entropy> {};

template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;

/// The location of a parameter in its layer's block (bytes), and in the flat lists of known numbers (elements).
struct array_location {
  int layer_index;
  std::size_t offset, first, size;
};
std::vector<array_location> locations(const network& of, std::size_t count) {
  std::vector<array_location> found;
  std::size_t first = 0;
  for (int l = 0; l < of.layer_count; ++l) {
    std::size_t offset = 0;
    for (int p = 0; p < of.type_of(l).parameter_count; ++p) {
      const std::size_t size = of.type_of(l).parameters[p].extents.size();
      found.push_back({l, offset, first, size});
      offset += aligned(size * bytes_of(of.type));
      first += size;
    }
  }
  CHECK(first == count);
  return found;
}

template <class T>
std::vector<T> rounded(std::span<const double> from) {
  return {from.begin(), from.end()};
}

template <class T>
void agrees(const optimizer_update& rule, double rate, const std::string& run_name, double clip = 0) {
  const auto& initial = known::array("initial");
  const auto& gradients = known::array("gradients");
  const auto& losses = known::array(run_name + ".losses");
  const auto& norms = known::array(run_name + ".norms");
  const auto& parameters = known::array(run_name + ".parameters");
  const network& of = network_of<net<T>>;
  const auto inputs = rounded<T>(known::array("inputs")), weights = rounded<T>(known::array("weights"));
  const std::vector<std::int32_t> labels(known::array("labels").begin(), known::array("labels").end());
  batch data(known::samples);
  data.with("inputs", inputs).with("labels", labels).with("weights", weights);
  double weight = 0;
  for (const double w : known::array("weights")) weight += w;

  for (const int S : {1, 3})
    for (const int M : {1, 4}) {  // 10 samples are 3 + 3 + 3 + 1
      CAPTURE(S);
      CAPTURE(M);
      const plan_options options{
          .stages = S, .micro_batches = M, .micro_batch_size = 10 / M + (M > 1), .optimizer_moments = rule.moments()};
      executor run(gpipe::detail::device_of<host_device>, of, kernels_of<net<T>, host::context>, make_plan(of, options),
                   rule);
      for (const array_location& at : locations(of, known::parameter_count)) {
        const auto start = rounded<T>(std::span(initial).subspan(at.first, at.size));
        run.write({memory_kind::parameters, at.layer_index, 0, at.offset, at.size * sizeof(T)}, start.data());
      }

      // The largest distance between the blocks and the known numbers.
      const auto distance = [&](auto block, double divisor, const std::vector<double>& numbers) {
        double largest = 0;
        for (const array_location& at : locations(of, known::parameter_count)) {
          const auto* x = reinterpret_cast<const T*>(block(at.layer_index) + at.offset);
          for (std::size_t i = 0; i < at.size; ++i)
            largest = larger_error(largest, std::abs(static_cast<double>(x[i]) / divisor - numbers[at.first + i]));
        }
        return largest;
      };
      for (int step = 0; step < known::steps; ++step) {
        CAPTURE(step);
        const step_result found = run.train(data, rate, clip);
        const auto now = static_cast<std::size_t>(step);
        CHECK(std::abs(found.loss - losses[now]) < tolerance<T>);
        CHECK(std::abs(found.norm - norms[now]) < tolerance<T>);
        CHECK(found.weight == weight);
        if (step == 0) CHECK(distance([&](int l) { return run.gradients(l); }, weight, gradients) < tolerance<T>);
      }
      CHECK(distance([&](int l) { return run.parameters(l); }, 1, parameters) < tolerance<T>);
    }
}

const optimizer_update descent = optimizer_update::of<host::context>(gpipe::sgd{.momentum = 0.9});

namespace averaged = reference::batch_norm;

template <class T>
struct averaging_net : model<input<T, averaged::features>, linear<averaged::width>, batch_norm<200>, gelu,
                             reshape<averaged::channels, averaged::width / averaged::channels>, batch_norm<200>,
                             reshape<averaged::width>, linear<averaged::classes>, softmax_cross_entropy> {};

template <class T>
void averages(int M, const double* losses, const double* norms, const double* parameters, const double* state,
              double evaluated) {
  const network& of = network_of<averaging_net<T>>;
  const auto inputs = rounded<T>(averaged::inputs), weights = rounded<T>(averaged::weights);
  const std::vector<std::int32_t> labels(averaged::labels, averaged::labels + averaged::samples);
  batch data(averaged::samples);
  data.with("inputs", inputs).with("labels", labels).with("weights", weights);
  const auto start = rounded<T>(averaged::initial);
  for (const int S : {1, 3}) {
    CAPTURE(S);
    CAPTURE(M);
    const plan_options options{.stages = S,
                               .micro_batches = M,
                               .micro_batch_size = (averaged::samples + M - 1) / M,
                               .optimizer_moments = descent.moments()};
    executor run(gpipe::detail::device_of<host_device>, of, kernels_of<averaging_net<T>, host::context>,
                 make_plan(of, options), descent);
    for (const array_location& at : locations(of, averaged::parameter_count))
      run.write({memory_kind::parameters, at.layer_index, 0, at.offset, at.size * sizeof(T)}, start.data() + at.first);
    for (int step = 0; step < averaged::steps; ++step) {
      const step_result found = run.train(data, 0.1);
      CHECK(std::abs(found.loss - losses[step]) < tolerance<T>);
      CHECK(std::abs(found.norm - norms[step]) < tolerance<T>);
    }
    for (const array_location& at : locations(of, averaged::parameter_count))
      for (std::size_t i = 0; i < at.size; ++i)
        CHECK(std::abs(static_cast<double>(reinterpret_cast<const T*>(run.parameters(at.layer_index) + at.offset)[i]) -
                       parameters[at.first + i]) < tolerance<T>);
    const double* known_average = state;
    for (const int l : {1, 4})
      for (int i = 0; i < 2; ++i)
        for (std::size_t c = 0; c < of.type_of(l).state[i].extents.size(); ++c) {
          const auto* at = reinterpret_cast<const T*>(run.state(l) + static_cast<std::size_t>(i) * alignment);
          CHECK(std::abs(static_cast<double>(at[c]) - *known_average++) < tolerance<T>);
        }
    CHECK(std::abs(run.evaluate(data).loss - evaluated) < tolerance<T>);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("stochastic gradient descent with momentum", T, float, double) { agrees<T>(descent, 0.1, "sgd"); }

TEST_CASE_TEMPLATE("stochastic gradient descent with momentum and clipping", T, float, double) {
  agrees<T>(descent, 0.1, "sgd_clipped", 0.5);
}

TEST_CASE_TEMPLATE("batch norm: each micro-batch by itself, averages of them all", T, float, double) {
  using namespace averaged;
  averages<T>(1, by_11::losses, by_11::norms, by_11::parameters, by_11::averages, by_11::evaluated);
  averages<T>(3, by_4::losses, by_4::norms, by_4::parameters, by_4::averages, by_4::evaluated);
  averages<T>(11, by_1::losses, by_1::norms, by_1::parameters, by_1::averages, by_1::evaluated);
}

TEST_CASE_TEMPLATE("Adam", T, float, double) { agrees<T>(optimizer_update::of<host::context>(adam{}), 0.01, "adam"); }

TEST_CASE_TEMPLATE("AdamW", T, float, double) {
  agrees<T>(optimizer_update::of<host::context>(adamw{.weight_decay = 0.01}), 0.01, "adamw");
}
