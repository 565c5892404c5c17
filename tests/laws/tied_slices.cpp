// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/checkpoint.hpp>
#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

#include "support/larger_error.hpp"
#include "support/models.hpp"
#include "support/nets.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"

// The slices of a head share rows of an embedding's weight. They train as the whole head does, whose sums have another
// order, and with the same bits in every cut: a slice and the embedding in one stage or in several, of threads or of
// processes.

using namespace laws;

namespace {

template <class T, class... Head>
using ending_in = words_net<T, Head...>;
template <class T>
using sliced = rows_net<T>;
template <class T>
struct whole : ending_in<T, tied<"words", token_head<7>>> {};
template <class T>
struct apart : ending_in<T, token_head<7, slices<3>>> {};

constexpr const network& n = network_of<sliced<float>>;
constexpr int embedded = 0, first_slice = 4, rows[] = {0, 3, 5, 7}, width = 6;
constexpr gpipe::detail::named_array table{embedded, 0};
static_assert(n.layer_count == 8 && n.parameters() == network_of<whole<float>>.parameters());
static_assert(n.owner(first_slice, 0) == table && n.owner_offset(first_slice, 0) == 0);
static_assert(n.owner(first_slice + 2, 0) == table);
static_assert(n.owner_offset(first_slice + 2, 0) == 5 * width * sizeof(float));
static_assert(n.owner(first_slice + 1, 1) == gpipe::detail::named_array{first_slice + 1, 1});

const std::vector<std::string> names = {"head.slice0.weight", "head.slice1.weight", "head.slice2.weight"};

template <class T>
samples<T, std::int32_t> texts(int count) {
  return samples<T, std::int32_t>(count, 3, 3);
}
plan_options plan_of(int S, schedule_kind schedule = schedule_kind::fill_drain) {
  return {.stages = S, .micro_batches = 4, .micro_batch_size = 4, .schedule = schedule};
}
constexpr int some_stages[] = {1, 2, 3, layers_of<sliced<float>>};

/// The rows that slice i has.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, int i) {
  return {all.begin() + rows[i] * width, all.begin() + rows[i + 1] * width};
}

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  REQUIRE(x.size() == y.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = larger_error(most, std::abs(x[i] - y[i]) / (1 + std::abs(y[i])));
  return most;
}

/// Losses and norms of some steps, then all parameters; biases of slices one after the other, from the same values.
template <class Model>
std::vector<double> trained(const plan_options& options) {
  const auto data = texts<double>(16);
  trainer<Model, adam> t(options, adam{.learning_rate = 0.05}, {.seed = 3, .max_grad_norm = 0.2});
  std::vector<double> found;
  int word = 0;
  for (auto& p : t.parameters()) {
    if (!p.path.starts_with("head") || p.name != "bias") continue;
    std::vector<double> first;
    while (first.size() < p.size()) first.push_back(noise(5, static_cast<std::size_t>(word++)));
    p.set(first);
  }
  for (int i = 0; i < 6; ++i) {
    const step_result r = t.step(data.take(i, 10));
    found.insert(found.end(), {r.loss, r.norm, r.accuracy()});
  }
  for (auto& p : t.parameters()) {
    if (p.owner != p.layer_index) continue;
    const auto values = p.template values<double>();
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

}  // namespace

TEST_CASE("a tied head in slices trains as the whole one") {
  const auto expected = trained<whole<double>>(plan_of(1));
  for (const int S : some_stages) {
    CAPTURE(S);
    CHECK(distance(trained<sliced<double>>(plan_of(S)), expected) < 1e-12);
  }
  CHECK(distance(trained<ending_in<double, tied<"words", token_head<7, no_bias, slices<4>>, "weight">>>(plan_of(3)),
                 trained<ending_in<double, tied<"words", token_head<7, no_bias>>>>(plan_of(1))) < 1e-12);
}

TEST_CASE("the owner's gradient is its own and those of the slices, each at its rows") {
  const auto data = texts<float>(13);
  trainer<apart<float>, sgd> own(plan_of(2), sgd{.learning_rate = 0});
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<sliced<float>, sgd> t(plan_of(S), sgd{.learning_rate = 0});
    for (auto& p : own.parameters()) p.set(t.parameter(p.path));
    t.step(data.all());
    own.step(data.all());
    std::vector<float> expected = own.array("0.weight").gradient();
    for (int i = 0; i < 3; ++i) {
      const auto more = own.array(names[static_cast<std::size_t>(i)]).gradient();
      REQUIRE(more.size() == static_cast<std::size_t>((rows[i + 1] - rows[i]) * width));
      for (std::size_t j = 0; j < more.size(); ++j) expected[static_cast<std::size_t>(rows[i] * width) + j] += more[j];
    }
    CHECK(t.array("0.weight").gradient() == expected);
    for (int i = 0; i < 3; ++i) CHECK(t.array(names[static_cast<std::size_t>(i)]).gradient() == rows_of(expected, i));
  }
}

