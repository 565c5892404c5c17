// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <bit>

#include "support/attended.hpp"
#include "support/imaged.hpp"
#include "support/sanitized.hpp"

using namespace laws;

namespace {

/// The bits of a training: each step's result, every gradient, parameter, moment and state, and an evaluation.
using bits = std::vector<std::uint64_t>;

void add(bits& to, const step_result& found) {
  for (const double x : {found.loss, found.weight, found.correct, found.norm})
    to.push_back(std::bit_cast<std::uint64_t>(x));
  to.push_back(static_cast<std::uint64_t>(found.samples));
  for (const loss_result& it : found.auxiliary_losses())
    for (const double x : {it.loss, it.weight}) to.push_back(std::bit_cast<std::uint64_t>(x));
}

struct setting {
  int S = 1;
  std::vector<int> cut{};
  recompute_mode recompute = recompute_mode::always;
  std::size_t trace_events = 0;
  std::byte fill{0xff};  // all bits set are NaN: a read of unwritten memory shows
  schedule_choice schedule{};
  std::int64_t memory_limit = no_memory_limit;
  bool canary = true;
  digest* hashes = nullptr;  // of all computed values, if not null
  int replicas = 1;
  int group_gradients = 0;
};

/// Three steps over `sizes` samples each, at M = 5.
template <template <class> class Net, class T, class Optimizer, class Data>
bits train(const setting& as, const Data& data, double clip, std::initializer_list<int> sizes, int M = 5) {
  training_options how;
  how.seed = 11;
  how.max_grad_norm = clip;
  how.cut = as.cut;
  how.trace_events = as.trace_events;
  how.arena_fill = as.fill;
  how.canary = as.canary;
  how.digest_calls = as.hashes == nullptr ? 0 : sizes.size();
  const plan_options options{.stages = as.S,
                             .micro_batches = M,
                             .micro_batch_size = 4,
                             .recompute = as.recompute,
                             .schedule = as.schedule.kind,
                             .chunks = as.schedule.chunks,
                             .warmup = as.schedule.warmup,
                             .workers = as.schedule.onto,
                             .replicas = as.replicas,
                             .custom_schedule = as.schedule.custom,
                             .group_gradients = as.group_gradients,
                             .memory_limit = as.memory_limit};
  trainer<Net<T>, Optimizer> training(options, Optimizer{.learning_rate = 0.05}, how);
  bits found;
  int first = 0;
  for (const int size : sizes) {
    add(found, training.step(data.take(first, size)));
    found.push_back(gradients_of(training));
    found.push_back(state_of(training));
    CHECK(replicas_agree(training));
    first += size;
  }
  add(found, training.evaluate(data.take(0, (std::min)(9, 4 * M))));
  found.push_back(training.parameter_hash());
  if (as.hashes != nullptr) *as.hashes = training.digest();
  return found;
}

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never};
constexpr int groups[] = {2, 3, 5}, worker_counts[] = {1, 2, 3};

/// S stages from the best cut, and from unbalanced ones: one layer per stage, the rest in the last, or in the first.
template <template <class> class Net, class T, class Optimizer, class Data>
void holds_for_stages(const Data& data, double clip) {
  constexpr int L = layers_of<Net<T>>;
  // 13 samples are 3 + 3 + 3 + 3 + 1; 4 are fewer than M, 1 is fewer than most S.
  const auto run = [&](const setting& as) { return train<Net, T, Optimizer>(as, data, clip, {13, 4, 1}); };
  const bits expected = run({.fill = std::byte{0}});
  CHECK(expected != train<Net, T, Optimizer>({}, data, clip, {13, 4, 2}));
  for (const int S : {1, 2, 3, 4, 8, L}) {
    CAPTURE(S);
    for (const recompute_mode mode : in_turn(modes, S)) CHECK(run({S, {}, mode}) == expected);
    CHECK(run({.S = S, .recompute = recompute_mode::except_last, .trace_events = 50, .canary = false}) == expected);
    for (const int G : in_turn(groups, S))  // with canaries a kernel takes one micro-batch at a time
      for (const bool canary : {true, false})
        CHECK(run({.S = S, .recompute = recompute_mode::never, .canary = canary, .group_gradients = G}) == expected);
    std::vector<int> front, back;
    for (int s = 1; s < S; ++s) front.push_back(s), back.push_back(L - S + s);
    for (const recompute_mode mode : in_turn(modes, S + 1)) {
      CHECK(run({S, front, mode}) == expected);
      CHECK(run({S, back, mode}) == expected);
    }
  }
}

