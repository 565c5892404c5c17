// compiled: alone
// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/checkpoint.hpp>
#include <gpipe/job.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/train.hpp>

#include "support/by_length.hpp"
#include "support/every_allocation.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// Failures, memory, errors and the loop of a training of several lengths.

using namespace laws;
using namespace laws::by_length;

TEST_CASE("a step that fails in one length changes nothing, and the next of any length works") {
  for (const int stages : {1, 3}) {
    bool fails = false;
    const training_options how{.before = [&](const instruction& i) {
      if (fails && i.kind == action_kind::backward) throw error("planted", "");
    }};
    trainer<of_lengths<translation>, adamw> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                                                     adamw{.learning_rate = 1e-2}, how);
    trainer<of_lengths<translation>, adamw> whole({.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                                                  adamw{.learning_rate = 1e-2});
    for (int i = 0; i < 7; ++i) {
      const auto before = state_of(training);
      fails = true;
      CHECK_THROWS_AS((step<decltype(training), translation<longest>>(training, i + 1)), error);
      CHECK(state_of(training) == before);
      fails = false;
      CHECK(step<decltype(training), translation<longest>>(training, i).loss ==
            step<decltype(whole), translation<longest>>(whole, i).loss);
    }
    CHECK(state_of(training) == state_of(whole));
  }
}

TEST_CASE("all lengths run in one arena, as large as the largest plan's, which is touched up to its end") {
  for (const int S : {1, 3}) {
    const plan_options plan{.stages = S, .micro_batches = 2, .micro_batch_size = 3};
    std::vector<std::vector<bool>> lines[2];
    for (const int run : {0, 1}) {
      const std::byte fill{static_cast<unsigned char>(run == 0 ? 0xa5 : 0x5a)};
      trainer<of_lengths<translation>, adamw> training(plan, adamw{}, {.arena_fill = fill});
      // Full micro-batches of each length: 3 x 16 tokens.
      for (const auto& [length, count] : {std::pair(16, 6), {8, 12}, {4, 24}}) {
        const sequences data(count, length, length, 1);
        training.step(data.of<translation<longest>>());
        training.evaluate(data.of<translation<longest>>());
      }
      for (int s = 0; s < S; ++s) {
        std::int64_t largest = make_plan(network_of<translation<longest>>, training.plan().options,
                                         {training.plan().first.begin() + 1, training.plan().first.end() - 1})
                                   .memory(s)
                                   .total();
        for (const auto& it : training.executor().shorter()) {
          largest = std::max(largest, it.plan.memory(s).total());
          CHECK(it.plan.first == training.plan().first);
        }
        const auto& arena = training.executor().stage(s).arena();
        CHECK(training.plan().memory(s).total() == largest);
        CHECK(arena.size() == static_cast<std::size_t>(largest));
        CHECK(training.report()[static_cast<std::size_t>(s)].bytes == arena.size());
        lines[run].emplace_back();
        constexpr std::size_t line = gpipe::detail::alignment;
        for (std::size_t at = 0; at <= arena.size(); at += line)
          lines[run].back().push_back(
              !std::all_of(arena.data() + at, arena.data() + at + line, [=](std::byte b) { return b == fill; }));
      }
    }
    for (std::size_t s = 0; s < lines[0].size(); ++s) {
      const auto &a = lines[0][s], &b = lines[1][s];
      CHECK((a[a.size() - 2] || b[b.size() - 2]));  // the highest predicted line
      CHECK(!(a.back() || b.back()));               // the first line behind it
    }
  }
}

#ifdef LAWS_COUNTED
TEST_CASE("a step of another length than the last one allocates nothing") {
  trainer<of_lengths<translation>, adamw> training({.stages = 2, .micro_batches = 2, .micro_batch_size = 3}, adamw{});
  for (int i = 0; i < 7; ++i) {
    const auto [length, count] = steps[i];
    const sequences data(count, length, length, static_cast<std::uint32_t>(i));
    const batch b = data.of<translation<longest>>();
    const long before = allocations;
    training.step(b);
    const long after = allocations;
    CHECK(after == before);
  }
}
#endif

TEST_CASE("one length is the model itself") {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 6};
  trainer<lengths<text, 8>, adamw> one(plan, adamw{});
  trainer<text<8>, adamw> plain(plan, adamw{});
  for (int i = 2; i < 4; ++i)
    CHECK((step<decltype(one), text<8>>(one, i).loss) == (step<decltype(plain), text<8>>(plain, i).loss));
  CHECK(state_of(one) == state_of(plain));
}

TEST_CASE("a predictor of several lengths has the predictions of its training") {
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};
  trainer<of_lengths<translation>, adamw> training(plan, adamw{});
  predictor<of_lengths<translation>> model(plan);
  std::vector<std::byte> values;
  step<decltype(training), translation<longest>>(training, 0);
  training.keep_values(values);
  model.restore_values(values);
  for (const int length : all_lengths) {
    const sequences data(3, length, length, 4);
    const auto a = training.predict(data.of<translation<longest>>()).all<double>();
    CHECK(a == model.predict(data.of<translation<longest>>()).all<double>());
    CHECK(a.size() == static_cast<std::size_t>(3 * length * words));
  }
}

