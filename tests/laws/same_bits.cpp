// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <gpipe/plan/make_plan.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"

// Stages, cuts, recompute, traces, canaries and groups of gradients change no bit.

using namespace laws;

namespace {

constexpr int groups[] = {2, 3, 5};

/// S stages from the best cut, and from unbalanced ones: one layer per stage, the rest in the last, or in the first.
void holds_for_stages(const test_model& model, rule optimizer = rule::adam) {
  same_bits law{.model = model, .optimizer = optimizer};  // 4 samples are fewer than M, 1 is fewer than most S
  same_bits other = law;
  other.sizes = {13, 4, 2};
  CHECK(law.run({}) != other.run({}));
  const int L = model.layers();
  for (const int S : {1, 2, 3, 4, 8, L}) {
    for (const recompute_mode mode : in_turn(kept_modes, S)) law.holds({{.stages = S, .recompute = mode}});
    law.holds({{.stages = S, .recompute = recompute_mode::except_last}, {}, false, 50});
    for (const int G : in_turn(groups, S))  // with canaries a kernel takes one micro-batch at a time
      for (const bool canary : {true, false})
        law.holds({{.stages = S, .recompute = recompute_mode::never, .group_gradients = G}, {}, canary});
    std::vector<int> front, back;
    for (int s = 1; s < S; ++s) front.push_back(s), back.push_back(L - S + s);
    for (const recompute_mode mode : in_turn(kept_modes, S + 1))
      for (const std::vector<int>& cut : {front, back}) law.holds({{.stages = S, .recompute = mode}, cut});
  }
}

/// All 2^(L - 1) cuts. 2 samples are 1 + 1 and an empty micro-batch, which must not be read.
void holds_for_every_cut(const test_model& model) {
  same_bits law{.model = model, .sizes = {2, 5}, .micro_batches = 3, .digest_calls = 2};
  for (unsigned mask = 0; mask < 1u << (model.layers() - 1); mask += cut_step) {
    std::vector<int> cut;
    for (int l = 1; l < model.layers(); ++l)
      if (mask >> (l - 1) & 1u) cut.push_back(l);
    law.holds({{.stages = static_cast<int>(cut.size()) + 1, .recompute = kept_modes[mask % 3]}, cut});
  }
}

}  // namespace

TEST_CASE("a residual network: the same bits for every S, recompute, trace") {
  holds_for_stages(models::residual);
  if (!sanitized) holds_for_stages(models::residual_double, rule::sgd);
}

TEST_CASE("as needed without recompute, gradients of several micro-batches together: the same bits") {
  same_bits law{models::broad};
  for (const int S : {1, 2, 3}) {
    plan_options o{.stages = S, .micro_batches = 5, .micro_batch_size = 4, .recompute = recompute_mode::never};
    const std::int64_t all = largest_stage(models::broad.net, o);
    o.recompute = recompute_mode::as_needed;
    for (const std::int64_t limit : {no_memory_limit, all, all - 1}) {
      CAPTURE(S);
      CAPTURE(limit);
      o.memory_limit = limit;
      const step_plan plan = make_plan(models::broad.net, o);
      CHECK((limit < all ? plan.group_gradients < 5 : plan.group_gradients == 5));
      for (const bool canary : {true, false}) law.holds({o, {}, canary});
    }
  }
}

TEST_CASE("values with several readers and none, batch norm, attention, feature maps: the same bits for every cut") {
  for (const test_model* model :
       {&models::skip, &models::pair_double, &models::integer, &models::attended, &models::image})
    holds_for_every_cut(*model);
}

TEST_CASE("losses in the middle of a model change no bit, wherever they are cut off") {
  holds_for_every_cut(models::losses);
  holds_for_stages(models::losses_bf16);
}

TEST_CASE("tied parameters, a head in slices: the same bits for every S, recompute, trace and cut") {
  for (const test_model* model : {&models::tied, &models::headed, &models::sliced}) holds_for_stages(*model);
  for (const test_model* model : {&models::sliced, &models::sliced_bf16}) holds_for_every_cut(*model);
}

TEST_CASE("in bf16: the same bits for every S, recompute, trace and cut") {
  holds_for_every_cut(models::skip_bf16);
  if (sanitized) return;
  holds_for_every_cut(models::pair_bf16);
  for (const test_model* model : {&models::residual_bf16, &models::attended_bf16}) holds_for_stages(*model);
}
