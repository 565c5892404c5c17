#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

#include "support/small_training.hpp"

// What a training returns beside the loss: metrics, predictions, activations.

using namespace gpipe;
using namespace laws;
using namespace small;

namespace {

/// A classifier's loss that also reports how often the label is among the two largest logits, and the largest logit.
struct metrics_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : softmax_cross_entropy::on<tensor<T, N>> {
    using base = softmax_cross_entropy::on<tensor<T, N>>;
    static constexpr const char* partials[] = {"loss", "weight", "correct", "top 2", "largest"};
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      base::forward(c, a);
      double* partials_of_call = a.partials();
      if (partials_of_call == nullptr) return;
      partials_of_call[3] = partials_of_call[4] = 0;
      loop(a.samples(), [&](int row) {
        const T* in = a.in() + row * N;
        const auto label = a.template field<0, std::int32_t>()[row];
        int above = 0;
        loop(N, [&](int i) { above += in[i] > in[label]; });
        partials_of_call[3] += above < 2;
        partials_of_call[4] += static_cast<double>(*std::max_element(in, in + N));
      });
    }
  };
};
/// A loss with more partials than a step_result holds.
struct verbose_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : passing_loss::on<tensor<T, N>> {
    static constexpr const char* partials[] = {"weight", "loss", "1", "2", "3", "4", "5", "6", "7"};
  };
};
struct verbose_net : model<input<float, 4>, linear<4>, verbose_loss> {};
struct metrics_net : model<input<float, 4>, linear<4>, metrics_loss> {};

/// Half the sum of (a + b)^2 over two tensors a and b.
struct pair_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<bundle<tensor<T, N>, tensor<T, N>>> {
    using output = bundle<>;
    static constexpr const char* partials[] = {"loss"};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      double sum = 0;
      loop(a.samples() * N, [&](int i) {
        const T both = a.template in<0>()[i] + a.template in<1>()[i];
        sum += static_cast<double>(both * both) / 2;
      });
      if (a.partials()) *a.partials() = sum;
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        const T both = a.template in<0>()[i] + a.template in<1>()[i];
        if (T* d = a.template in_gradient<0>()) d[i] = both;
        if (T* d = a.template in_gradient<1>()) d[i] = both;
      });
    }
  };
};
struct paired : model<input<float, 4>, halve, cross, pair_loss> {};

}  // namespace

TEST_CASE("a loss reports metrics: the means of its partials, by name") {
  trainer<metrics_net, sgd> t(plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = 2});
  const auto expected = [&](auto of) {
    const tensor_rows logits = t.predict(data);
    double sum = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<float> row(logits.of(i).begin(), logits.of(i).end());
      sum += of(row, row[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])]);
    }
    return sum / 5;
  };
  const double top = expected([](std::vector<float> row, float own) {
    std::sort(row.rbegin(), row.rend());
    return own >= row[1] ? 1 : 0;
  });
  const double largest = expected([](const std::vector<float>& row, float) {
    return static_cast<double>(*std::max_element(row.begin(), row.end()));
  });
  const step_result whole = t.evaluate(data);  // 4 + 1
  CHECK(whole.metric("top 2") == doctest::Approx(top));
  CHECK(whole.metric("largest") == doctest::Approx(largest));
  CHECK(whole.metric("correct") == whole.accuracy());
  CHECK(whole.metric("loss") == doctest::Approx(whole.loss));
  t.accumulate(some(0, 2));
  CHECK(t.step(some(2, 3), 0).metric("top 2") == doctest::Approx(top));
  rejects("the loss has no partial \"top 5\"; it has loss, weight, correct, top 2, largest",
          [&] { whole.metric("top 5"); });
  rejects("the partials of the loss have 9 elements; choose at most 8",
          [] { trainer<verbose_net, sgd>(plan_options{.micro_batches = 1, .micro_batch_size = 2}); });
  rejects("it has none", [] { static_cast<void>(step_result{}.metric("loss")); });
}

