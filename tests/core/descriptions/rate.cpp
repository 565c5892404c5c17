// sanitizers: address

#include <gpipe/core/descriptions/rate.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <gpipe/core/error.hpp>

using namespace gpipe;

TEST_CASE("a constant schedule is 1") {
  CHECK(constant{}(0) == 1);
  CHECK(constant{}(1'000'000) == 1);
}

TEST_CASE("half a cosine falls from 1 to its floor and stays there") {
  const cosine falls{.steps = 10, .floor = 0.2};
  CHECK(falls(0) == 1);
  CHECK(falls(5) == doctest::Approx(0.6));
  CHECK(falls(10) == doctest::Approx(0.2));
  CHECK(falls(1000) == falls(10));
  for (std::uint64_t step = 0; step < 10; ++step) CHECK(falls(step + 1) < falls(step));
}

TEST_CASE("a warm-up rises to 1, then another schedule begins") {
  const warm_up rises{.steps = 4, .then = cosine{.steps = 10}};
  CHECK(rises(0) == 0.25);
  CHECK(rises(3) == 1);
  CHECK(rises(4) == 1);
  CHECK(rises(9) == doctest::Approx(0.5));
  CHECK(rises(14) == doctest::Approx(0));
  CHECK(warm_up{}(0) == 1);
}

namespace {

const double no_number = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

void follows(const rate_schedule& schedule, const std::vector<double>& factors) {
  for (std::size_t step = 0; step < factors.size(); ++step) {
    CAPTURE(step);
    CHECK(std::fabs(schedule(step) / factors[step] - 1) < 1e-13);
  }
}
void rejects(const char* message, const rate_schedule& schedule) {
  for (const std::uint64_t step : {0U, 1U, 100U})
    CHECK_THROWS_WITH_AS(schedule(step), doctest::Contains(message), error);
}

}  // namespace

TEST_CASE("linear_decay, cosine, staircase and exponential have the factors of torch.optim.lr_scheduler") {
  follows(linear_decay{.steps = 5, .floor = 0.2}, {1, 0.84, 0.68, 0.52, 0.36, 0.2, 0.2, 0.2});
  follows(cosine{.steps = 5, .floor = 0.1},
          {1, 0.914057647468726, 0.689057647468726, 0.410942352531274, 0.185942352531274, 0.1});
  follows(staircase{.steps = 3, .factor = 0.5}, {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25});
  follows(exponential{.steps = 1, .factor = 0.9}, {1, 0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.4782969});
  CHECK(exponential{.steps = 10, .factor = 0.25}(5) == doctest::Approx(0.5));
}

TEST_CASE("staircase and exponential stop at their floor") {
  CHECK(staircase{.steps = 2, .factor = 0.1, .floor = 0.05}(2) == doctest::Approx(0.1));
  CHECK(staircase{.steps = 2, .factor = 0.1, .floor = 0.05}(4) == 0.05);
  CHECK(exponential{.steps = 2, .factor = 0.1, .floor = 0.05}(1'000'000'000) == 0.05);
}

TEST_CASE("one_cycle has the factors of torch.optim.lr_scheduler.OneCycleLR, and stays at its end") {
  follows(one_cycle{.steps = 10}, {0.04, 0.52, 1, 0.950484632013474, 0.811745653949763, 0.611262021936289,
                                   0.388741978063711, 0.188258346050237, 0.0495193679865263, 4e-06, 4e-06});
  follows(one_cycle{.steps = 7, .rise = 0.5, .first_divisor = 10, .last_divisor = 100},
          {0.1, 0.410942352531274, 0.914057647468726, 0.950533949517258, 0.611649206511179, 0.189066843971563, 0.001});
  for (const double rise : {0.0, 0.01, 1.0})
    for (const std::uint64_t steps : {1U, 2U, 3U, 50U})
      for (std::uint64_t step = 0; step < 60; ++step) {
        const double factor = one_cycle{.steps = steps, .rise = rise}(step);
        CHECK((factor > 0 && factor <= 1));
      }
}

TEST_CASE("inverse_square_root has the factors of Lingvo's Transformer schedule") {
  const inverse_square_root base{.warm_up = 4000, .width = 512};
  CHECK(base(0) == doctest::Approx(1.74692810742171e-07).epsilon(1e-13));
  CHECK(base(3999) == doctest::Approx(0.000698771242968684).epsilon(1e-13));
  CHECK(base(4000) == doctest::Approx(0.000698683912937353).epsilon(1e-13));
  CHECK(base(39999) == doctest::Approx(0.000220970869120796).epsilon(1e-13));
  CHECK(3 * inverse_square_root{.warm_up = 40'000, .width = 1024}(39'999) == doctest::Approx(4.6875e-4).epsilon(1e-13));
  CHECK(inverse_square_root{.warm_up = 1}(24) == doctest::Approx(0.2));
}

TEST_CASE("settings that would give a wrong factor without a word are rejected at every step") {
  rejects("steps of linear_decay is 0; choose 1 to 2^62 steps", linear_decay{.steps = 0});
  rejects("floor of linear_decay is -0.1; choose 0 to 1", linear_decay{.floor = -0.1});
  rejects("steps of cosine is 0", cosine{.steps = 0});
  rejects("steps of cosine is 18446744073709551615", cosine{.steps = static_cast<std::uint64_t>(-1)});
  rejects("floor of cosine is nan; choose 0 to 1", cosine{.floor = no_number});
  rejects("floor of cosine is 2", cosine{.floor = 2});
  rejects("steps of staircase is 0", staircase{.steps = 0});
  rejects("factor of staircase is 0; choose a finite number above 0", staircase{.factor = 0});
  rejects("floor of staircase is 1.5", staircase{.floor = 1.5});
  rejects("steps of exponential is 0", exponential{.steps = 0});
  rejects("factor of exponential is nan", exponential{.factor = no_number});
  rejects("floor of exponential is inf", exponential{.floor = infinity});
  rejects("warm_up of inverse_square_root is 0", inverse_square_root{.warm_up = 0});
  rejects("width of inverse_square_root is 0", inverse_square_root{.width = 0});
  rejects("steps of one_cycle is 0", one_cycle{.steps = 0});
  rejects("rise of one_cycle is 1.1; choose 0 to 1", one_cycle{.rise = 1.1});
  rejects("first_divisor of one_cycle is 0", one_cycle{.first_divisor = 0});
  rejects("last_divisor of one_cycle is inf", one_cycle{.last_divisor = infinity});
  rejects("then of warm_up is empty", warm_up{.steps = 2, .then = {}});
  rejects("steps of warm_up is 18446744073709551615", warm_up{.steps = static_cast<std::uint64_t>(-1)});
  rejects("steps of warm_up is 0; choose 1 to 2^62 steps", warm_up{.steps = 0, .then = cosine{10}});
}

TEST_CASE("a schedule that is empty or returns no number from 0 on is rejected") {
  using detail::rate_factor;
  CHECK(rate_factor([](std::uint64_t step) { return 1.0 / static_cast<double>(step); }, 4) == 0.25);
  CHECK_THROWS_WITH_AS(rate_factor({}, 0), doctest::Contains("learning_rate_schedule is empty"), error);
  for (const double bad : {-1.0, no_number, infinity})
    CHECK_THROWS_WITH_AS(rate_factor([bad](std::uint64_t) { return bad; }, 3),
                         doctest::Contains("at step 3; return a finite number, 0 or more"), error);
}
