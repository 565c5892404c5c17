// optimize: yes

#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using tokens = bound<softmax_cross_entropy, tensor<float, 5, 10>>;
static_assert(parts<tokens::output> == 0 && tokens::partials.size() == 3);
static_assert(tokens::fields[0].size == 5 && tokens::fields[0].below == 10 && tokens::fields[1].optional);
static_assert(std::is_same_v<tokens::value_type, float>);

namespace {

template <class T, int C>
struct classifier : host::layer_fixture<softmax_cross_entropy, tensor<T, C>> {
  explicit classifier(int samples) : host::layer_fixture<softmax_cross_entropy, tensor<T, C>>(samples, samples) {
    for (auto& f : this->fields)
      for (std::size_t i = 0; i < f.count(); ++i) f.set(i, is_floating(f.type()) ? 1 : 0);
  }
  double loss() const { return this->partials[0].get(0); }
  double weight() const { return this->partials[0].get(1); }
  double correct() const { return this->partials[0].get(2); }
};

}  // namespace

TEST_CASE("in bf16 the gradient of a probability near 1 is not rounded away") {
  classifier<bf16, 5> t(1);
  for (std::size_t j = 0; j < 5; ++j) t.in[0].set(j, j == 0 ? 8 : 0);
  t.forward();
  t.backward_input();
  const double others = 4 / (4 + std::exp(8.0));
  CHECK(std::fabs(t.in_gradient[0].get(0) / -others - 1) < 0x1p-8);
  CHECK(std::fabs(t.loss() / -std::log1p(-others) - 1) < 1e-3);
}

TEST_CASE_TEMPLATE("partials and gradient agree with the formula, rows and weights included", T, float, double) {
  constexpr std::size_t C = 17, rows = 3;
  host::layer_fixture<softmax_cross_entropy, tensor<T, rows, C>> t(4, 5);
  t.randomize(8);
  t.forward();
  t.backward_input();
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  double loss = 0, weights = 0, correct = 0;
  for (std::size_t row = 0; row < 4 * rows; ++row) {
    double total = 0;
    std::size_t greatest = 0;
    const auto x = [&](std::size_t j) { return t.in[0].get(row * C + j); };
    for (std::size_t j = 0; j < C; ++j) total += std::exp(x(j));
    for (std::size_t j = 0; j < C; ++j) greatest = x(j) > x(greatest) ? j : greatest;
    const auto label = static_cast<std::size_t>(t.fields[0].get(row));
    const double weight = t.fields[1].get(row);
    loss += weight * (std::log(total) - x(label));
    weights += weight;
    correct += label == greatest ? weight : 0;
    for (std::size_t j = 0; j < C; ++j)
      CHECK(std::fabs(t.in_gradient[0].get(row * C + j) - weight * (std::exp(x(j)) / total - (j == label ? 1 : 0))) <
            tolerance);
  }
  CHECK(std::fabs(t.partials[0].get(0) - loss) < tolerance * 10);
  CHECK(std::fabs(t.partials[0].get(1) - weights) < tolerance);
  CHECK(std::fabs(t.partials[0].get(2) - correct) < tolerance);
  CHECK(t.overrun().empty());
}

TEST_CASE("without weights each row counts 1, and a recompute does not write the partials") {
  classifier<float, 4> t(3);
  t.randomize(2);
  t.call().fields[1] = nullptr;
  t.forward();
  t.backward_input();
  CHECK(t.weight() == 3);
  const double loss = t.loss();
  t.partials[0].set(0, -1);
  t.call().recompute = true;
  t.forward();
  CHECK(t.loss() == -1);
  CHECK(loss > 0);
}

