// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/job.hpp>
#include <gpipe/layer/linear/bias.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/larger_error.hpp"
#include "support/models.hpp"
#include "support/nets.hpp"
#include "support/temporary_folder.hpp"
#include "support/threaded_job.hpp"
#include "support/training_bits.hpp"

// Parameters are tied one by one, by their names: an embedding and a head share a weight, and the head has a bias of
// its own. Each use has its own gradients, the first user owns values and moments, the sum counts once in a norm.

using namespace laws;

namespace {

template <class T>
using net = headed_net<T>;
constexpr const network& n = network_of<net<float>>;
constexpr int embedded = 0, square = 1, later = 9, head = 10;
static_assert(n.layer_count == 11 && n.parameters() == 7 * 8 + (64 + 8) + 2 * (8 + 2 * 8 * 20 + 28) + 16 + 64 + 7);

template <class T>
samples<T, std::int32_t> texts(int count) {
  return samples<T, std::int32_t>(count, 3, 3);
}
plan_options plan_of(int S, schedule_kind schedule = schedule_kind::fill_drain) {
  return {.stages = S, .micro_batches = 4, .micro_batch_size = 4, .schedule = schedule};
}
constexpr int some_stages[] = {1, 2, 3, layers_of<net<float>>};

}  // namespace

TEST_CASE("the gradient of every parameter is the difference quotient of the loss") {
  const auto data = texts<double>(13);
  trainer<net<double>, sgd> t(plan_of(3), sgd{.learning_rate = 0});
  const step_result found = t.step(data.all());
  int compared = 0;
  for (auto& p : t.parameters()) {
    CAPTURE(p.path);
    const auto gradient = p.template gradient<double>(), before = p.template values<double>();
    for (std::size_t i = 0; i < before.size(); i += 1 + before.size() / 7) {
      const auto loss_at = [&](double x) {
        auto moved = before;
        moved[i] = x;
        p.set(moved);
        return t.evaluate(data.all()).loss;
      };
      const double step = 1e-5;
      const double quotient = (loss_at(before[i] + step) - loss_at(before[i] - step)) / (2 * step);
      CHECK(gradient[i] / found.weight == doctest::Approx(quotient).epsilon(1e-4).scale(0.01));
      ++compared;
    }
    p.set(before);
  }
  CHECK(compared > 100);
}

TEST_CASE("a head with a bias of its own is a tied product and a bias behind it") {
  using tokens = input<std::int32_t, 3>;
  struct one : model<tokens, tied<"words", embedding<7, 8>>, gelu, tied<"words", linear<7>>, softmax_cross_entropy> {};
  struct two : model<tokens, tied<"words", embedding<7, 8>>, gelu, tied<"words", linear<7, no_bias>>, bias,
                     softmax_cross_entropy> {};
  static_assert(network_of<one>.parameters() == network_of<two>.parameters());
  const auto data = texts<float>(13);
  trainer<one, adam> a(plan_of(2), adam{.learning_rate = 0.05});
  trainer<two, adam> b(plan_of(3), adam{.learning_rate = 0.05});
  b.array("3.bias").set(a.parameter("2.bias"));
  for (int i = 0; i < 5; ++i) CHECK(a.step(data.all()).loss == doctest::Approx(b.step(data.all()).loss).epsilon(1e-5));
  const auto close = [](const std::vector<float>& x, const std::vector<float>& y) {
    double max = 0;
    for (std::size_t i = 0; i < x.size(); ++i) max = larger_error(max, std::abs(x[i] - y[i]));
    return x.size() == y.size() && max < 1e-4;
  };
  CHECK(close(a.parameter("0.weight"), b.parameter("0.weight")));
  CHECK(close(a.parameter("2.bias"), b.parameter("3.bias")));
}

TEST_CASE("the sum of all uses counts once in the norm, and moments exist once") {
  const auto data = texts<float>(13);
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<net<float>, adam> t(plan_of(S));
    const step_result found = t.step(data.all());
    double squares = 0;
    for (auto& p : t.parameters())
      if (p.owner == p.layer_index)
        for (const float g : p.gradient()) squares += static_cast<double>(g) * static_cast<double>(g);
    CHECK(found.norm == doctest::Approx(std::sqrt(squares) / found.weight).epsilon(1e-5));
    CHECK(t.array(embedded, "weight").gradient() == t.array(head, "weight").gradient());
    CHECK(t.array(embedded, "weight").moment(1) == t.array(head, "weight").moment(1));
    CHECK(t.parameter(embedded, "weight") == t.parameter(head, "weight"));
    CHECK(t.parameter(square, "bias") == t.parameter(later, "bias"));
    CHECK(t.parameter(square, "weight") != t.parameter(later, "weight"));
    std::int64_t parameters = 0, moments = 0;
    for (int s = 0; s < S; ++s) {
      parameters += t.plan().memory(s).of(memory_kind::parameters);
      moments += t.plan().memory(s).of(memory_kind::moments);
    }
    CHECK(moments == 2 * parameters);
    CHECK(parameters < static_cast<std::int64_t>(sizeof(float) * n.parameters()) + 64 * 20);
  }
}

