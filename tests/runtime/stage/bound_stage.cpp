// sanitizers: address

#include <gpipe/runtime/stage/bound_stage.hpp>

#include <doctest/doctest.h>

#include <memory>

#include <gpipe/device/host/host.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/runtime/step/step_input.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

/// y = x w + 1. `refresh` makes a copy of w, and the input is kept.
struct affine {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initializer::ones()}};
    static constexpr buffer derived[] = {{"copy", N, dtype_of<T>}};
    static constexpr buffer extras[] = {{"input", N, dtype_of<T>}};
    static void refresh(const auto&, const auto& a) noexcept {
      loop(N, [&](int i) { a.template derived<0>()[i] = a.template parameter<0>()[i]; });
    }
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.out()[i] = a.in()[i] * a.template derived<0>()[i % N] + 1;
        a.template extra<0>()[i] = a.in()[i];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template derived<0>()[i % N]; });
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.template gradient<0>()[i % N] += a.out_gradient()[i] * a.template extra<0>()[i]; });
    }
  };
};
struct net : model<input<double, 2>, affine, affine, passing_loss> {};

/// All stages of a cut, called one after the other on this thread.
struct stage_set {
  step_plan plan;
  std::vector<std::unique_ptr<bound_stage>> all;

  explicit stage_set(const std::vector<int>& cut)
      : plan(make_plan(network_of<net>,
                       {.stages = static_cast<int>(cut.size()) + 1, .micro_batches = 2, .micro_batch_size = 2}, cut)) {
    std::vector<const detail::arena_map*> maps;
    for (int s = 0; s < plan.stages(); ++s) {
      all.push_back(std::make_unique<bound_stage>(gpipe::detail::device_of<host_device>, network_of<net>, plan, s,
                                                  std::byte{0xff}));
      maps.push_back(&all.back()->map());
    }
    for (auto& s : all) s->bind(maps, kernels_of<net, host::context>);
  }
  double* parameters(int s) { return reinterpret_cast<double*>(all[static_cast<std::size_t>(s)]->parameters()); }
  double* gradients(int s) { return reinterpret_cast<double*>(all[static_cast<std::size_t>(s)]->gradients()); }
};

const std::vector<double> x{1, 2, 3, 4, 5, 6};
const std::vector<std::int32_t> labels{0, 1, 0};

step_context step_over_three() {
  step_context step;
  batch_rows& rows = step.rows;
  check_batch(network_of<net>, batch(3).with("inputs", x).with("labels", labels), 4, rows);
  step.per_micro_batch = 2;
  return step;
}

}  // namespace

TEST_CASE("forward and backward of a micro-batch compute the numbers derived by hand, in one stage or three") {
  // w = (2, 3) and (1, -1): y = 2 x0 + 2 and -(3 x1 + 1) + 1. Sample 2 is (5, 6): y = (12, -18), label 0.
  for (const auto& cut : {std::vector<int>{}, std::vector<int>{1, 2}}) {
    stage_set s(cut);
    const bool one = cut.empty();
    double* first = s.parameters(0);
    double* second = one ? first + 8 : s.parameters(1);
    first[0] = 2, first[1] = 3, second[0] = 1, second[1] = -1;
    for (auto& stage : s.all) stage->refresh();
    const step_context step = step_over_three();
    for (auto& stage : s.all) {
      stage->forward(step, 1);  // the micro-batch of sample 2 alone
      stage->pass_on(step, 1);
      stage->recompute(step, 1);
    }
    double found[2 * 8];
    s.all.back()->statistics().download(2, step, found);
    CHECK(found[8] == 1);  // of micro-batch 1; missing weights are ones
    CHECK(found[9] == (11.0 * 11.0 + 18.0 * 18.0) / 2);
    for (auto stage = s.all.rbegin(); stage != s.all.rend(); ++stage) {
      (*stage)->begin();
      CHECK((*stage)->current() == nullptr);
      (*stage)->backward_input(step, 1);
      (*stage)->backward_parameters(step, 1, 1, [] {});
      CHECK((*stage)->current() != nullptr);
    }
    // dy = (11, -18). The input of the second layer is (11, 19); that of the first is (5, 6), with dy times the second
    // weight.
    const double* of_first = s.gradients(0);
    const double* of_second = one ? of_first + 8 : s.gradients(1);
    CHECK(of_second[0] == 11 * 11);
    CHECK(of_second[1] == -18 * 19);
    CHECK(of_first[0] == 11 * 5);
    CHECK(of_first[1] == 18 * 6);
    CHECK(of_first[2] == 0);  // padding to the next aligned address
  }
}

TEST_CASE("parameters, gradients and moments are flat arrays, and zero at first") {
  stage_set s({1});
  for (int k = 0; k < 2; ++k) {
    const auto& stage = *s.all[static_cast<std::size_t>(k)];
    CHECK(stage.stage() == k);
    CHECK(stage.flat_bytes() == 64);
    CHECK(stage.gradients() == stage.parameters() + 64);
    CHECK(stage.moments(1) == stage.parameters() + 3 * 64);
    for (std::size_t i = 0; i < 4 * stage.flat_bytes(); ++i) CHECK(stage.parameters()[i] == std::byte{0});
    CHECK(stage.arena().size() == static_cast<std::size_t>(stage.memory().total()));
    CHECK(reinterpret_cast<std::uintptr_t>(stage.arena().data()) % alignment == 0);
  }
}

TEST_CASE("the ranges that are trained leave out frozen layers") {
  stage_set s(std::vector<int>{});
  auto& stage = *s.all[0];
  const parameter_groups groups(network_of<net>, {});
  stage.begin_updates(groups);
  stage.begin_moments(optimizer_update::of<host::context>(adam{}));
  const auto ranges = [&] {
    std::vector<std::size_t> found;
    for (const update_range& range : stage.ranges())
      found.insert(found.end(), {static_cast<std::size_t>(range.parameters - stage.parameters()), range.bytes});
    return found;
  };
  CHECK(ranges() == std::vector<std::size_t>{0, 128});
  stage.freeze(0, 0, true);
  CHECK(ranges() == std::vector<std::size_t>{64, 64});
  stage.freeze(1, 0, true);
  CHECK(ranges().empty());
  stage.freeze(0, 0, false);
  CHECK(ranges() == std::vector<std::size_t>{0, 64});
}