/// All 2^(L - 1) cuts. 2 samples are 1 + 1 and an empty micro-batch, which must not be read.
template <template <class> class Net, class T, class Data>
void holds_for_every_cut(const Data& data) {
  constexpr int L = layers_of<Net<T>>;
  const auto run = [&](const setting& as) { return train<Net, T, adam>(as, data, 0.1, {2, 5}, 3); };
  digest hashes, others;
  const bits expected = run({.fill = std::byte{0}, .hashes = &hashes});
  CHECK(hashes.calls() == 2);
  for (unsigned mask = 0; mask < 1u << (L - 1); mask += cut_step) {
    std::vector<int> cut;
    for (int l = 1; l < L; ++l)
      if (mask >> (l - 1) & 1u) cut.push_back(l);
    const int S = static_cast<int>(cut.size()) + 1;
    const bool same = run({.S = S, .cut = cut, .recompute = modes[mask % 3], .hashes = &others}) == expected &&
                      !first_difference(hashes, others);
    CAPTURE(cut);
    CAPTURE(static_cast<int>(modes[mask % 3]));
    CHECK(same);
  }
}

/// A custom schedule: 1F1B with one more forward before the first backward.
struct eager {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "eager"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return one_f_one_b::ticks(stages + 1, micro_batches); }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return one_f_one_b::in_flight(stages + 1, micro_batches, stage);
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    return one_f_one_b::at(stages + 1, micro_batches, worker, tick);
  }
};

/// Two stages, and only the second has backward in two parts: it postpones all parameter parts.
///
///     F0  .  F1  B0 F2  B1  .  B2  .  .
///      . F0  I0  F1 I1  F2 I2  P0 P1 P2
struct parted_behind {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "parted behind"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 2 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int, int micro_batches) { return 3 * micro_batches + 1; }
  static constexpr int in_flight(int, int micro_batches, int stage) {
    return stage == 0 && micro_batches > 2 ? 2 : micro_batches;
  }
  static constexpr cell at(int, int M, int worker, int tick) {
    const int t = tick - worker, m = t / 2;
    if (worker == 0 && t % 2 != 0) return t >= 3 && m <= M ? cell{action_kind::backward, 0, m - 1} : cell{};
    if (worker == 1 && t >= 2 * M) return {action_kind::backward_parameters, 1, t - 2 * M};
    if (t < 0 || m >= M) return {};
    return {t % 2 == 0 ? action_kind::forward : action_kind::backward_input, worker, m};
  }
};

// change: a schedule
/// Every schedule that trains, some with other parameters, and custom ones.
const std::vector<schedule_choice> trained = [] {
  std::vector<schedule_choice> all{{schedule_kind::interleaved, 4},    interleaved{2, warmup_kind::longest},
                                   {schedule_kind::looped_bfs, 4},     {schedule_kind::interleaved_zb, 4},
                                   {custom_schedule_of<eager>, false}, {custom_schedule_of<parted_behind>, true}};
  for (const schedule_kind kind : schedule_kinds)
    if (kind != schedule_kind::forward_only) all.push_back(kind);
  return all;
}();

/// The largest stage of a plan, in bytes.
template <class Net>
std::int64_t largest_stage(plan_options options) {
  std::int64_t largest = 0;
  for (const stage_plan& s : make_plan(network_of<Net>, options).stage_plans)
    largest = (std::max)(largest, s.memory.total());
  return largest;
}