TEST_CASE("a batch of no length, and predictions of two, are errors that leave all as it was") {
  trainer<of_lengths<text>, adamw> training({.micro_batch_size = 3}, adamw{});
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  const auto state = state_of(training);
  const sequences odd(2, 5, 5, 1);
  CHECK(
      message([&] { training.step(odd.of<text<longest>>()); }) ==
      "field \"inputs\" of the batch has 10 elements of 2 samples, 5 each: no plan has rows of the batch's sizes; pad "
      "the rows of all fields to one length of the plans: \"inputs\" to 4, 8 or 16");
  sequences mixed(2, 8, 8, 1);
  mixed.labels.resize(8);
  CHECK(message([&] { training.step(mixed.of<text<longest>>()); }).find("no plan has rows") != std::string::npos);
  const sequences many(13, 4, 4, 1);
  CHECK(message([&] { training.step(many.of<text<longest>>()); }).find("the plan holds 12") != std::string::npos);
  CHECK(state_of(training) == state);
  const sequences good(2, 8, 8, 1);
  training.step(good.of<text<longest>>());

  dataset rows;
  std::vector<std::int32_t> inputs(8 * 16, 1);
  rows.with("inputs", 16, inputs);
  const std::vector<int> positions{3, 4, 7, 8, 8, 9, 12, 16};
  const batches_by_length sorted(rows, positions, {.lengths = {4, 8, 16}, .tokens = 32});
  CHECK(message([&] { training.predict(sorted); }).find("rows of another length") != std::string::npos);
}

TEST_CASE("fit goes over batches of all lengths, and goes on from any of them with the same bits") {
  const int count = 90;
  dataset data;
  std::vector<std::int32_t> inputs, labels;
  std::vector<double> weights;
  std::vector<int> positions;
  for (int s = 0; s < count; ++s) {
    const int own = 1 + static_cast<int>(number(static_cast<std::uint32_t>(s), longest));
    positions.push_back(own);
    for (int t = 0; t < longest; ++t) {
      inputs.push_back(static_cast<std::int32_t>(t < own ? number(static_cast<std::uint32_t>(100 * s + t), words) : 0));
      labels.push_back(static_cast<std::int32_t>(t < own ? (inputs.back() + 1) % words : 0));
      weights.push_back(t < own ? 1 : 0);
    }
  }
  data.with("inputs", longest, inputs).with("labels", longest, labels).with("weights", longest, weights);
  const batches_by_length sorted(data, positions, {.lengths = {4, 8, 16}, .tokens = 48});
  const plan_options plan{.stages = 2, .micro_batches = 2, .micro_batch_size = 2};
  trainer<of_lengths<text>, adamw> whole(plan, adamw{.learning_rate = 1e-2});
  std::vector<std::uint64_t> hashes;
  std::vector<data_position> places;
  const double before = whole.evaluate(sorted).loss;
  const fit_result end = fit(whole, sorted, {.epochs = 2, .seed = 5}, [&](const fit_progress& now) {
    hashes.push_back(whole.parameter_hash());
    places.push_back(now.next);
  });
  CHECK(end.epochs == 2);
  CHECK(hashes.size() == static_cast<std::size_t>(2 * sorted.own().count));
  const step_result after = whole.evaluate(sorted);
  CHECK(after.loss < before);
  CHECK(after.weight == std::accumulate(positions.begin(), positions.end(), 0));
  CHECK(after.samples == count);

  // Padded evaluation of the same sequences.
  trainer<text<longest>, adamw> padded({.micro_batch_size = 10}, adamw{});
  std::vector<std::byte> values;
  whole.keep_values(values);
  padded.restore_values(values);
  CHECK(padded.evaluate(data).loss == doctest::Approx(after.loss).epsilon(1e-13));

  for (const std::size_t stop :
       {std::size_t{0}, std::size_t{4}, hashes.size() / 2 - 1, hashes.size() / 2, hashes.size() - 2}) {
    trainer<of_lengths<text>, adamw> part(plan, adamw{.learning_rate = 1e-2});
    std::size_t i = 0;
    fit(part, sorted, {.epochs = 2, .seed = 5},
        [&](const fit_progress&) { return i++ == stop ? loop_control::stop : loop_control::go; });
    fit(part, sorted, {.epochs = 2, .seed = 5, .first = places[stop]},
        [&](const fit_progress&) { CHECK(part.parameter_hash() == hashes[i++]); });
    CHECK(i == hashes.size());
  }
  const batches_by_length others(data, positions, {.lengths = {4, 8, 16}, .tokens = 32});
  CHECK_THROWS_AS(fit(whole, others, {.epochs = 2, .seed = 5, .first = places[3]}), error);
}

namespace {

/// A job of one process, of which no call is made.
struct job_of_one final : process_group {
  int rank() const noexcept override { return 0; }
  int ranks() const noexcept override { return 1; }
  void expect(std::chrono::nanoseconds) override {}
  void agree(collective_kind, std::span<const agreed_value>) override {}
  std::unique_ptr<sending_end> sender(const channel_layout&) override { return nullptr; }
  std::unique_ptr<receiving_end> receiver(const channel_layout&) override { return nullptr; }
  std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>&) override { return nullptr; }
  void enter(collective_kind, std::span<const agreed_value>) override {}
  void begin(wait_context) override {}
  void poll() override {}
  void broadcast(void*, std::size_t, int, std::uint64_t) override {}
  void fail(const error&) noexcept override {}
  error recover() override { return error("", ""); }
  bool leave(const error&) noexcept override { return false; }
  bool lost() const noexcept override { return false; }
};

}  // namespace

TEST_CASE("a job of processes trains one length") {
  job_of_one job;
  CHECK_THROWS_WITH_AS((trainer<of_lengths<text>, adamw>({.micro_batch_size = 3}, adamw{}, {.job = &job})),
                       "the training has a job, and its model 3 lengths; choose .job = nullptr, or the model of one "
                       "length",
                       error);
}
