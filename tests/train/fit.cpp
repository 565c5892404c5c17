// sanitizers: address

#include <gpipe/train/fit.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include <unistd.h>

#include <gpipe/train/data/dataset.hpp>

using namespace gpipe;

namespace {

/// A trainer that records its arguments.
struct noting {
  std::vector<int> sizes{}, labels{}, accumulated{};
  std::vector<double> held_out{};  // losses to be returned, the last first
  int minimum = 1;
  int min_batch() const { return minimum; }
  double rate() const { return 0.5 / static_cast<double>(sizes.size() + 1); }
  void accumulate(const batch& b) { accumulated.push_back(b.samples()); }
  step_result evaluate(const data_source&) {
    step_result found;
    found.loss = held_out.back();
    held_out.pop_back();
    return found;
  }
  step_result step(const batch& b) {
    sizes.push_back(b.samples());
    for (int i = 0; i < b.samples(); ++i) labels.push_back(static_cast<const std::int32_t*>(b.find("labels")->data)[i]);
    step_result found;
    found.samples = b.samples();
    found.weight = 2.0 * b.samples();
    found.loss = b.samples();
    found.norm = 2 * b.samples();
    return found;
  }
  void keep_values(std::vector<std::byte>& into) const { into.assign(1, static_cast<std::byte>(sizes.size())); }
  void restore_values(const std::vector<std::byte>& from) { restored.push_back(std::to_integer<int>(from[0])); }
  std::vector<int> restored{};  // the number of steps at which the values were kept
};

const dataset five = dataset{}.with("labels", 1, std::vector<std::int32_t>{0, 1, 2, 3, 4});

}  // namespace

TEST_CASE("every epoch goes over all samples, each in another order") {
  noting training;
  std::vector<fit_progress> seen;
  fit(training, five, {.epochs = 2, .batch = 3, .seed = 4}, [&](const fit_progress& now) { seen.push_back(now); });
  CHECK(training.sizes == std::vector<int>{3, 2, 3, 2});
  const std::vector<int> first(training.labels.begin(), training.labels.begin() + 5);
  const std::vector<int> second(training.labels.begin() + 5, training.labels.end());
  CHECK(first != second);
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin()));

  REQUIRE(seen.size() == 4);
  CHECK(seen[1].epoch == 1);
  CHECK(seen[2].epoch == 2);
  CHECK(seen[3].epochs == 2);
  CHECK(seen[1].step == 2);
  CHECK(seen[1].steps == 2);
  CHECK(seen[0].rate == 0.5);  // of the completed step
  CHECK(seen[1].rate == 0.25);
  CHECK(seen[0].loss == 3);
  CHECK(seen[1].loss == (3 * 6 + 2 * 4) / 10.0);  // by weight
  CHECK(seen[2].loss == 3);                       // starts again in each epoch
  CHECK(seen[1].step_loss == 2);
  CHECK(seen[1].norm == 4);
  CHECK(seen[1].waiting >= 0);
  CHECK(seen[1].waiting < 1);
  CHECK(seen[0].next == data_position{0, 1, 3, 5});
  CHECK(seen[1].next == data_position{1, 0, 3, 5});
}

TEST_CASE("the callback may be left out") {
  noting training;
  CHECK(fit(training, five, {.epochs = 2, .batch = 3}).epochs == 2);
  CHECK(training.sizes == std::vector<int>{3, 2, 3, 2});
  training.held_out = {0.5};
  CHECK(fit(training, five, five).held_out == 0.5);
}

TEST_CASE("a step may take several batches, the last of an epoch fewer") {
  noting training;
  std::vector<long> steps;
  const fit_result end = fit(training, five, {.epochs = 2, .batch = 1, .accumulate = 2}, [&](const fit_progress& now) {
    CHECK(now.steps == 3);
    steps.push_back(now.step);
  });
  CHECK(steps == std::vector<long>{1, 2, 3, 1, 2, 3});
  CHECK(training.accumulated == std::vector<int>{1, 1, 1, 1});  // 2 + 2 + 1
  CHECK(end.epochs == 2);
  CHECK_FALSE(end.stopped);
  CHECK(end.best_epoch == 0);
}

