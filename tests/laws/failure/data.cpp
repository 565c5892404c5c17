#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/disturbed_training.hpp"

// Batches that do not fit, and numbers that are not finite.

using namespace disturbed;

TEST_CASE("an evaluation that is not finite names only a layer that has partials") {
  training_options how;
  how.arena_fill = std::byte{0xff};
  trainer<averaging_net, adam> fresh(pair_of<averaging_net>::plan({}), adam{}, how);
  auto bad = data;
  bad.weights[0] = std::numeric_limits<float>::infinity();
  try {
    fresh.evaluate(bad.take(0, batch_size));
    CHECK(false);
  } catch (const error& found) {
    CHECK(found.where().layer_index == 4);
  }
}

TEST_CASE("the first layer with a number that is not finite is named") {
  for (const auto& cut : cuts) {
    CAPTURE(cut);
    pair both(cut);
    both.recovers();
    const int last = both.disturbed.plan().stages() - 1;
    auto bad = data;
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      bad.inputs[12 * 7 + 5] = value;  // sample 7 is in micro-batch 2
      const error found = both.failure(bad.take(0, batch_size));
      CHECK(has(found, "the field \"inputs\" of the data is not finite"));
      CHECK(found.where().layer_index == 0);
      CHECK(found.where().layer == gpipe::detail::type_name<fuse<0>>);
      CHECK(found.where().stage == 0);
      CHECK(found.where().micro_batch == 2);
      CHECK(found.where().action == "forward");
      CHECK(found.where().step == both.steps);
      both.recovers();
    }
    bad = data;
    bad.weights[10] = std::numeric_limits<float>::infinity();
    const error at_loss = both.failure(bad.take(0, batch_size));
    CHECK(has(at_loss, "the field \"weights\" of the data is not finite in sample 10, column 0"));
    CHECK(has(at_loss, "; correct the data; parameters are as before the step"));
    CHECK(at_loss.where().layer_index == 7);
    CHECK(at_loss.where().stage == last);
    CHECK(at_loss.where().micro_batch == 3);
    both.recovers();

    // Every number of forward is finite, and one of backward is not: dx = dy w, then dw = x dy.
    for (const bool of_parameters : {false, true}) {
      const float in = of_parameters ? 1e20F : 1e-10F;
      bad = data;
      for (float& x : bad.inputs) x = in;
      for (float& w : bad.weights) w = 1e30F;
      pair large(cut);
      for (const int l : {0, 2, 4}) large.disturbed.array(l, "weight").set(std::vector<float>(12, 1.0F));
      large.disturbed.array(6, "weight").set(std::vector<float>(12, 1 / in));
      const error back = large.failure(bad.take(0, batch_size));
      CHECK(has(back, of_parameters ? "the gradient of its parameters" : "the gradient of its input is not finite"));
      CHECK(back.where().layer_index == 6);
      CHECK(back.where().micro_batch == 0);
      CHECK(back.where().action.find("backward") == 0);
    }

    // Two factors are finite, and their product is not.
    both.disturbed.array(2, "weight").set(std::vector<float>(12, 1e30F));
    both.disturbed.array(4, "weight").set(std::vector<float>(12, 1e30F));
    const error overflow = both.failure();
    CHECK(has(overflow, "its output is not finite"));
    CHECK(overflow.where().layer_index == 4);
    CHECK(overflow.where().stage == both.disturbed.plan().cut().stage_of(4));
  }
}

TEST_CASE("a step with a number that is not finite fails even if its replay is finite") {
  pair both(cuts[1]);
  both.recovers();
  auto bad = data;
  std::atomic<int> forwards{0};
  bad.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  both.disturbance = [&](const instruction& i) {
    if (i.stage == 0 && i.kind == action_kind::forward && ++forwards == M + 1) bad.inputs[0] = 0.5F;
  };
  const error found = both.failure(bad.take(0, batch_size));
  CHECK(forwards == 2 * M);
  CHECK(found.where().step == 1);
  both.recovers();
}

TEST_CASE("an invalid batch is rejected with its reason and changes nothing") {
  pair both(cuts[1]);
  both.recovers();
  const auto good = [&](int n) { return data.take(0, n); };
  const auto& x = data.inputs;
  const auto part = [](const auto& from, int n) { return std::span(from).first(static_cast<std::size_t>(n)); };
  const std::vector<double> doubles(12 * 5);
  std::vector<std::int32_t> labels(5);

  const auto rejects = [&](const batch& b, const char* wrong) {
    const error found = both.failure(b);
    CAPTURE(std::string(found.what()));
    CHECK(has(found, wrong));
    CHECK(!found.remedy().empty());
    both.recovers();
  };
  rejects(batch(0), "the batch is empty");
  rejects(batch(-3), "the batch is empty");
  rejects(good(13), "the batch has 13 samples, but the plan holds 12");
  rejects(batch(5).with("labels", labels), "lacks the field \"inputs\"");
  rejects(batch(5).with("inputs", part(x, 60)), "lacks the field \"labels\"");
  rejects(batch(5).with("inputs", part(x, 59)).with("labels", labels),
          "field \"inputs\" of the batch has 59 elements, but 5 samples of 12 need 60");
  rejects(batch(5).with("inputs", doubles).with("labels", labels),
          "field \"inputs\" of the batch holds double, the model reads float");
  rejects(batch(5).with("inputs", part(x, 60)).with("labels", part(x, 5)), "holds float, the model reads int32");
  rejects(batch(4).with("inputs", part(x, 48)).with("labels", labels), "field \"labels\" of the batch has 5 elements");
  for (const int bad : {12, -1}) {
    labels[3] = bad;
    rejects(batch(5).with("inputs", part(x, 60)).with("labels", labels),
            bad < 0 ? "field \"labels\" of sample 3 is -1" : "field \"labels\" of sample 3 is 12");
  }
  labels[3] = 0;
  const std::vector<float> none(5, 0.0F);
  rejects(batch(5).with("inputs", part(x, 60)).with("labels", labels).with("weights", none),
          "the weights of the batch's samples sum to 0");
}
