#include <gpipe/runtime/hooks/canary.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

namespace {

/// y = x^2. It reads its input in backward, but does not declare that it keeps it.
struct forgetful {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static inline const T* seen = nullptr;
    static void forward(const auto& c, const auto& a) {
      seen = a.in();
      c.each(a.samples() * N, [x = a.in(), y = a.out()](std::ptrdiff_t i) { y[i] = x[i] * x[i]; });
    }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N,
             [x = seen, dy = a.out_gradient(), dx = a.in_gradient()](std::ptrdiff_t i) { dx[i] = 2 * x[i] * dy[i]; });
    }
  };
};

/// y = 2 x. Its backward reads the workspace in which an earlier call has left the factor.
struct remembering {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr buffer workspace[] = {{"factor", 1, dtype_of<T>}};
    static inline bool written = false;
    static void forward(const auto& c, const auto& a) {
      c.each(a.samples() * N, [x = a.in(), y = a.out()](std::ptrdiff_t i) { y[i] = 2 * x[i]; });
    }
    static void backward_input(const auto& c, const auto& a) {
      if (!written) c.fill(1, T(2), a.workspace());
      written = true;
      c.each(a.samples() * N, [factor = a.workspace(), dy = a.out_gradient(), dx = a.in_gradient()](std::ptrdiff_t i) {
        dx[i] = *factor * dy[i];
      });
    }
  };
};

/// y = 2 x. Its backward reads what forward has left in its workspace.
struct left_by_forward {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr int middle = 512;  // no other buffer gets there
    static constexpr buffer forward_workspace[] = {{"factors", 2 * middle, dtype_of<T>, true}};
    static inline const T* factor = nullptr;
    static void forward(const auto& c, const auto& a) {
      c.fill(2 * middle, T(2), a.forward_workspace());
      factor = a.forward_workspace() + middle;
      c.each(a.samples() * N, [by = factor, x = a.in(), y = a.out()](std::ptrdiff_t i) { y[i] = *by * x[i]; });
    }
    static void backward_input(const auto& c, const auto& a) {
      c.each(a.samples() * N,
             [by = factor, dy = a.out_gradient(), dx = a.in_gradient()](std::ptrdiff_t i) { dx[i] = *by * dy[i]; });
    }
  };
};
/// y = 2 x. Its forward reads what the backward of an earlier micro-batch has left in its extras.
struct left_by_backward {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr int middle = 512;
    static constexpr buffer backward_extras[] = {{"factors", 2 * middle, dtype_of<T>, true}};
    static inline const T* factor = nullptr;
    static void forward(const auto& c, const auto& a) {
      c.each(a.samples() * N,
             [by = factor, x = a.in(), y = a.out()](std::ptrdiff_t i) { y[i] = (by == nullptr ? T(2) : *by) * x[i]; });
    }
    static void backward_input(const auto& c, const auto& a) {
      c.fill(2 * middle, T(2), a.backward_extra());
      factor = a.backward_extra() + middle;
      c.each(a.samples() * N,
             [by = factor, dy = a.out_gradient(), dx = a.in_gradient()](std::ptrdiff_t i) { dx[i] = *by * dy[i]; });
    }
  };
};
template <class Leaves>
struct left : model<input<float, 6>, linear<8>, Leaves, linear<3>, softmax_cross_entropy> {};

struct remembered : model<input<float, 6>, linear<8>, remembering, linear<3>, softmax_cross_entropy> {};
struct net : model<input<float, 6>, linear<8>, relu, linear<8>, forgetful, linear<3>, softmax_cross_entropy> {};

template <class Net = net>
step_result one_step(bool canary, recompute_mode recompute) {
  const std::vector<float> inputs(6 * 4, 0.5F);
  const std::vector<std::int32_t> labels{0, 1, 2, 0};
  training_options how;
  how.canary = canary;
  plan_options options{.micro_batches = 2, .micro_batch_size = 2, .recompute = recompute};
  options.schedule = schedule_kind::one_f_one_b;  // the second forward comes behind the first backward
  trainer<Net, sgd> training(options, {}, how);
  return training.step(batch(4).with("inputs", inputs).with("labels", labels));
}

}  // namespace

TEST_CASE("the canary finds and names a layer that reads what an earlier call left in its workspace") {
  CHECK_THROWS_WITH_AS(one_step<remembered>(true, recompute_mode::never), doctest::Contains("remembering"), error);
}

TEST_CASE("the canary finds and names a layer that reads memory of the other pass") {
  for (const recompute_mode mode : {recompute_mode::always, recompute_mode::never}) {
    CHECK_THROWS_WITH_AS(one_step<left<left_by_forward>>(true, mode), doctest::Contains("left_by_forward"), error);
    left_by_backward::on<tensor<float, 8>>::factor = nullptr;
    CHECK_THROWS_WITH_AS(one_step<left<left_by_backward>>(true, mode), doctest::Contains("left_by_backward"), error);
  }
}

TEST_CASE("the canary finds and names a layer that reads a value that it did not keep") {
  for (const recompute_mode mode : {recompute_mode::always, recompute_mode::except_last, recompute_mode::never}) {
    CHECK_NOTHROW(one_step(false, mode));
    CHECK_THROWS_WITH_AS(one_step(true, mode), doctest::Contains("forgetful"), error);
  }
}