TEST_CASE("the hook after a step may end the training") {
  noting training;
  const fit_result end = fit(training, five, {.epochs = 3, .batch = 2}, [&](const fit_progress& now) {
    return now.epoch == 2 && now.step == 2 ? loop_control::stop : loop_control::go;
  });
  CHECK(training.sizes.size() == 5);
  CHECK(end.stopped);
  CHECK(end.epochs == 1);
  noting to_its_end;
  CHECK_FALSE(fit(to_its_end, five, {.batch = 5}, [](const fit_progress&) { return loop_control::stop; }).stopped);
}

TEST_CASE("a training stops if the held-out loss has not fallen for `patience` epochs") {
  const auto run = [&](int patience) {
    noting training;
    training.held_out = {0.1, 5, 4, 3, 3, 2, 4};
    std::vector<double> seen;
    const fit_options how{.epochs = 7, .batch = 3, .patience = patience};
    const fit_result end = fit(training, five, five, how, [&](const fit_progress& now) {
      if (now.step == now.steps) seen.push_back(now.held_out);
      else CHECK(now.held_out != now.held_out);
    });
    CHECK(static_cast<int>(seen.size()) == end.epochs);
    CHECK(seen[1] == 2);
    return end;
  };
  const fit_result patient = run(4), impatient = run(3), any = run(0);
  CHECK_FALSE(any.stopped);
  CHECK(any.epochs == 7);
  CHECK(any.best_epoch == 7);
  CHECK(any.held_out == 0.1);
  CHECK(impatient.stopped);
  CHECK(impatient.epochs == 5);
  CHECK(impatient.best_epoch == 2);
  CHECK(impatient.held_out == 2);
  CHECK(patient.epochs == 6);
}

TEST_CASE("patience counts the epochs of this call alone, also where none of them is the best so far") {
  const auto epochs_from = [](std::uint64_t first, std::vector<double> losses, int patience) {
    noting training;
    training.held_out.assign(losses.rbegin(), losses.rend());
    return fit(training, five, five, {.epochs = 9, .batch = 5, .patience = patience, .first = {first, 0}}).epochs;
  };
  const double none = std::numeric_limits<double>::quiet_NaN();  // no epoch is the best
  CHECK(epochs_from(0, {none, none, none, none}, 2) == 2);
  CHECK(epochs_from(5, {none, none, none, none}, 2) == 7);
  CHECK(epochs_from(5, {none, none, none, none}, 3) == 8);
  CHECK(epochs_from(5, {2, 3, 3, 3}, 2) == 8);
  CHECK(epochs_from(5, {2, 1, 3, 3}, 2) == 9);
}

TEST_CASE("a training that was stopped goes on at its position") {
  for (const int accumulate : {1, 2}) {
    const fit_options whole{.epochs = 3, .batch = 1, .seed = 4, .accumulate = accumulate};
    noting once;
    std::vector<data_position> positions;
    std::vector<std::size_t> taken;
    fit(once, five, whole, [&](const fit_progress& now) {
      positions.push_back(now.next);
      taken.push_back(once.labels.size());
    });
    CHECK(positions.back() == data_position{3, 0, 1, 5});
    for (std::size_t k = 0; k < positions.size(); ++k) {
      noting later;
      fit_options how = whole;
      how.first = positions[k];
      std::vector<long> steps;
      const fit_result end = fit(later, five, how, [&](const fit_progress& now) { steps.push_back(now.step); });
      CHECK(later.labels == std::vector<int>(once.labels.begin() + static_cast<long>(taken[k]), once.labels.end()));
      CHECK(end.epochs == 3);
      CHECK(end.next == data_position{3, 0, 1, 5});
      noting first;
      std::size_t step = 0;
      const fit_result stopped =
          fit(first, five, whole, [&](const fit_progress&) { return loop_control{step++ != k}; });
      CHECK(stopped.next == positions[k]);
      if (!steps.empty()) CHECK(steps.front() == positions[k].batch / accumulate + 1);
    }
  }
  noting training;
  CHECK(fit(training, five, {.epochs = 2, .batch = 1, .first = {2, 0}}).next == data_position{2, 0, 1, 5});
  CHECK(training.labels.empty());
  CHECK_THROWS_WITH_AS(fit(training, five, {.batch = 1, .accumulate = 2, .first = {0, 1}}),
                       "the first batch is 1, inside a step of 2 batches; choose a multiple of accumulate", error);
  CHECK_THROWS_WITH_AS(fit(training, five, {.batch = 1, .first = {0, 6}}), doctest::Contains("the first batch is 6"),
                       error);
}

