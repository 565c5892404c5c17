#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

#include "support/nets.hpp"

// The loop with a real trainer: the best values come back bit for bit, and a training that was stopped goes on with the
// same bits, at another number of stages too.

using namespace gpipe;

namespace {

using net = laws::tied_net<float>;  // dropout, batch norm, tied parameters
using training = trainer<net, adam>;

plan_options cut_in(int count) { return {.stages = count, .micro_batches = 2, .micro_batch_size = 4}; }

dataset rows(int count) {
  const laws::samples<float> from(count, 12, 1);
  return dataset{}.with("inputs", 12, from.inputs).with("labels", 1, from.labels);
}

}  // namespace

TEST_CASE("the parameters at the end are those of the evaluation that was best") {
  const dataset data = rows(21), held_out = rows(9);
  training run{cut_in(3), adam{.learning_rate = 0.2}, {.seed = 3}};
  std::vector<std::uint64_t> hashes;
  const fit_result end = fit(run, data, held_out, {.epochs = 12, .batch = 8, .patience = 3, .restore_best = true},
                             [&](const fit_progress& now) {
                               if (now.step != now.steps) return;
                               hashes.push_back(run.parameter_hash());
                               CHECK(now.held_out_accuracy == run.evaluate(held_out).accuracy());
                             });
  REQUIRE(end.best_epoch > 0);
  REQUIRE(end.best_epoch < end.epochs);
  CHECK(run.parameter_hash() == hashes[static_cast<std::size_t>(end.best_epoch - 1)]);
  CHECK(run.parameter_hash() != hashes.back());
  CHECK(run.evaluate(held_out).loss == end.held_out);  // with the state of batch norm
}

TEST_CASE("values go from one cut to another") {
  const dataset data = rows(8);
  training one{cut_in(1), adam{}, {.seed = 1}}, four{cut_in(4), adam{}, {.seed = 2}};
  fit(one, data, {.epochs = 2, .batch = 8});
  std::vector<std::byte> values;
  one.keep_values(values);
  four.restore_values(values);
  CHECK(four.parameter_hash() == one.parameter_hash());
  CHECK(four.evaluate(data).loss == one.evaluate(data).loss);
  values.pop_back();
  CHECK_THROWS_WITH_AS(four.restore_values(values), doctest::Contains("give what keep_values returned"), error);
}

TEST_CASE("a source that is no dataset trains to the same bits, and so does a training in two parts") {
  const dataset data = rows(21);
  const auto all = data.field<float>("inputs");
  const auto labels = data.field<std::int32_t>("labels");
  const generated_data made(21, {{"inputs", 12}, {"labels", 1, dtype::int32}}, [&](const batch_request& r) {
    const auto x = r.rows<float>("inputs");
    const auto y = r.rows<std::int32_t>("labels");
    for (std::size_t i = 0; i < r.samples().size(); ++i) {
      const auto row = static_cast<std::size_t>(r.samples()[i]);
      std::ranges::copy(all.subspan(12 * row, 12), x.subspan(12 * i).begin());
      y[i] = labels[row];
    }
  });
  const fit_options how{.epochs = 3, .batch = 8, .seed = 5};
  training held{cut_in(2), adam{}, {.seed = 3}}, generated{cut_in(2), adam{}, {.seed = 3}};
  std::vector<data_position> positions;
  fit(held, data, how, [&](const fit_progress& now) { positions.push_back(now.next); });
  fit(generated, made, how);
  CHECK(laws::state_of(generated) == laws::state_of(held));
  CHECK(generated.evaluate(made).loss == held.evaluate(data).loss);
  const tensor_rows a = generated.predict(made), b = held.predict(data);
  CHECK(std::equal(a.all<float>().begin(), a.all<float>().end(), b.all<float>().begin(), b.all<float>().end()));

  for (const std::size_t k : {std::size_t{0}, std::size_t{2}, std::size_t{4}}) {
    training parts{cut_in(2), adam{}, {.seed = 3}};
    fit(parts, data, how,
        [&](const fit_progress&) { return parts.steps() == k + 1 ? loop_control::stop : loop_control::go; });
    fit_options rest = how;
    rest.first = positions[k];
    fit(parts, made, rest);
    CHECK(laws::state_of(parts) == laws::state_of(held));
  }
}
