// sanitizers: address

#include <gpipe/runtime/step/step_input.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/binary_cross_entropy.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 2>, linear<3>, softmax_cross_entropy> {};
struct headless : model<input<float, 2>, linear<3>> {};

template <class Model>
struct calls {
  explicit calls(const plan_options& options) : plan(make_plan(network_of<Model>, options)) {}
  step_plan plan;
  step_context step;
  detail::step_input input{network_of<Model>, plan, step};
};

const std::vector<float> batch_inputs(26, 0.5F);
const std::vector<std::int32_t> batch_labels(13, 1);
batch of(int samples) {
  const auto rows = static_cast<std::size_t>(samples);
  return batch(samples)
      .with("inputs", std::span(batch_inputs).first(2 * rows))
      .with("labels", std::span(batch_labels).first(rows));
}

}  // namespace

TEST_CASE("a call sets the whole step, and nothing of the last call is left") {
  calls<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  tensor_rows rows;
  it.input.begin(pass_kind::predict, of(3), {.samples_before = 1, .predicted = &rows, .captured = true});
  CHECK(it.step.predicted == &rows);
  CHECK(it.step.captured);
  it.step.begin(pass_kind::diagnose);
  const auto before = now_ns();
  it.input.begin(pass_kind::train, of(5), {.samples_before = 8});
  CHECK(it.step.began_ns >= before);
  CHECK(it.step.rows.samples == 5);
  CHECK(it.step.per_micro_batch == 2);
  CHECK(it.step.samples_before == 8);
  CHECK(it.step.kind == pass_kind::train);
  CHECK(it.step.repeated == pass_kind::train);
  CHECK(it.step.predicted == nullptr);
  CHECK(!it.step.captured);
  it.input.begin(pass_kind::evaluate, of(1));
  CHECK(it.step.rows.samples == 1);
  CHECK(it.step.samples_before == 0);
  CHECK((!it.step.trains() && !it.step.is_timed()));
}

TEST_CASE("samples are dealt in order, the next ceil(N / (R M)) to each micro-batch") {  // as the guide says
  const auto dealt = [](calls<net>& it, int samples) {
    it.input.begin(pass_kind::train, of(samples));
    return std::vector<int>{it.step.samples(0), it.step.samples(1), it.step.samples(2), it.step.samples(3)};
  };
  calls<net> four({.micro_batches = 4, .micro_batch_size = 4});
  CHECK(dealt(four, 8) == std::vector{2, 2, 2, 2});
  CHECK(dealt(four, 9) == std::vector{3, 3, 3, 0});
  CHECK(dealt(four, 13) == std::vector{4, 4, 4, 1});
  CHECK(dealt(four, 3) == std::vector{1, 1, 1, 0});
  calls<net> copies({.micro_batches = 2, .micro_batch_size = 4, .replicas = 2});
  CHECK(dealt(copies, 9) == std::vector{3, 3, 3, 0});
}

TEST_CASE("training without enough samples, without a loss or without a backward is rejected") {
  calls<net> it({.micro_batches = 2, .micro_batch_size = 2, .replicas = 2});
  it.input.require_training();
  CHECK_THROWS_WITH_AS(it.input.begin(pass_kind::train, of(1)),
                       "a batch of 1 sample is too small for 2 replicas; give at least one sample to each, or choose "
                       "fewer replicas",
                       error);
  it.input.begin(pass_kind::evaluate, of(1));
  CHECK_THROWS_WITH_AS(it.input.begin(pass_kind::train, batch(0)), doctest::Contains("the batch is empty"), error);
  calls<net> forward({.schedule = schedule_kind::forward_only});
  forward.input.require_loss();
  CHECK_THROWS_WITH_AS(forward.input.require_training(), doctest::Contains("has no backward"), error);
  CHECK(forward.step.forward_only);
  forward.input.begin(pass_kind::evaluate, of(1));
  CHECK(forward.step.is_timed());
  calls<headless> none({});
  CHECK_THROWS_WITH_AS(none.input.require_training(), doctest::Contains("the model has no loss"), error);
}

TEST_CASE("floats for a model in bf16 are rounded into a buffer of the step_input") {
  calls<in_bf16<net>> it({.micro_batches = 2, .micro_batch_size = 2, .precision = precision::bf16});
  it.input.begin(pass_kind::evaluate, of(4));
  CHECK(it.step.rows.inputs != reinterpret_cast<const std::byte*>(batch_inputs.data()));
  CHECK(static_cast<float>(reinterpret_cast<const bf16*>(it.step.rows.inputs)[7]) == 0.5F);
}

