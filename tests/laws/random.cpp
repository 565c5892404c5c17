// Law 1, random numbers: each layer draws its own, in every step and accumulated call anew, for each sample; neither
// the cut nor the schedule matters.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/nets.hpp"

using namespace gpipe;
using namespace laws;

namespace {

constexpr int width = 64, per_call = 4;

/// The inputs of the layers behind the two dropouts since the last `clear`, [sample of the mini-batch][element].
std::array<std::vector<float>, 2> seen;

void clear() {
  for (auto& of : seen) of.assign(2 * per_call * width, -1.0F);
}

/// Ones, whatever comes in.
struct ones {
  template <class In>
  struct on {
    using output = In;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * width, [&](int i) { a.out()[i] = 1; });
    }
    static void backward_input(const auto&, const auto& a) {
      if (a.in_gradient()) loop(a.samples() * width, [&](int i) { a.in_gradient()[i] = 0; });
    }
  };
};

/// Passes its input on, and records it.
template <std::size_t Id>
struct records {
  template <class In>
  struct on {
    using output = In;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * width, [&](int i) {
        a.out()[i] = a.in()[i];
        seen[Id][a.random().first_sample * width + static_cast<std::size_t>(i)] = a.in()[i];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      if (a.in_gradient()) loop(a.samples() * width, [&](int i) { a.in_gradient()[i] = a.out_gradient()[i]; });
    }
  };
};

struct net : model<input<float, width>, linear<width>, ones, dropout<50>, records<0>, ones, dropout<50>, records<1>,
                   passing_loss> {};

using mask = std::vector<float>;

/// The masks of both dropouts in two steps, the second of them in two calls; one for each four samples.
std::vector<mask> masks(const std::vector<int>& cut, schedule_kind schedule = schedule_kind::fill_drain) {
  const samples<float> data(per_call, width, 1);
  training_options how;
  how.seed = 5;
  how.cut = cut;
  trainer<net, sgd> training(plan_options{.stages = static_cast<int>(cut.size()) + 1,
                                          .micro_batches = 2,
                                          .micro_batch_size = 2,
                                          .recompute = recompute_mode::never,
                                          .schedule = schedule},
                             sgd{}, how);
  std::vector<mask> found;
  const auto take = [&](int first) {
    for (const auto& of : seen) found.emplace_back(of.begin() + first * width, of.begin() + (first + per_call) * width);
  };
  clear();
  training.step(data.take(0, per_call));
  take(0);
  clear();
  training.accumulate(data.take(0, per_call));
  training.step(data.take(0, per_call));
  take(0);
  take(per_call);
  return found;
}

}  // namespace

TEST_CASE("two dropouts, two steps, two calls of a step: no two masks are alike, nor those of two samples") {
  const std::vector<mask> found = masks({});
  REQUIRE(found.size() == 6);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto kept = std::count(found[i].begin(), found[i].end(), 2.0F);
    const auto dropped = std::count(found[i].begin(), found[i].end(), 0.0F);
    CHECK(kept + dropped == per_call * width);
    CHECK(kept > per_call * width / 3);
    CHECK(dropped > per_call * width / 3);
    for (std::size_t j = 0; j < i; ++j) CHECK(found[i] != found[j]);
    for (int a = 0; a < per_call; ++a)
      for (int b = 0; b < a; ++b)
        CHECK_FALSE(
            std::equal(found[i].begin() + a * width, found[i].begin() + (a + 1) * width, found[i].begin() + b * width));
  }
}

TEST_CASE("the masks do not depend on the cut or the schedule") {
  const std::vector<mask> whole = masks({});
  CHECK(masks({3}) == whole);
  CHECK(masks({2, 5}, schedule_kind::one_f_one_b) == whole);
}