TEST_CASE("large inputs do not overflow, and equal inputs give log C") {
  classifier<float, 4> t(2);
  for (std::size_t i = 0; i < 8; ++i) t.in[0].set(i, i < 4 ? 1e4 * static_cast<double>(i) : -1e30);
  t.fields[0].set(0, 1);
  t.forward();
  t.backward_input();
  CHECK(t.loss() == doctest::Approx(2e4 + std::log(4)));
  CHECK(t.in_gradient[0].get(3) == 1);
  CHECK(t.in_gradient[0].get(1) == -1);
  CHECK(t.in_gradient[0].get(4) == doctest::Approx(-0.75));
}

TEST_CASE("only the first of equal largest inputs counts as the prediction") {
  classifier<float, 4> t(4);
  for (std::size_t i = 0; i < 16; ++i) t.in[0].set(i, 0.5);
  for (std::size_t row = 0; row < 4; ++row) t.fields[0].set(row, static_cast<double>(row));
  t.forward();
  CHECK(t.correct() == 1);
}

TEST_CASE_TEMPLATE("NaN and infinite inputs give a NaN loss and do not count as correct", T, float, double) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (std::size_t at = 0; at < 5; ++at) {
      classifier<T, 5> t(1);
      for (std::size_t i = 0; i < 5; ++i) t.in[0].set(i, i == at ? bad : 1);
      t.forward();
      CHECK(std::isnan(t.loss()));
      if (std::isnan(bad) && at == 0) CHECK(t.correct() == 0);
    }
}

namespace {

template <class Loss, class T>
struct worked : host::layer_fixture<Loss, tensor<T, 5>> {
  worked() : host::layer_fixture<Loss, tensor<T, 5>>(3, 3) {
    const double logits[] = {.3, -1.5, .9, 2, -.2, 1, 0, -1, .5, .25, 0, .1, .2, .3, .4};
    for (std::size_t i = 0; i < 15; ++i) this->in[0].set(i, logits[i]);
    const double labels[] = {2, 3, 4};
    for (std::size_t i = 0; i < 3; ++i) this->fields[0].set(i, labels[i]), this->fields[1].set(i, 1);
  }
  void run() { this->forward(), this->backward_input(); }
  double loss() const { return this->partials[0].get(0); }
  double weight() const { return this->partials[0].get(1); }
};

}  // namespace

TEST_CASE_TEMPLATE("with smoothing and an ignored label, loss and gradient are PyTorch's", T, float, double) {
  worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1, .ignored = -100}>, T> t;
  t.fields[0].set(1, -100);
  t.in[0].set(7, std::numeric_limits<double>::quiet_NaN());  // of the ignored row
  t.run();
  const double gradient[] = {
      .0902791682510317, -.00177097609410319, -.719058254238367, .58366236540958,  .0468876966718587, 0, 0, 0, 0, 0,
      .142120347868573,  .159170693692654,    .178014240040562,  .198839579457679, -.678144861059468};
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.loss() - 3.10415656648793) < 4 * tolerance);
  CHECK(t.weight() == 2);
  CHECK(t.partials[0].get(2) == 1);
  for (std::size_t i = 0; i < 15; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);
}

TEST_CASE_TEMPLATE("an ignored class, such as the token 0 that pads, counts as rows of weight 0 do", T, float, double) {
  worked<softmax_cross_entropy_with<cross_entropy{.ignored = 0}>, T> ignoring;
  worked<softmax_cross_entropy, T> weighted;
  for (auto* fields : {&ignoring.fields, &weighted.fields}) (*fields)[0].set(1, 0);
  weighted.fields[1].set(1, 0);
  ignoring.run();
  weighted.run();
  CHECK(ignoring.weight() == 2);
  CHECK(weighted.weight() == 2);
  CHECK(ignoring.loss() == weighted.loss());
  for (std::size_t i = 0; i < 15; ++i) CHECK(ignoring.in_gradient[0].get(i) == weighted.in_gradient[0].get(i));
}