// The errors of invalid batches: tests/laws/failure/data.cpp.

namespace {

struct passing : model<input<double, 3>, laws::passing_loss> {};
struct tagged {
  template <class In>
  struct on {
    using output = tensor<float, 2>;
    static constexpr field fields[] = {{"tags", 2, dtype::uint8, 4}, {"classes", 2, dtype::int32}};
  };
};
struct with_tags : model<input<std::uint8_t, 3>, tagged> {};

using narrow = in_bf16<model<input<float, 3>, laws::passing_loss>>;
struct weighed_in_bf16 {
  template <class In>
  struct on {
    using output = In;
    static constexpr field fields[] = {{"weights", 1, dtype::bf16, 0, true}};
  };
};
struct weighed : model<input<bf16, 3>, weighed_in_bf16> {};
struct answered_in_bf16 {
  template <class In>
  struct on {
    using output = In;
    static constexpr field fields[] = {{"labels", 1, dtype::bf16, 1}};
  };
};
struct answered : model<input<bf16, 1>, answered_in_bf16> {};

// Looks up its second input, below 7.
struct look_up_second {
  template <class In>
  struct on;
  template <class A, class B>
  struct on<bundle<A, B>> {
    using output = tensor<float, 2>;
    static constexpr std::int64_t input_below = 7;
  };
};
// The smallest vocabulary counts among those of the layers that read the same tokens.
struct two_tables
    : model<input<std::int32_t, 4>, reshape<2, 2>, stash<"tokens">, embedding<9, 3>, pop<"tokens">, look_up_second> {};
struct further : model<input<float, 1>, from<"source", tensor<std::int32_t, 3>>, look_up_second> {};

}  // namespace

TEST_CASE("check_batch finds the rows of each field") {
  const std::vector<double> x(6, 1.5);
  const std::int32_t labels[] = {2, 0};
  batch b(2);
  b.with("inputs", x).with("labels", labels);
  CHECK(b.samples() == 2);
  REQUIRE(b.find("inputs") != nullptr);
  CHECK(b.find("inputs")->data == x.data());
  CHECK(b.find("inputs")->type == dtype::float64);
  CHECK(b.find("labels")->elements == 2);
  CHECK(b.find("weights") == nullptr);

  batch_rows rows;
  check_batch(network_of<passing>, b, 2, rows);
  CHECK(rows.samples == 2);
  CHECK(rows.inputs == reinterpret_cast<const std::byte*>(x.data()));
  REQUIRE(rows.fields.size() == 2);
  CHECK(rows.fields[0] == reinterpret_cast<const std::byte*>(labels));
  CHECK(rows.fields[1] == nullptr);  // optional
}

TEST_CASE("rows at the null address are rejected") {
  batch b(2);
  b.with("inputs", nullptr, 6, dtype::float64);
  batch_rows rows;
  CHECK_THROWS_WITH_AS(check_batch(network_of<passing>, b, 2, rows),
                       doctest::Contains("field \"inputs\" of the batch has no rows"), error);
}

TEST_CASE("a field that is given twice or that the model does not read is rejected") {
  const std::vector<double> x(6, 1.5), negative{1, -0.5};
  const std::int32_t labels[] = {2, 0};
  batch_rows rows;
  batch b(2);
  b.with("inputs", x).with("labels", labels);
  CHECK_THROWS_WITH_AS(b.with("inputs", x), "the batch has a field \"inputs\" already; give each field once", error);
  CHECK_THROWS_WITH_AS(
      check_batch(network_of<passing>, batch(b).with("weigths", x), 2, rows),
      "the batch has a field \"weigths\", which the model does not read; is it \"weights\"? the model reads inputs, "
      "labels, weights; with_unread adds a field that it need not read",
      error);
  CHECK_THROWS_WITH_AS(check_batch(network_of<passing>, batch(2).with("input", x).with("labels", labels), 2, rows),
                       doctest::Contains("is it \"inputs\"?"), error);
  const std::vector<std::int32_t> numbers{7, 8};
  const std::string lines(5000, '\n');
  CHECK_NOTHROW(check_batch(network_of<passing>, batch(b).with_unread("id", numbers), 2, rows));
  CHECK_THROWS_WITH_AS(check_batch(network_of<passing>, batch(b).with(lines, numbers), 2, rows),
                       doctest::Contains("\\n\\n"), error);
  CHECK_THROWS_WITH_AS(check_batch(network_of<passing>, batch(b).with("weights", negative), 2, rows),
                       doctest::Contains("field \"weights\" of sample 1 is -0.5"), error);
}