TEST_CASE("every cut, schedule and recompute mode has the same bits, in one precision or in two") {
  for (const test_model* model : {&models::rows, &models::rows_bf16}) {
    same_bits law{.model = *model,
                  .sizes = {13},
                  .micro_batches = 4,
                  .how = {.seed = 4, .max_grad_norm = 0.1, .average_weights = 0.9},
                  .accumulates = true};
    for (int S = 1; S <= model->layers(); ++S)
      for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
        for (const auto recompute : {recompute_mode::never, recompute_mode::always})
          law.holds({{.stages = S, .recompute = recompute, .schedule = schedule}});
  }
}

TEST_CASE("a plan that the compiler has made has the same bits") {
  using made = plan<sliced<float>, stages<3>, micro_batches<4>, micro_batch_size<4>, optimizer<adam>>;
  const auto data = texts<float>(13);
  trainer<sliced<float>, adam> compiled(made{}), at_run_time(plan_of(2));
  for (int i = 0; i < 2; ++i) CHECK(compiled.step(data.all()).loss == at_run_time.step(data.all()).loss);
  CHECK(state_of(compiled) == state_of(at_run_time));
}

TEST_CASE("replicas have the bits of one, and agree") {
  const auto data = texts<float>(26);
  for (const int S : {1, 3}) {
    CAPTURE(S);
    plan_options options = plan_of(S);
    options.replicas = 2;
    options.micro_batches = 2;
    trainer<sliced<float>, adam> t(options, adam{}, {.seed = 4, .max_grad_norm = 0.1});
    trainer<sliced<float>, adam> one(plan_of(1), adam{}, {.seed = 4, .max_grad_norm = 0.1});
    for (int i = 0; i < 3; ++i)
      CHECK(t.step(data.take(i, 16)).loss == doctest::Approx(one.step(data.take(i, 16)).loss).epsilon(1e-5));
    CHECK(replicas_agree(t));
    for (const std::string& name : names) CHECK(t.parameter(name) != std::vector<float>(t.parameter(name).size()));
  }
}

TEST_CASE("a slice's path names its rows: of values, gradients, moments and averages") {
  const auto data = texts<float>(13);
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<sliced<float>, adam> t(plan_of(S), adam{}, {.average_weights = 0.5});
    t.step(data.all());
    const auto owner = t.array("0.weight");
    const auto check = [&] {
      for (int i = 0; i < 3; ++i) {
        const auto part = t.array(names[static_cast<std::size_t>(i)]);
        CHECK(part.extents == std::vector<int>{rows[i + 1] - rows[i], width});
        CHECK(part.owner == embedded);
        CHECK(part.values() == rows_of(owner.values(), i));
        CHECK(part.gradient() == rows_of(owner.gradient(), i));
        CHECK(part.average() == rows_of(owner.average(), i));
        CHECK(part.moment(1) == rows_of(owner.moment(1), i));
      }
    };
    check();
    auto expected = owner.values();
    std::vector<float> other(2 * width);
    for (std::size_t i = 0; i < other.size(); ++i) other[i] = static_cast<float>(i) / 8;
    std::copy(other.begin(), other.end(), expected.begin() + rows[1] * width);
    t.array(names[1]).set(other);
    t.array(names[2]).set_moment(0, other);
    CHECK(owner.values() == expected);
    check();
    // The next pass has the new rows.
    trainer<sliced<float>, adam> direct(plan_of(1));
    for (auto& p : direct.parameters())
      if (p.owner == p.layer_index) p.set(t.parameter(p.path));
    CHECK(t.evaluate(data.all()).loss == direct.evaluate(data.all()).loss);
    try {
      t.array(names[1]).set(expected);
      FAIL("a slice takes all rows");
    } catch (const error& e) {
      CHECK(std::string(e.what()).find("\"weight\" has 12 elements, not 42") != std::string::npos);
    }
  }
}