TEST_CASE_TEMPLATE("a clipped input has no gradient, and evaluation does not clip", T, float, double) {
  worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1, .clip = 1.2}>, T> t;
  t.call().samples = 1;
  t.run();
  const double gradient[] = {.143629090821076, 0, -.621848357324112, 0, .0792460604038856};
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  CHECK(std::fabs(t.loss() - 1.28015305386627) < 2 * tolerance);
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::fabs(t.in_gradient[0].get(i) - gradient[i]) < tolerance);
  t.call().training = false;
  t.forward();
  worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1}>, T> open;
  open.call().samples = 1;
  open.forward();
  CHECK(t.loss() == open.loss());
}

TEST_CASE_TEMPLATE("an input exactly at the clip bound has the gradient of one inside, as in PyTorch", T, float, double,
                   bf16) {
  using loss = softmax_cross_entropy_with<cross_entropy{.clip = 1.5}>;
  for (const double label : {0., 1., 3.}) {
    worked<loss, T> bound, inside;  // 1.5 and -1.5, or 1.25 and -1.25 in the place of the label
    for (auto* t : {&bound, &inside}) {
      t->call().samples = 1;
      t->fields[0].set(0, label);
      t->in[0].set(1, -1.5), t->in[0].set(3, 1.5);
      if (t == &inside) t->in[0].set(1, -1.25), t->in[0].set(3, 1.25);
      t->run();
      double sum = 0;
      for (std::size_t j = 0; j < 5; ++j) sum += t->in_gradient[0].get(j);
      CHECK(std::fabs(sum) < (sizeof(T) == 2 ? 1e-2 : 1e-6));  // nothing is clipped
      for (const std::size_t j : {std::size_t{1}, std::size_t{3}})
        CHECK((t->in_gradient[0].get(j) < 0) == (static_cast<double>(j) == label));
    }
    CHECK(bound.in_gradient[0].get(3) > inside.in_gradient[0].get(3));
  }
}

TEST_CASE("nor has a clipped input of the label") {
  for (const double label : {1.0, 3.0}) {  // -1.5 and 2
    worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1, .clip = 1.2}>, float> t;
    t.call().samples = 1;
    t.fields[0].set(0, label);
    t.run();
    CHECK(t.in_gradient[0].get(1) == 0);
    CHECK(t.in_gradient[0].get(3) == 0);
    CHECK(t.in_gradient[0].get(0) != 0);
  }
}

TEST_CASE("a row's weight is a factor of its loss and of its gradient, with every setting") {
  worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1, .ignored = -100, .clip = 1.5}>, double> one,
      weighted;
  for (std::size_t row = 0; row < 3; ++row) weighted.fields[1].set(row, 2.5);
  one.run(), weighted.run();
  CHECK(weighted.loss() == doctest::Approx(2.5 * one.loss()).epsilon(1e-14));
  CHECK(weighted.weight() == 7.5);
  for (std::size_t i = 0; i < 15; ++i)
    CHECK(weighted.in_gradient[0].get(i) == doctest::Approx(2.5 * one.in_gradient[0].get(i)).epsilon(1e-14));
}

TEST_CASE("Lingvo's smoothing is this one with C / (C - 1) of it") {
  worked<softmax_cross_entropy_with<cross_entropy{.smoothing = .1 * 5 / 4, .clip = 1.2}>, double> t;
  t.call().samples = 1;
  t.forward();
  CHECK(t.loss() == doctest::Approx(1.297653054).epsilon(1e-9));
}

TEST_CASE("without settings it has the bits of softmax_cross_entropy") {
  host::layer_fixture<softmax_cross_entropy, tensor<float, 3, 17>> plain(4, 4);
  host::layer_fixture<softmax_cross_entropy_with<>, tensor<float, 3, 17>> with(4, 4);
  plain.randomize(5), with.randomize(5);
  plain.forward(), plain.backward_input(), with.forward(), with.backward_input();
  CHECK(plain.partials[0].bits() == with.partials[0].bits());
  CHECK(plain.in_gradient[0].bits() == with.in_gradient[0].bits());
}