TEST_CASE("integers outside their range are rejected") {
  const std::vector<std::uint8_t> x(3);
  std::vector<std::uint8_t> tags{3, 0};
  const std::vector<std::int32_t> classes{-7, 1 << 30};  // no range
  batch_rows rows;
  const auto check = [&] {
    check_batch(network_of<with_tags>, batch(1).with("inputs", x).with("tags", tags).with("classes", classes), 1, rows);
  };
  CHECK_NOTHROW(check());
  tags[1] = 4;
  CHECK_THROWS_WITH_AS(check(), "field \"tags\" of sample 0, at position 1, is 4; it must lie in 0 ... 3", error);
}

TEST_CASE("a token outside the vocabulary of the layers that read it is rejected") {
  static_assert(network_of<two_tables>.values[0].below == 7);
  std::vector<std::int32_t> tokens{0, 6, 0, 1, 1, 2, 4, 3};
  batch_rows rows;
  const auto check = [&] { check_batch(network_of<two_tables>, batch(2).with("inputs", tokens), 2, rows); };
  CHECK_NOTHROW(check());
  tokens[6] = 7;
  CHECK_THROWS_WITH_AS(check(), "field \"inputs\" of sample 1, at position 2, is 7; it must lie in 0 ... 6", error);
  tokens[6] = -1;
  CHECK_THROWS_WITH_AS(check(), doctest::Contains("sample 1, at position 2, is -1"), error);
}

TEST_CASE("a token of a further input is checked, too") {
  const std::vector<float> x{1};
  std::vector<std::int32_t> tokens{0, 6, 2};
  batch_rows rows;
  const auto check = [&] {
    check_batch(network_of<further>, batch(1).with("inputs", x).with("source", tokens), 1, rows);
  };
  CHECK_NOTHROW(check());
  tokens[1] = 7;
  CHECK_THROWS_WITH_AS(check(), "field \"source\" of sample 0, at position 1, is 7; it must lie in 0 ... 6", error);
}

TEST_CASE("only the inputs of a model in bf16 are converted, by rounding") {
  const std::vector<float> x{1.001F, -3.14159F, 7}, tiny{1};
  const std::int32_t labels[] = {2};
  std::vector<bf16> room(3);
  batch_rows rows;
  rows.rounded = room.data();
  check_batch(network_of<narrow>, batch(1).with("inputs", x).with("labels", labels), 1, rows);
  const auto* taken = reinterpret_cast<const bf16*>(rows.inputs);
  for (std::size_t i = 0; i < 3; ++i) CHECK(taken[i].bits == bf16(x[i]).bits);

  const std::vector<bf16> already(x.begin(), x.end()), negative{-1.0F};
  check_batch(network_of<narrow>, batch(1).with("inputs", already).with("labels", labels), 1, rows);
  CHECK(rows.inputs == reinterpret_cast<const std::byte*>(already.data()));
  CHECK_THROWS_WITH_AS(check_batch(network_of<weighed>, batch(1).with("inputs", x).with("weights", negative), 1, rows),
                       doctest::Contains("field \"weights\" of sample 0 is -1.0"), error);
  CHECK_THROWS_WITH_AS(check_batch(network_of<weighed>, batch(1).with("inputs", x).with("weights", tiny), 1, rows),
                       doctest::Contains("holds float, the model reads bf16; convert it before the step"), error);
}

TEST_CASE("fields that only layers behind the last to run read may be missing") {
  const std::vector<double> x(6);
  const std::int32_t labels[] = {2, 5};
  batch_rows rows;
  const batch without = batch(2).with("inputs", x);
  const int loss = network_of<passing>.loss_layer();
  CHECK_NOTHROW(check_batch(network_of<passing>, without, 2, rows, loss));
  CHECK(rows.fields[0] == nullptr);
  CHECK_THROWS_WITH_AS(check_batch(network_of<passing>, without, 2, rows, loss + 1),
                       doctest::Contains("the batch lacks the field \"labels\""), error);
  CHECK_THROWS_AS(check_batch(network_of<passing>, batch(without).with("labels", labels), 2, rows, loss), error);
}