TEST_CASE("a position in batches of another size is converted, or refused") {
  const dataset twelve = dataset{}.with("labels", 1, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  noting whole;
  fit(whole, twelve, {.epochs = 2, .batch = 1, .seed = 4});
  for (const int before : {1, 2, 3, 4, 6})
    for (const int size : {1, 2, 3, 4, 6}) {
      noting first, later;
      const fit_result end = fit(first, twelve, {.epochs = 2, .batch = before, .seed = 4},
                                 [](const fit_progress&) { return loop_control::stop; });
      CHECK(end.next == data_position{0, 1, before, 12});
      const fit_options how{.epochs = 2, .batch = size, .seed = 4, .first = end.next};
      CAPTURE(before);
      CAPTURE(size);
      if (before % size == 0) {
        fit(later, twelve, how);
        CHECK(later.labels == std::vector<int>(whole.labels.begin() + before, whole.labels.end()));
      } else {
        CHECK_THROWS_WITH_AS(fit(later, twelve, how), doctest::Contains("which are no whole batches of"), error);
        CHECK(later.labels.empty());
      }
    }
  noting training;
  CHECK_THROWS_WITH_AS(
      fit(training, five, {.batch = 1, .first = {0, 1, 1, 12}}),
      "the position is inside an epoch of 12 samples, but the data have 5; give the data of the training "
      "that was stopped, or begin at the next epoch",
      error);
  CHECK_THROWS_WITH_AS(
      fit(training, five, {.batch = 2, .first = {0, 3, 1, 5}}),
      "the position is behind 3 batches of 1 sample, which are no whole batches of 2; choose .batch = 1, "
      "or begin at the next epoch",
      error);
  CHECK_THROWS_AS(fit(training, five, {.batch = 2, .first = {0, 1, -1, 5}}), error);
  CHECK_THROWS_AS(fit(training, five, {.batch = 2, .first = {0, 1, 2, -5}}), error);
  CHECK(training.labels.empty());
  // Between two epochs nothing is left out or read twice.
  fit(training, five, {.epochs = 2, .batch = 2, .first = {1, 0, 3, 12}});
  CHECK(training.labels.size() == 5);
}

TEST_CASE("steps with the learning rate 0 are counted, and the first one is named") {
  struct ending : noting {
    double rate() const { return sizes.size() < 3 ? 0.5 : 0; }
  };
  const auto run = [](auto&& training) {
    std::FILE* const into = std::tmpfile();
    REQUIRE(into != nullptr);
    std::fflush(stderr);
    const int before = dup(STDERR_FILENO);
    dup2(fileno(into), STDERR_FILENO);
    const fit_result end = fit(training, five, {.epochs = 3, .batch = 3});
    std::fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    std::string text(4096, '\0');
    std::rewind(into);
    text.resize(std::fread(text.data(), 1, text.size(), into));
    std::fclose(into);
    return std::pair{end.steps_without_rate, text};
  };
  CHECK(run(ending{}) ==
        std::pair{3L, std::string("gpipe: fit: the learning rate is 0 in step 2 of epoch 2, so parameters "
                                  "stay as they are; check the steps of the schedule\n")});
  CHECK(run(noting{}) == std::pair{0L, std::string()});
}

TEST_CASE("the best values are taken back at the end, if the last are others") {
  const auto run = [](std::vector<double> losses, fit_options how, int stop_at_step = 1000) {
    noting training;
    training.held_out.assign(losses.rbegin(), losses.rend());
    how.epochs = static_cast<int>(losses.size());
    how.batch = 5;
    fit(training, five, five, how,
        [&](const fit_progress& now) { return now.epoch == stop_at_step ? loop_control::stop : loop_control::go; });
    return training.restored;
  };
  CHECK(run({3, 1, 2, 4}, {.restore_best = true}) == std::vector<int>{2});
  CHECK(run({3, 1, 2, 4}, {}) == std::vector<int>{});
  CHECK(run({3, 2, 1}, {.restore_best = true}) == std::vector<int>{});
  CHECK(run({1, 2, 3, 4, 5}, {.patience = 2, .restore_best = true}) == std::vector<int>{1});
  CHECK(run({3, 1, 2, 4}, {.restore_best = true}, 3) == std::vector<int>{2});
  noting training;
  CHECK_THROWS_WITH_AS(fit(training, five, {.restore_best = true}), doctest::Contains("without a held-out dataset"),
                       error);
}

TEST_CASE("the rate is reduced where the held-out loss does not fall, down to the floor") {
  struct with_rates : noting {
    std::vector<double> rates{};  // 0: that of the schedule
    using noting::step;
    double rate() const { return 0.5; }
    step_result step(const batch& b, double rate) {
      rates.push_back(rate);
      return step(b);
    }
  };
  with_rates training;
  //            epoch 8     7     6    5    4    3    2    1
  training.held_out = {1, .93, .92, .91, .9, .95, .9, .9};
  std::vector<double> seen;
  const fit_result end =
      fit(training, five, five, {.epochs = 8, .batch = 5, .plateau = {.patience = 2, .factor = 0.1, .floor = 0.005}},
          [&](const fit_progress& now) { seen.push_back(now.rate); });
  // Epochs 2 and 3 are not below 1 (0.9 is the first), nor are 4 and 5, 6 and 7.
  CHECK(seen ==
        std::vector<double>{0.5, 0.5, 0.5, 0.5 * 0.1, 0.5 * 0.1, 0.5 * (0.1 * 0.1), 0.5 * (0.1 * 0.1), 0.5 * 0.005});
  CHECK(training.rates == std::vector<double>(seen.begin() + 3, seen.end()));
  CHECK(end.rate_factor == 0.005);
  training.held_out = {0.5};
  CHECK(fit(training, five, five, {.epochs = 1, .batch = 5, .plateau = {.begin = end.rate_factor}}).rate_factor ==
        0.005);
  CHECK(training.rates.back() == 0.5 * 0.005);
}

TEST_CASE("invalid fit options are rejected") {
  noting training;
  const auto nothing = [](const fit_progress&) {};
  CHECK_THROWS_AS(fit(training, five, {.batch = 0}, nothing), error);
  CHECK_THROWS_AS(fit(training, dataset{}, {}, nothing), error);
  CHECK_THROWS_AS(fit(training, five, {.accumulate = 0}, nothing), error);
  CHECK_THROWS_AS(fit(training, five, {.patience = 2}, nothing), error);
  CHECK_THROWS_WITH_AS(fit(training, five, five, {.patience = -1}, nothing),
                       "patience is -1; choose a number of epochs, or 0 for no end", error);
  CHECK_THROWS_WITH_AS(fit(training, five, {.epochs = -2}, nothing), "epochs is -2; choose at least 0", error);
  training.minimum = 2;
  CHECK_THROWS_WITH_AS(
      fit(training, five, {.batch = 2}, nothing),
      "an epoch's last batch of 1 sample is too small for 2 replicas; choose fewer replicas, or batches "
      "of another size",
      error);
  CHECK(training.sizes.empty());
  fit(training, five, {.batch = 3}, nothing);
  CHECK(training.sizes == std::vector<int>{3, 2});
  CHECK(fit_options{.batch = 4}.steps_per_epoch(9) == 3);
}