TEST_CASE("predictions are the inputs of the loss, one row per sample, and need no labels") {
  const training reference(plan_options{.micro_batches = 1, .micro_batch_size = 5});
  const auto w = reference.parameter(1, "weight");
  for (const int S : {1, 2, 4})
    for (const int M : {1, 2}) {
      training t(plan_options{.stages = S, .micro_batches = M, .micro_batch_size = 1});
      const dataset inputs = dataset{}.with("inputs", 4, x);
      for (const dataset& from : {inputs, data}) {
        const tensor_rows found = t.predict(from);
        CHECK(found.samples() == 5);
        CHECK(found.tensors() == 1);
        REQUIRE(found.all().size() == 20);
        for (std::size_t i = 0; i < 5; ++i) {  // (a, b) -> (b w, a + b)
          const float* in = &x[4 * i];
          const std::vector<float> row(found.of(static_cast<int>(i)).begin(), found.of(static_cast<int>(i)).end());
          CHECK(row == std::vector<float>{in[2] * w[0], in[3] * w[1], in[0] + in[2], in[1] + in[3]});
        }
      }
      CHECK(t.predict(batch(1).with("inputs", std::span(x).last(4))).all()[2] == x[16] + x[18]);
      t.step(some(0, M));  // a step works after a prediction
      rejects("the batch lacks the field \"labels\"", [&] { t.step(batch(1).with("inputs", std::span(x).first(4))); });
      rejects("the batch is empty", [&] { t.predict(batch(0)); });
      rejects("has 3 samples", [&] { t.predict(batch(3)); });
      rejects("has 2147483647 samples", [&] { t.predict(batch((std::numeric_limits<int>::max)())); });
      rejects("the batch lacks the field \"inputs\"", [&] { t.predict(batch(1)); });
      rejects("the dataset has no samples", [&] { t.predict(*std::make_unique<dataset>()); });
      rejects("there is no tensor 1", [&] { static_cast<void>(t.predict(data).all(1)); });
      rejects("tensor 0 holds float", [&] { static_cast<void>(t.predict(data).all<double>()); });
      rejects("there is no row of sample 5", [&] { static_cast<void>(t.predict(data).of(5)); });
    }
}

TEST_CASE("predictions hold every tensor that the loss reads, watched activations every one that the layer writes") {
  trainer<paired, sgd> t(plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 2});
  const auto w = t.parameter(1, "weight");
  const tensor_rows found = t.predict(dataset{}.with("inputs", 4, x));
  CHECK(found.tensors() == 2);
  for (int i = 0; i < 5; ++i) {
    CHECK(found.of(i, 0)[1] == x[static_cast<std::size_t>(4 * i + 3)] * w[1]);
    CHECK(found.of(i, 1)[0] == x[static_cast<std::size_t>(4 * i)] + x[static_cast<std::size_t>(4 * i + 2)]);
  }
  rejects("the layer is not watched; call watch(1) before the step", [&] { t.activation(1); });
  t.watch(0);
  t.watch(1);
  t.step(batch(3).with("inputs", std::span(x).first(12)));
  const tensor_rows &out = t.activation(1), &gradient = t.activation_gradient(1);
  CHECK(out.samples() == 3);
  for (int i = 0; i < 3; ++i)
    for (const int tensor : {0, 1})
      for (const std::size_t j : {std::size_t{0}, std::size_t{1}}) {
        CHECK(out.of(i, tensor)[j] == found.of(i, tensor)[j]);
        CHECK(gradient.of(i, tensor)[j] == found.of(i, 0)[j] + found.of(i, 1)[j]);
      }
  CHECK(t.activation(0).of(2, 1)[0] == x[10]);
  rejects("has no rows; no gradient flows", [&] { static_cast<void>(t.activation_gradient(0).all()); });
  const std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_AS(t.step(batch(1).with("inputs", bad)), error);
  CHECK(t.activation(1).samples() == 0);
  t.unwatch(1);
  rejects("layer 1 laws::cross: the layer is not watched", [&] { t.activation_gradient(1); });
  rejects("the model has no layer 3", [&] { t.watch(3); });
}

TEST_CASE("watched activations are those of evaluate and predict, too, without gradients") {
  for (const int stages : {1, 3}) {
    trainer<paired, sgd> t(plan_options{.stages = stages, .micro_batches = 2, .micro_batch_size = 2});
    for (int layer = 0; layer < 3; ++layer) t.watch(layer);
    const batch three = batch(3).with("inputs", std::span(x).first(12));
    const auto outputs = [&](int layer, int tensor) {
      const auto rows = t.activation(layer).all(tensor);
      return std::vector<float>(rows.begin(), rows.end());
    };
    t.evaluate(three);
    CHECK(t.activation(1).samples() == 3);
    const std::vector<float> first = outputs(1, 0), second = outputs(1, 1);
    CHECK(first.size() == 6);
    CHECK(t.activation_gradient(1).samples() == 0);
    t.step(three);  // computes the same before it updates
    CHECK(outputs(1, 0) == first);
    CHECK(outputs(1, 1) == second);
    CHECK(t.activation_gradient(1).samples() == 3);

    const tensor_rows predicted = t.predict(three);
    CHECK(t.activation_gradient(1).samples() == 0);
    CHECK(t.activation(1).samples() == 3);
    CHECK(t.activation(2).samples() == 0);  // the loss, which a prediction does not run
    const auto rows = predicted.all(1);
    CHECK(outputs(1, 1) == std::vector<float>(rows.begin(), rows.end()));

    t.predict(dataset{}.with("inputs", 4, x));  // two calls: of four samples and of one
    CHECK(t.activation(1).samples() == 1);
    CHECK(t.activation(0).of(0, 1)[0] == x[18]);
    const std::vector<float> bad(4, std::numeric_limits<float>::quiet_NaN());
    CHECK_THROWS_AS(t.evaluate(batch(1).with("inputs", bad)), error);
    CHECK(t.activation(1).samples() == 0);
  }
}