TEST_CASE("fields that only layers of other processes read may be missing") {
  const std::vector<double> x(6, 1.5);
  const std::int32_t labels[] = {2, 0};
  struct two_layers : model<input<double, 3>, linear<3>, laws::passing_loss> {};
  const auto check = [&](const batch& b, std::vector<bool> here) {
    batch_rows rows;
    check_batch(network_of<two_layers>, b, 2, rows, 2, {std::move(here), 1});
    return rows;
  };
  const batch inputs = batch(2).with("inputs", x), classes = batch(2).with("labels", labels);
  CHECK(check(inputs, {true, false}).unknown == std::vector<bool>{true, true});
  const batch_rows rows = check(classes, {false, true});
  CHECK(rows.inputs == nullptr);
  CHECK(rows.unknown == std::vector<bool>{false, false});  // weights are missing, and their value is known: 1
  CHECK(check(batch(2), {false, false}).unknown == std::vector<bool>{true, true});
  const auto refuses = [&](const batch& b, std::vector<bool> here, const char* what) {
    CHECK_THROWS_WITH_AS(check(b, std::move(here)), doctest::Contains(what), error);
  };
  refuses(classes, {true, false}, "the batch lacks the field \"inputs\", which layers of rank 1 read");
  refuses(inputs, {false, true}, "the batch lacks the field \"labels\", which layers of rank 1 read");
  refuses(batch(2).with("inputs", x).with("label", labels), {true, false}, "is it \"labels\"?");
}

TEST_CASE("a batch of a dataset names the dataset's row") {
  const std::vector<double> x(6, 1.5);
  const std::int32_t labels[] = {2, 77};
  const int order[] = {40, 12};
  batch_rows rows;
  CHECK_THROWS_WITH_AS(
      check_batch(network_of<passing>, batch(2).with("inputs", x).with("labels", labels).named(order), 2, rows),
      doctest::Contains("field \"labels\" of row 12 of the dataset is 77"), error);
}

TEST_CASE("labels of a model that forgot to flatten are explained") {
  struct forgot : model<input<float, 8, 8>, linear<10>, softmax_cross_entropy> {};
  const std::vector<float> x(3 * 64);
  const std::int32_t labels[] = {0, 1, 2};
  batch_rows rows;
  CHECK_THROWS_WITH_AS(check_batch(network_of<forgot>, batch(3).with("inputs", x).with("labels", labels), 3, rows),
                       doctest::Contains("see 8 rows in each sample; if a sample is one row, put flatten"), error);
}

TEST_CASE("an ignored label and a probability pass, others beyond the range do not") {
  struct ignoring
      : model<input<float, 4>, softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .ignored = -100}>> {};
  struct answers : model<input<float, 1>, binary_cross_entropy> {};
  const std::vector<float> x(8), one(2);
  batch_rows rows;
  const auto check = [&](const network& net, const std::vector<float>& in, const auto& labels) {
    check_batch(net, batch(2).with("inputs", in).with("labels", labels), 2, rows);
  };
  CHECK_NOTHROW(check(network_of<ignoring>, x, std::vector<std::int32_t>{-100, 3}));
  CHECK_THROWS_WITH_AS(check(network_of<ignoring>, x, std::vector<std::int32_t>{-100, -1}),
                       "field \"labels\" of sample 1 is -1; it must lie in 0 ... 3, or be -100, which is ignored",
                       error);
  CHECK_THROWS_AS(check(network_of<ignoring>, x, std::vector<std::int32_t>{4, 0}), error);
  CHECK_NOTHROW(check(network_of<answers>, one, std::vector<float>{0.25F, 1}));
  for (const float bad : {-0.5F, 1.5F, std::numeric_limits<float>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(check(network_of<answers>, one, std::vector<float>{0, bad}),
                         doctest::Contains("it must lie in 0 ... 1"), error);
  const std::vector<bf16> halves{0.5F, 0.5F}, beyond{0.5F, 1.5F};
  CHECK_NOTHROW(check_batch(network_of<answered>, batch(2).with("inputs", halves).with("labels", halves), 2, rows));
  CHECK_THROWS_WITH_AS(
      check_batch(network_of<answered>, batch(2).with("inputs", halves).with("labels", beyond), 2, rows),
      doctest::Contains("it must lie in 0 ... 1"), error);
}