/// Recompute as needed, with memory for the fewest working sets, and for half of those that `never` keeps.
template <class Net>
std::vector<std::int64_t> limits(int S, int M, const schedule_choice& schedule) {
  plan_options o{.stages = S, .micro_batches = M, .micro_batch_size = 4, .schedule = schedule.kind};
  o.chunks = schedule.chunks, o.warmup = schedule.warmup, o.custom_schedule = schedule.custom;
  o.recompute = recompute_mode::always;
  const std::int64_t min_bytes = largest_stage<Net>(o);
  o.recompute = recompute_mode::never;
  return {min_bytes, (min_bytes + largest_stage<Net>(o)) / 2};
}

template <template <class> class Net, class T, class Data>
void holds_for_schedules(const Data& data) {
  for (const int M : {1, 3, 8}) {
    const auto run = [&](const setting& as) { return train<Net, T, adam>(as, data, 0.1, {4 * M - 1, 2, 1}, M); };
    const bits expected = run({.fill = std::byte{0}});
    for (const schedule_choice& schedule : trained)
      for (const int S : {1, 2, 3, 4, 8}) {
        if (!schedule.admits(S, M) || left_out(static_cast<int>(&schedule - trained.data()) + S + M)) continue;
        CAPTURE(schedule.name());
        CAPTURE(S);
        CAPTURE(M);
        for (const recompute_mode mode : in_turn(modes, S + M))
          CHECK(run({.S = S, .recompute = mode, .schedule = schedule}) == expected);
        for (const int W : in_turn(worker_counts, S + M))
          if (W < schedule.workers(S))
            CHECK(run({.S = S, .recompute = modes[W % 3], .schedule = schedule.on_workers(W)}) == expected);
        for (const std::int64_t limit : limits<Net<T>>(S, M, schedule)) {
          if (sanitized && M != 3) continue;
          CAPTURE(limit);
          CHECK(run({.S = S, .recompute = recompute_mode::as_needed, .schedule = schedule, .memory_limit = limit}) ==
                expected);
        }
      }
  }
}

/// At a fixed number of replicas: any S, schedule, number of workers, recompute.
template <template <class> class Net, class T, class Optimizer>
void holds_for_replicas(const samples<compute_type<T>>& data) {
  for (const int R : {2, 3}) {
    digest hashes, others;
    const auto run = [&](setting as, digest& found) {
      as.hashes = &found;
      as.replicas = R;
      return train<Net, T, Optimizer>(as, data, 0.1, {13, R, 4 * R + 1}, 3);
    };
    const bits expected = run({.fill = std::byte{0}}, hashes);
    CHECK(hashes.calls() == 3);
    for (const schedule_choice& schedule : trained)
      for (const int S : {1, 2, 4, layers_of<Net<T>>}) {
        if (!schedule.admits(S, 3) || left_out(static_cast<int>(&schedule - trained.data()) + S + R)) continue;
        CAPTURE(R);
        CAPTURE(S);
        CAPTURE(schedule.name());
        CHECK(run({.S = S, .recompute = modes[S % 3], .schedule = schedule}, others) == expected);
        CHECK_FALSE(first_difference(hashes, others));
        if (S == 4) CHECK(run({.S = S, .trace_events = 50, .schedule = schedule.on_workers(1)}, others) == expected);
        if (schedule.kind == schedule_kind::fill_drain)
          CHECK(run({.S = S, .recompute = recompute_mode::never, .canary = false, .group_gradients = 2}, others) ==
                expected);
      }
  }
}

struct shared
    : model<input<float, 12>, tied<"w", linear<12>>, gelu, tied<"w", linear<12>>, linear<7>, softmax_cross_entropy> {};
struct untied : model<input<float, 12>, linear<12>, gelu, linear<12>, linear<7>, softmax_cross_entropy> {};
struct residuals
    : model<input<float, 12>, linear<8>, residual<layer_norm, linear<8>, gelu>, linear<7>, softmax_cross_entropy> {};
struct skips : model<input<float, 12>, linear<8>, stash<"x">, layer_norm, linear<8>, gelu, pop<"x">, gpipe::add,
                     linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("a residual network: the same bits for every S, recompute, trace") {
  holds_for_stages<residual_net, float, adam>(samples<float>(19, 12, 1), 0.1);
  if (!sanitized) holds_for_stages<residual_net, double, sgd>(samples<double>(19, 12, 1), 0.1);
}

