// Law 1 for schedules that are made for a pipeline, by a rule or by a search: the bits of one stage.

#include <gpipe/tools/search/searched_schedule.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/searched_pipelines.hpp"

using namespace gpipe;

namespace {

struct net : model<input<float, 6>, linear<8>, repeat<4, residual<layer_norm, linear<8>, gelu, dropout<0.2>>>,
                   linear<3>, softmax_cross_entropy> {};

std::vector<float> trained(const plan_options& options) {
  std::vector<float> x(6 * 11), all;
  std::vector<std::int32_t> labels(11);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1F * static_cast<float>(i % 17) - 0.7F;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
  trainer<net, adam> training(options);
  for (int step = 0; step < 3; ++step)
    all.push_back(static_cast<float>(training.step(batch(11).with("inputs", x).with("labels", labels)).loss));
  for (auto& p : training.parameters())
    for (const float value : p.values()) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("training with a searched table has the bits of one stage, in every recompute mode") {
  std::mt19937 random(6);
  const std::vector<float> alone = trained({.stages = 1, .micro_batches = 6, .micro_batch_size = 2});
  for (int i = 0; i < 12; ++i) {
    const searches::random_pipeline it(random, 1 + i % 3, 6, i % 2 == 0 ? placement::one_each : placement::v);
    const searched_schedule found(it.is, 0.002);
    const ruled_schedule ruled(it.is, gradients_first{});
    for (const recompute_mode mode : {recompute_mode::never, recompute_mode::always, recompute_mode::except_last}) {
      CAPTURE(i);
      for (const plan_options& o : {found.chosen_in({.micro_batch_size = 2, .recompute = mode}),
                                    ruled.chosen_in({.micro_batch_size = 2, .recompute = mode})}) {
        const std::vector<float> piped = trained(o);
        REQUIRE(piped.size() == alone.size());
        CHECK(std::memcmp(piped.data(), alone.data(), alone.size() * sizeof(float)) == 0);
      }
    }
  }
}