TEST_CASE("gradients of several calls add up in the layer's own parameters, too") {
  const auto data = texts<float>(16);
  std::vector<float> expected;
  for (const int S : some_stages) {
    trainer<net<float>, adam> t(plan_of(S));
    t.accumulate(data.take(0, 8));
    const auto first = t.array(head, "bias").gradient();
    t.accumulate(data.take(8, 4));
    CHECK(t.array(head, "bias").gradient() != first);
    t.step(data.take(12, 4));
    const auto found = t.array(head, "bias").gradient();
    trainer<net<float>, adam> whole(plan_of(S));
    whole.step(data.all());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(whole.array(head, "bias").gradient()[i]).epsilon(1e-4));
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
}

TEST_CASE("what is frozen in one layer stays in all that share it, and the others' own parameters train") {
  const auto data = texts<float>(13);
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<net<float>, adam> t(plan_of(S));
    const auto weight = t.parameter(embedded, "weight"), bias = t.parameter(head, "bias");
    const auto frozen = [&](const char* path) {
      const auto all = t.parameters();
      return std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.path == path; })->frozen;
    };
    t.freeze(embedded);
    t.step(data.all());
    CHECK(t.parameter(head, "weight") == weight);
    CHECK(t.parameter(head, "bias") != bias);
    for (const float g : t.array(head, "weight").gradient()) CHECK(g == 0);
    CHECK(frozen("5.weight"));
    CHECK(!frozen("5.bias"));
    const auto moved = t.parameter(head, "bias");
    t.freeze(head);
    t.step(data.all());
    CHECK(t.parameter(embedded, "weight") == weight);
    CHECK(t.parameter(head, "bias") == moved);
    CHECK(frozen("5.bias"));
    t.unfreeze(embedded);
    t.step(data.all());
    CHECK(t.parameter(head, "weight") != weight);
    CHECK(t.parameter(head, "bias") == moved);
    t.unfreeze(head);
    t.step(data.all());
    CHECK(t.parameter(head, "bias") != moved);
    const auto before = t.parameter(embedded, "weight");
    t.freeze(head);  // a use that does not own the weight freezes it, too
    t.step(data.all());
    CHECK(t.parameter(embedded, "weight") == before);
  }
}

TEST_CASE("a group has a tied parameter at all its uses, and the layer's own apart") {
  const auto data = texts<float>(13);
  std::vector<std::uint64_t> expected;
  for (const int S : some_stages) {
    CAPTURE(S);
    trainer<net<float>, adafactor> t(
        plan_of(S), adafactor{},
        {.groups = {{.parameters = {"5.bias"}, .rate_factor = 0.5}, {.parameters = {"5.weight"}, .frozen = true}},
         .average_weights = 0.9});
    const auto weight = t.parameter(embedded, "weight"), bias = t.parameter(head, "bias");
    std::vector<std::uint64_t> bits;
    for (int i = 0; i < 3; ++i) t.step(data.all()), bits.push_back(state_of(t));
    CHECK(t.parameter(embedded, "weight") == weight);
    CHECK(t.parameter(head, "bias") != bias);
    for (auto& p : t.parameters()) CHECK(p.group == (p.path == "5.bias" ? 0 : p.owner == embedded ? 1 : 2));
    CHECK(t.group_summary().find("group 1: 1 array, 56 parameters") != std::string::npos);
    if (expected.empty()) expected = bits;
    CHECK(bits == expected);
  }
}