TEST_CASE("as needed without recompute, gradients of several micro-batches together: the same bits") {
  const samples<float> data(19, 12, 1);
  const auto run = [&](const setting& as) { return train<broad_net, float, adam>(as, data, 0.1, {13, 4, 1}); };
  const bits expected = run({.fill = std::byte{0}});
  for (const int S : {1, 2, 3}) {
    plan_options o{.stages = S, .micro_batches = 5, .micro_batch_size = 4, .recompute = recompute_mode::never};
    const std::int64_t all = largest_stage<broad_net<float>>(o);
    o.recompute = recompute_mode::as_needed;
    for (const std::int64_t limit : {no_memory_limit, all, all - 1}) {
      CAPTURE(S);
      CAPTURE(limit);
      o.memory_limit = limit;
      const step_plan plan = make_plan(network_of<broad_net<float>>, o);
      CHECK((limit < all ? plan.group_gradients < 5 : plan.group_gradients == 5));
      for (const bool canary : {true, false})
        CHECK(run({.S = S, .recompute = o.recompute, .memory_limit = limit, .canary = canary}) == expected);
    }
  }
}

TEST_CASE("values with several readers and none, batch norm, attention, feature maps: the same bits for every cut") {
  holds_for_every_cut<skip_net, float>(samples<float>(9, 12, 2));
  holds_for_every_cut<pair_net, double>(samples<double>(9, 12, 1));
  holds_for_every_cut<integer_net, float>(samples<float, std::int32_t>(9, 3, 1));
  holds_for_every_cut<attended_net, float>(token_samples<float>(9));
  holds_for_every_cut<image_net, float>(samples<float>(9, 12, 1));
}

TEST_CASE("losses in the middle of a model change no bit, wherever they are cut off") {
  holds_for_every_cut<losses_net, float>(samples<float>(9, 12, 1));
  holds_for_stages<losses_net, bf16, adam>(samples<float>(19, 12, 1), 0.1);
}

TEST_CASE("tied parameters, a head in slices: the same bits for every S, recompute, trace, cut and schedule") {
  const samples<float, std::int32_t> data(19, 3, 3);
  holds_for_stages<tied_net, float, adam>(samples<float>(19, 12, 1), 0.1);
  holds_for_stages<headed_net, float, adam>(data, 0.1);
  holds_for_stages<sliced_net, float, adam>(data, 0.1);
  holds_for_every_cut<sliced_net, float>(data);
  holds_for_every_cut<sliced_net, bf16>(data);
  if (!sanitized) holds_for_schedules<sliced_net, float>(samples<float, std::int32_t>(40, 3, 3));
}

TEST_CASE("in bf16: the same bits for every S, recompute, trace, cut and schedule") {
  holds_for_every_cut<skip_net, bf16>(samples<float>(9, 12, 2));
  if (sanitized) return;
  holds_for_stages<residual_net, bf16, adam>(samples<float>(19, 12, 1), 0.1);
  holds_for_every_cut<pair_net, bf16>(samples<float>(9, 12, 1));
  holds_for_stages<attended_net, bf16, adam>(token_samples<float>(19), 0.1);
  holds_for_schedules<tied_net, bf16>(samples<float>(40, 12, 1));
}

