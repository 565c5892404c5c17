#include <gpipe/core/descriptions/optimizer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <utility>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>

#include "support/optimizer_steps.hpp"

using namespace gpipe;

namespace {

/// Steps on one number: its value is p, the gradient sum 2 g, and the scale 1/2.
template <class Optimizer>
struct follower {
  Optimizer optimizer;
  double p = 1, m[2] = {};
  std::int64_t step = 0;
  void take(double g) {
    g *= 2;
    optimizer.rule(update_operands<double>{&p, &g, {m, m + 1}}, {++step, optimizer.learning_rate, 0.5})(0);
  }
};

}  // namespace

TEST_CASE("gradient descent with momentum and weight decay") {
  follower<sgd> plain{{.learning_rate = 0.1}};
  plain.take(3);
  CHECK(plain.p == doctest::Approx(0.7));
  plain.take(-1);
  CHECK(plain.p == doctest::Approx(0.8));

  follower<sgd> heavy{{.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.2}};
  heavy.take(3);  // v = 3.2
  CHECK(heavy.m[0] == doctest::Approx(3.2));
  CHECK(heavy.p == doctest::Approx(0.68));
  heavy.take(-1);  // v = 1.6 - 1 + 0.136
  CHECK(heavy.p == doctest::Approx(0.68 - 0.1 * 0.736));
}

TEST_CASE("Adam's first step has the length of the rate for any gradient") {
  for (const double g : {1e-3, 5.0, -1e4}) {
    follower<adam> a{{.learning_rate = 0.01}};
    a.take(g);
    CHECK(a.p == doctest::Approx(1 - std::copysign(0.01, g)));
  }
}

TEST_CASE("Adam follows its formula") {
  follower<adam> a{{.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.1}};
  double p = 1, m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    const double g = 0.3 * t - 1;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    p -= 0.01 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 0.1);
    a.take(g);
    CHECK(a.p == doctest::Approx(p).epsilon(1e-12));
  }
}

TEST_CASE("weight decay is in the gradient (adam) or decoupled (adamw)") {
  follower<adam> inside{{.learning_rate = 0.01, .weight_decay = 0.5}};
  inside.take(0);  // the gradient is 0.5 p
  CHECK(inside.p == doctest::Approx(0.99));
  follower<adamw> decoupled{{.learning_rate = 0.01, .weight_decay = 0.5}};
  decoupled.take(0);
  CHECK(decoupled.p == doctest::Approx(1 - 0.01 * 0.5));
  CHECK(decoupled.m[0] == 0);
}

TEST_CASE("an update uses the learning rate of its step") {
  double p = 1, g = 1, m = 0;
  sgd{.learning_rate = 5}.rule(update_operands<double>{&p, &g, {&m}}, {1, 0.25, 1})(0);
  CHECK(p == 0.75);
}

TEST_CASE("AdamW's decay follows the rate of the step, not the optimizer's own") {
  for (const double rate : {0.0, 0.25, 1.0}) {
    double p = 1, g = 0, m[2] = {};
    const adamw its{.learning_rate = 5, .weight_decay = 0.5};
    its.rule(update_operands<double>{&p, &g, {m, m + 1}}, {1, rate, 1})(0);
    CHECK(p == 1 - rate * 0.5);
  }
}

TEST_CASE("the update of a float is computed in float") {
  float p = 1, g = 1, m = 0;
  sgd{.momentum = 0.1}.rule(update_operands<float>{&p, &g, {&m}}, {1, 0.1, 1})(0);
  CHECK(p == 1.0F - 0.1F);
}

TEST_CASE("in float a small share of a new value in an average is rounded once, from double") {
  for (const double kept : {0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999}) {
    CAPTURE(kept);
    const auto share = static_cast<float>(1 - kept);
    const auto moments_of = [&](const auto& optimizer) {
      float p = 0, g = 1, m[2] = {};
      optimizer.rule(update_operands<float>{&p, &g, {m, m + 1}}, {1, 0, 1})(0);
      return std::pair{m[0], m[1]};
    };
    CHECK(moments_of(adam{.beta1 = kept, .beta2 = kept}) == std::pair{share, share});
    CHECK(moments_of(adamw{.beta1 = kept, .beta2 = kept}) == std::pair{share, share});
    CHECK(moments_of(rmsprop{.alpha = kept}).first == share);
    CHECK(moments_of(rmsprop_tf{.alpha = kept}).first == share);
    CHECK(moments_of(lion{.beta2 = kept}).first == share);
    float p = 1, g = 0.5F, m = 0, square = 0;
    double sums[8]{};
    adafactor_with_momentum{.learning_rate = 0.25, .relative_step = false, .scale_parameter = false, .momentum = kept}
        .update(host::context{}, tensor_operands<float>{{1}, &p, &g, {&m}, {nullptr, nullptr, &square}, sums},
                {1, 0.25, 1});
    CHECK(m == doctest::Approx(0.25 * (1 - kept)).epsilon(1e-6));  // the update is 0.25
  }
}

TEST_CASE("twenty steps have torch.optim's numbers") {  // torch 2.15 in double
  laws::agrees_with({0.21978799330615165, 0.65380188247464932, -1.255020538658461, -0.18269303935480719,
                     -0.7361517158610793, -2.0305552151261081},
                    sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01});
  laws::agrees_with({0.17530927327802864, 0.603137367948524, -1.3435997347830178, -0.10932997613610285,
                     -0.708572963702656, -2.1851858816644736},
                    sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  laws::agrees_with({0.53650296448580603, 0.41388493188067488, -0.059488123449996967, -0.31414842869486848,
                     -0.37866603014009725, -0.17694433580298416},
                    adam{.learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.01});
  laws::agrees_with({0.51752107046840667, 0.39968983495926996, -0.05988547139736209, -0.30294507284505984,
                     -0.36544162578647815, -0.17324817402402642},
                    adamw{.learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1});
}

TEST_CASE("settings out of range are refused by name and value") {
  laws::refuses(sgd{.momentum = 1}, "momentum is 1; choose 0 or more, and less than 1");
  laws::refuses(sgd{.nesterov = true}, "nesterov is true, and momentum is 0; choose a momentum above 0, such as 0.9");
  laws::refuses(sgd{.weight_decay = -1}, "weight_decay is -1; choose 0 or more");
  laws::refuses(adam{.beta1 = -0.1}, "beta1 is -0.1; choose 0 or more, and less than 1");
  laws::refuses(adam{.beta2 = std::nan("")}, "beta2 is nan; choose 0 or more, and less than 1");
  laws::refuses(adamw{.epsilon = 0}, "epsilon is 0; choose a number above 0");
  laws::refuses(adamw{.weight_decay = std::nan("")}, "weight_decay is nan; choose 0 or more");
}