TEST_CASE("checkpoints have each use by its own name, and load with another plan") {
  const auto data = texts<float>(13);
  const temporary_folder folder;
  trainer<net<float>, adam> whole(plan_of(2), adam{}, {.seed = 5});
  for (int i = 0; i < 2; ++i) whole.step(data.all());
  whole.save(folder.path());
  const std::string model = folder.read("step-00000002/model.safetensors"),
                    optimizer = folder.read("step-00000002/optimizer.safetensors");
  for (const char* name : {"\"0.weight\"", "\"1.bias\"", "\"4.weight\"", "\"4.bias\"", "\"5.weight\"", "\"5.bias\""})
    CHECK(model.find(name) != std::string::npos);
  for (const char* name : {"\"0.weight.moment.0\"", "\"4.weight.moment.1\"", "\"5.bias.moment.1\""})
    CHECK(optimizer.find(name) != std::string::npos);
  for (const char* name : {"\"5.weight.moment.0\"", "\"4.bias.moment.0\""})
    CHECK(optimizer.find(name) == std::string::npos);
  whole.save(folder.beside("once.safetensors"), {.names = {.tied_once = true}});
  const std::string once = temporary_folder::read_file(folder.beside("once.safetensors"));
  CHECK(once.find("\"5.weight\"") == std::string::npos);
  CHECK(once.find("\"5.bias\"") != std::string::npos);
  whole.step(data.all());
  for (const int S : some_stages)
    for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::zb_h1}) {
      CAPTURE(S);
      trainer<net<float>, adam> other(plan_of(S, schedule), adam{}, {.seed = 77});
      other.load(folder.path());
      other.step(data.all());
      CHECK(state_of(other) == state_of(whole));
      other.load(folder.beside("once.safetensors"), {.names = {.tied_once = true}});
      trainer<net<float>, adam> third(plan_of(1));
      third.load(folder.path());
      CHECK(third.parameter_hash() == other.parameter_hash());
    }
  // Two names of one parameter must have the same values.
  const std::string file = folder.path() + "/step-00000002/model.safetensors";
  const std::vector<float> values = trainer<net<float>, adam>(plan_of(1)).parameter("5.weight");
  trainer<net<float>, adam> saved(plan_of(1));
  saved.load(file);
  std::string bytes = model;
  const auto words = saved.parameter("5.weight");
  const std::string_view of_words(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(float));
  bytes[bytes.rfind(of_words)] ^= 1;
  temporary_folder::write_file(folder.beside("twins.safetensors"), bytes);
  try {
    saved.load(folder.beside("twins.safetensors"));
    FAIL("two values of one parameter are taken");
  } catch (const error& e) {
    CHECK(std::string(e.what()).find("tensors \"0.weight\" and \"5.weight\" differ") != std::string::npos);
  }
}

namespace {

/// Steps, one of them with a frozen layer and one over accumulated gradients: every process of a job has the bits of
/// one process, with a worker each and with several. `more(training, found)` adds what else each of them has.
template <class More>
void a_job_has_the_bits_of_one(const test_model& model, plan_options options, int frozen, const More& more) {
  const int R = options.replicas;
  options.workers = options.stages;
  const auto bits_of = [&](process_group* here) {
    training_options how{.seed = 3, .max_grad_norm = 0.1, .arena_fill = std::byte{0xff}, .canary = true, .job = here};
    const auto t = model.trainer(options, how, rule::adam, 0.05);
    training_bits found;
    const auto step = [&] {
      append(found, t->step(model.take(0, 13 * R)));
      append(found, *t);
    };
    step();
    t->freeze(frozen);
    step();
    t->unfreeze(frozen);
    t->accumulate(model.take(13, 9));
    step();
    more(*t, found);
    append(found, t->evaluate(model.take(0, 9)));
    return found;
  };
  const auto expected = bits_of(nullptr);
  for (const int ranks : {R * options.workers, R * ((options.workers + 1) / 2)}) {
    threaded::job job(ranks);
    std::vector<training_bits> found(static_cast<std::size_t>(ranks));
    job.run([&](process_group& here) { found[static_cast<std::size_t>(here.rank())] = bits_of(&here); });
    for (const auto& of_rank : found) CHECK(of_rank == expected);
  }
}

}  // namespace

TEST_CASE("a job of processes has the bits of threads, also with replicas and with frozen parameters") {
  for (const int R : {1, 2})
    for (const int S : {2, 4, 5, 8}) {
      if (R * S > 10) continue;
      CAPTURE(R);
      CAPTURE(S);
      plan_options options = plan_of(S, schedule_kind::one_f_one_b);
      options.replicas = R;
      if (S < 5) a_job_has_the_bits_of_one(models::headed, options, embedded, [](auto&, auto&) {});
      if (S == 4) continue;
      a_job_has_the_bits_of_one(models::rows, options, 5, [](auto& t, auto& found) {  // frozen: the second slice
        const std::string names[] = {"head.slice0.weight", "head.slice1.weight", "head.slice2.weight"};
        for (const std::string& name : names)
          for (const float x : t.parameter(name)) found.push_back(std::bit_cast<std::uint32_t>(x));
        t.array(names[2]).set(std::vector<float>(12, 0.25F));
      });
    }
}