TEST_CASE("the weight counts once in a norm, and its memory is there once, beside a copy of each slice's rows") {
  const auto data = texts<float>(13);
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<sliced<float>, adam> t(plan_of(S));
    const step_result found = t.step(data.all());
    double squares = 0;
    for (auto& p : t.parameters())
      if (p.owner == p.layer_index)
        for (const float g : p.gradient()) squares += static_cast<double>(g) * static_cast<double>(g);
    CHECK(found.norm == doctest::Approx(std::sqrt(squares) / found.weight).epsilon(1e-5));
    std::int64_t parameters = 0, moments = 0, tied = 0;
    for (int s = 0; s < S; ++s) {
      parameters += t.plan().memory(s).of(memory_kind::parameters);
      moments += t.plan().memory(s).of(memory_kind::moments);
      tied += t.plan().memory(s).of(memory_kind::tied);
    }
    CHECK(moments == 2 * parameters);
    CHECK(parameters < static_cast<std::int64_t>(sizeof(float) * n.parameters()) + 64 * 16);
    CHECK(tied == 2 * (128 + 64 + 64));  // values and gradients, in whole lines
  }
}

TEST_CASE("a slice frozen, or in a group, is the whole weight") {
  const auto data = texts<float>(13);
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<sliced<float>, adam> t(plan_of(S));
    const auto weight = t.parameter("0.weight"), bias = t.parameter("head.slice1.bias");
    t.freeze(first_slice + 1);
    t.step(data.all());
    CHECK(t.parameter("0.weight") == weight);
    CHECK(t.parameter("head.slice1.bias") == bias);
    for (const float g : t.array(names[2]).gradient()) CHECK(g == 0);
    t.unfreeze(first_slice + 1);
    t.step(data.all());
    CHECK(t.parameter("0.weight") != weight);
    CHECK(t.parameter("head.slice1.bias") != bias);

    trainer<sliced<float>, adafactor> grouped(
        plan_of(S), adafactor{},
        {.groups = {{.parameters = {"head.slice2.weight"}, .frozen = true}, {.parameters = {"*.bias"}}}});
    for (auto& p : grouped.parameters()) CHECK(p.group == (p.owner == embedded ? 0 : p.name.ends_with("bias") ? 1 : 2));
    const auto before = grouped.parameter("0.weight");
    grouped.step(data.all());
    CHECK(grouped.parameter("0.weight") == before);
  }
}

TEST_CASE("a checkpoint has the weight once, and loads in another plan") {
  const auto data = texts<float>(13);
  const temporary_folder folder;
  const training_options how{.seed = 5, .average_weights = 0.9};
  trainer<sliced<float>, adafactor> saved(plan_of(3), adafactor{}, how);
  saved.step(data.all());
  saved.save(folder.path());
  saved.save(folder.beside("alone.safetensors"));
  const std::string alone = temporary_folder::read_file(folder.beside("alone.safetensors"));
  for (const std::string& text : {folder.read("step-00000001/model.safetensors"), alone}) {
    CHECK(text.find("\"0.weight\"") != std::string::npos);
    CHECK(text.find("\"head.slice1.bias\"") != std::string::npos);
    for (const std::string& name : names) CHECK(text.find(name) == std::string::npos);
  }
  saved.step(data.all());
  for (const int S : some_stages)
    for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::zb_h1}) {
      CAPTURE(S);
      trainer<sliced<float>, adafactor> other(plan_of(S, schedule), adafactor{}, {.seed = 7, .average_weights = 0.9});
      other.load(folder.path());
      other.step(data.all());
      CHECK(state_of(other) == state_of(saved));
      trainer<sliced<float>, adafactor> third(plan_of(S), adafactor{}, {.seed = 8});
      third.load(folder.beside("alone.safetensors"));
      trainer<sliced<float>, adafactor> fourth(plan_of(1), adafactor{}, {.seed = 9});
      fourth.load(folder.beside("alone.safetensors"));
      CHECK(third.step(data.all()).loss == fourth.step(data.all()).loss);
      CHECK(third.parameter_hash() == fourth.parameter_hash());
    }
}

TEST_CASE("weights go from a whole tied head to one in slices, and back, as a part of a file") {
  const temporary_folder folder;
  using without_bias = ending_in<float, tied<"words", token_head<7, no_bias, slices<3>>>>;
  using whole_without_bias = ending_in<float, tied<"words", token_head<7, no_bias>>>;
  trainer<whole_without_bias, adamw> one(plan_of(2), {}, {.seed = 5});
  one.step(texts<float>(13).all());
  one.save(folder.beside("whole.safetensors"));
  trainer<without_bias, adamw> cut(plan_of(3), {}, {.seed = 6});
  CHECK_THROWS_AS(cut.load(folder.beside("whole.safetensors")), error);
  cut.load(folder.beside("whole.safetensors"), load_mode::partial);
  CHECK(cut.parameter_hash() == one.parameter_hash());
  cut.save(folder.beside("cut.safetensors"));
  trainer<whole_without_bias, adamw> back(plan_of(1), {}, {.seed = 7});
  back.load(folder.beside("cut.safetensors"), load_mode::partial);
  CHECK(back.parameter_hash() == one.parameter_hash());
}