TEST_CASE("a tied parameter's gradient is the sum over its uses, and counts once in the norm") {
  const samples<float> data(16, 12, 1);
  for (const int S : {1, 2, 4}) {
    const plan_options options{.stages = S, .micro_batches = 4, .micro_batch_size = 4};
    trainer<shared, sgd> one(options);
    trainer<untied, sgd> two(options);
    for (const char* which : {"weight", "bias"}) {
      for (const int layer : {0, 2}) two.array(layer, which).set(one.parameter(0, which));
      two.array(3, which).set(one.parameter(3, which));
    }
    const auto before = one.parameter(0, "weight");
    const step_result found = one.step(data.all());
    CHECK(found.loss == two.step(data.all()).loss);
    double square = 0;
    for (const int l : {0, 3})
      for (const char* which : {"weight", "bias"}) {
        const auto sum = one.array(l, which).gradient(), first = two.array(l, which).gradient(),
                   second = two.array(2, which).gradient();
        for (std::size_t i = 0; i < sum.size(); ++i) {
          CHECK(sum[i] == (l == 0 ? first[i] + second[i] : first[i]));
          square += static_cast<double>(sum[i]) * static_cast<double>(sum[i]);
        }
      }
    CHECK(found.norm == doctest::Approx(std::sqrt(square) / found.weight));
    CHECK(one.parameter(0, "weight") == one.parameter(2, "weight"));
    CHECK(one.array(0, "weight").gradient() == one.array(2, "weight").gradient());
    CHECK(one.parameter(0, "weight") != before);
  }
}

TEST_CASE("every schedule, also a custom one: the same bits, at every recompute mode") {
  holds_for_schedules<tied_net, float>(samples<float>(40, 12, 1));
  if (!thread_sanitized) holds_for_schedules<skip_net, double>(samples<double>(40, 12, 2));
  if (!sanitized) holds_for_schedules<attended_net, float>(token_samples<float>(40));
  if (!sanitized) holds_for_schedules<headed_net, float>(samples<float, std::int32_t>(40, 3, 3));
}

TEST_CASE("stages of one worker with an undivided backward: nothing is poisoned that they read") {
  const samples<float> data(19, 12, 1);
  const auto run = [&](const setting& as) { return train<residual_net, float, adam>(as, data, 0.1, {13, 4}, 6); };
  for (const int S : {2, 3}) CHECK(run({.S = S, .schedule = {schedule_kind::interleaved, S}}) == run({}));
}

TEST_CASE("replicas: the same bits for every S, schedule, number of workers, recompute, and in each replica") {
  holds_for_replicas<tied_net, float, adam>(samples<float>(60, 12, 1));
  holds_for_replicas<residual_net, float, sgd>(samples<float>(60, 12, 1));
  if (!thread_sanitized) holds_for_replicas<skip_net, double, adam>(samples<double>(60, 12, 2));
  if (!thread_sanitized) holds_for_replicas<image_net, float, adam>(samples<float>(60, 12, 1));
  if (!sanitized) holds_for_replicas<tied_net, bf16, adam>(samples<float>(60, 12, 1));
}

TEST_CASE("a residual written as a skip has the residual's bits") {
  const samples<float> data(16, 12, 1);
  const auto run = [&]<class Net>(Net, std::vector<int> cut) {
    training_options how;
    how.cut = std::move(cut);
    const int S = static_cast<int>(how.cut.first().size()) + 1;
    trainer<Net, adam> training(plan_options{.stages = S, .micro_batches = 4, .micro_batch_size = 4}, adam{}, how);
    training.step(data.all());
    return state_of(training) ^ gradients_of(training);
  };
  const auto expected = run(residuals{}, {});
  for (const std::vector<int>& cut : {std::vector<int>{}, {1, 2, 3, 4}, {1, 4}, {2, 3}}) {
    CHECK(run(skips{}, cut) == expected);
    CHECK(run(residuals{}, cut) == expected);
  }
}

