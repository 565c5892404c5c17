#include <gpipe/core/descriptions/rmsprop.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

#include "support/optimizer_steps.hpp"

using namespace gpipe;

TEST_CASE("rmsprop has torch.optim.RMSprop's numbers") {  // torch 2.15 in double
  laws::agrees_with({0.39566455871200201, 0.46533570692972986, -0.051290066402062011, -0.27112461286887407,
                     -0.42007429273902169, -0.47002656255011932},
                    rmsprop{.alpha = 0.9, .epsilon = 1e-6, .momentum = 0.8, .weight_decay = 0.01});
}

TEST_CASE("rmsprop_tf has the numbers of TensorFlow's formula") {
  laws::agrees_with({0.51899116770883247, 0.46480329878299381, -0.29696230246084515, -0.31695274700872078,
                     -0.43161119424173533, -0.44752922123011385},
                    rmsprop_tf{.weight_decay = 0.01});
}

TEST_CASE("three steps by hand: TensorFlow's form starts v at 1 and adds epsilon inside the root") {
  double w = 0.5, v = rmsprop_tf::first_moments[0], b = rmsprop_tf::first_moments[1], other = 0.5, m[2]{};
  const double expected[] = {0.480218586, 0.472371163, 0.460214802}, torch[] = {0.481622777, 0.474021248, 0.462668786};
  int t = 0;
  for (double g : {2.0, -1.0, 0.5}) {
    rmsprop_tf{}.rule(update_operands<double>{&w, &g, {&v, &b}}, {t + 1, 0.015, 1})(0);
    rmsprop{.alpha = 0.9, .epsilon = 1, .momentum = 0.9}.rule(update_operands<double>{&other, &g, {m, m + 1}},
                                                              {t + 1, 0.015, 1})(0);
    CHECK(w == doctest::Approx(expected[t]).epsilon(2e-9));
    CHECK(other == doctest::Approx(torch[t]).epsilon(2e-9));
    ++t;
  }
}

TEST_CASE("settings out of range are refused by name and value") {
  laws::refuses(rmsprop{.alpha = 1}, "alpha is 1; choose 0 or more, and less than 1");
  laws::refuses(rmsprop_tf{.alpha = -0.5}, "alpha is -0.5; choose 0 or more, and less than 1");
  laws::refuses(rmsprop{.epsilon = 0}, "epsilon is 0; choose a number above 0");
  laws::refuses(rmsprop_tf{.momentum = std::numeric_limits<double>::quiet_NaN()},
                "momentum is nan; choose 0 or more, and less than 1");
  laws::refuses(rmsprop{.weight_decay = -1}, "weight_decay is -1; choose 0 or more");
}