namespace {

void add(bits& to, const tensor_rows& rows) {
  to.push_back(static_cast<std::uint64_t>(rows.samples()));
  for (int t = 0; t < rows.tensors(); ++t) {
    const auto all = std::as_bytes(rows.all(t));
    gpipe::detail::hash sum;
    sum.add(all.data(), all.size());
    to.push_back(sum.value());
  }
}

/// Two calls and the step over both, with frozen and watched layers; then a short step without; predictions.
template <class Net>
bits train_in_parts(const samples<float>& data, const plan_options& options, const digest* expected, digest* found) {
  training_options how;
  how.seed = 11;
  how.max_grad_norm = 0.1;
  how.arena_fill = std::byte{0xff};
  how.digest_calls = 3;
  trainer<Net, adam> training(options, adam{.learning_rate = 0.05}, how);
  bits all;
  constexpr int watched[] = {0, 4, 7, layers_of<Net> - 2};
  for (const int layer : watched) training.watch(layer);
  const auto record = [&] {
    all.push_back(gradients_of(training));
    all.push_back(state_of(training));
    CHECK(replicas_agree(training));
    for (const int layer : watched) add(all, training.activation(layer)), add(all, training.activation_gradient(layer));
  };
  training.freeze(3, 6);
  add(all, training.accumulate(data.take(0, 9)));
  record();
  training.freeze(layers_of<Net> - 4, layers_of<Net> - 3);
  add(all, training.accumulate(data.take(9, 3)));
  record();
  add(all, training.step(data.take(12, 6)));
  record();
  training.unfreeze(0, layers_of<Net>);
  add(all, training.step(data.take(19 - options.replicas, options.replicas), 0.01));
  record();
  add(all, training.predict(dataset{}.with("inputs", 12, data.inputs)));
  CHECK(training.digest().calls() == 3);
  if (expected != nullptr) CHECK_FALSE(first_difference(*expected, training.digest()));
  if (found != nullptr) *found = training.digest();
  return all;
}

/// One step over the first 17 samples, in calls of `sizes`, with micro-batches of at most 3.
template <class Net>
bits step_in_calls(const samples<float>& data, int S, int M, std::initializer_list<int> sizes) {
  training_options how;
  how.max_grad_norm = 0.1;
  trainer<Net, adam> training(plan_options{.stages = S, .micro_batches = M, .micro_batch_size = 3},
                              adam{.learning_rate = 0.05}, how);
  bits found;
  int first = 0;
  for (const int size : sizes) {
    if (first + size < 17) training.accumulate(data.take(first, size));
    else add(found, training.step(data.take(first, size)));
    first += size;
  }
  found.push_back(gradients_of(training));
  found.push_back(state_of(training));
  return found;
}

template <class Net>
void holds_in_parts(int replicas = 1) {
  const samples<float> data(19, 12, 1);
  digest hashes;
  plan_options options{
      .micro_batches = 5, .micro_batch_size = 4, .recompute = recompute_mode::never, .replicas = replicas};
  const bits expected = train_in_parts<Net>(data, options, nullptr, &hashes);
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_v})
    for (const int S : {1, 2, 3, 4, 8, layers_of<Net>})
      for (const recompute_mode mode : in_turn(modes, S)) {
        options.stages = S, options.schedule = schedule, options.recompute = mode;
        if (!options.chosen_schedule().admits(S, 5)) continue;
        INFO("stages ", S, ", ", name_of(schedule));
        CHECK(train_in_parts<Net>(data, options, &hashes, nullptr) == expected);
      }
}

}  // namespace

TEST_CASE("accumulated calls, frozen and watched layers, predictions, hashes: the same bits for every S, recompute") {
  holds_in_parts<residual_net<float>>();
}

TEST_CASE("accumulated calls with batch norm and tied parameters: the same bits") { holds_in_parts<tied_net<float>>(); }

TEST_CASE("accumulated calls with replicas: the same bits") {
  holds_in_parts<tied_net<float>>(2);
  holds_in_parts<residual_net<float>>(3);
}

TEST_CASE("calls with the micro-batches of one larger step equal that step, to the bit") {
  const samples<float> data(19, 12, 1);
  const auto holds = [&]<class Net>(Net) {  // with dropout, and weights other than 1
    const bits whole = step_in_calls<Net>(data, 1, 6, {17});
    for (const int S : {1, 2, 5}) {
      CHECK(step_in_calls<Net>(data, S, 2, {6, 6, 5}) == whole);
      CHECK(step_in_calls<Net>(data, S, 3, {9, 8}) == whole);
      CHECK(step_in_calls<Net>(data, S, 3, {3, 9, 5}) != whole);  // micro-batches of 1 sample
    }
  };
  holds(residual_net<float>{}), holds(tied_net<float>{});
}
