// sanitizers: address

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/runtime/host_executor.hpp>

#include "support/attended.hpp"
#include "support/nets.hpp"
#include "support/pictured.hpp"
#include "support/sanitized.hpp"

#if defined(__GLIBC__) && !defined(TESTS_SANITIZED)
#define LAWS_COUNTED
// Counts every allocation of this program, on every thread.
namespace {
std::atomic<long> allocations{0};
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* old, std::size_t bytes) { return ++allocations, __libc_realloc(old, bytes); }
void* aligned_alloc(std::size_t boundary, std::size_t bytes) { return ++allocations, __libc_memalign(boundary, bytes); }
void* memalign(std::size_t boundary, std::size_t bytes) { return ++allocations, __libc_memalign(boundary, bytes); }
int posix_memalign(void** into, std::size_t boundary, std::size_t bytes) {
  ++allocations;
  *into = __libc_memalign(boundary, bytes);
  return *into == nullptr ? ENOMEM : 0;
}
}
#endif

using namespace laws;

namespace {

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never,
                                    recompute_mode::as_needed};

/// The lines (of `alignment` bytes) of each stage's arena, and of the bytes behind it, that a training has changed.
template <class Net, class Optimizer = adam, class Data>
std::vector<std::vector<bool>> touched(const plan_options& options, const Data& data, std::byte fill) {
  training_options how;
  how.arena_fill = fill;
  if (options.average_weights) how.average_weights = 0.9;
  trainer<Net, Optimizer> training(options, Optimizer{}, how);
  const batch all = data.take(0, options.micro_batches * options.micro_batch_size);
  for (int i = 0; i < 2; ++i) training.step(all);
  training.evaluate(all);
  std::vector<std::vector<bool>> lines;
  for (int s = 0; s < options.stages; ++s) {
    const auto& arena = training.executor().stage(s).arena();
    CHECK(arena.size() == static_cast<std::size_t>(training.plan().memory(s).total()));
    CHECK(arena.size() % gpipe::detail::alignment == 0);
    lines.emplace_back();
    for (std::size_t at = 0; at < arena.size() + gpipe::detail::alignment; at += gpipe::detail::alignment)
      lines.back().push_back(!std::all_of(arena.data() + at, arena.data() + at + gpipe::detail::alignment,
                                          [=](std::byte b) { return b == fill; }));
  }
  return lines;
}

/// Bytes of unused slots: if several stages skip to one, each link gets as many slots as the largest of them uses.
std::size_t spare_slots(const network& net, const runtime_plan& plan, int s) {
  const stage_view stage(net, plan.cut(), s);
  std::size_t bytes = 0;
  const auto taken = [&](int from, int to, bool back) {
    for (std::size_t k = 0; k < plan.links.size(); ++k)
      if (plan.links[k].from == from && plan.links[k].to == to) {
        const gpipe::detail::link_slots& its = plan.slots_of_links[k];
        const std::vector<int>& slots = back ? its.returned : its.stash;
        return *std::max_element(slots.begin(), slots.end()) + 1;
      }
    return 0;
  };
  for (const gpipe::detail::memory_block& b : plan.blocks[static_cast<std::size_t>(s)]) {
    if (b.value < 0 || (b.kind != memory_kind::stash && b.kind != memory_kind::returned)) continue;
    const int writer = plan.cut().stage_of(net.values[b.value].writer);
    if (b.kind == memory_kind::stash && writer < 0) continue;
    const int count = b.kind == memory_kind::stash ? taken(writer, s, false)
                                                   : taken(s, stage.return_stage(b.value, b.index), true);
    bytes += b.bytes * static_cast<std::size_t>(b.copies - count);
  }
  return bytes;
}

template <class Net, class Optimizer = adam, class Data>
void touches_what_is_predicted(const Data& data, schedule_kind schedule = schedule_kind::fill_drain, int coalesce = 0) {
  int turn = 0;
  for (const int S : {1, 2, 3, 4, 5, slots_of<Net>})
    for (const recompute_mode mode : modes)
      for (const int M : {1, 2, 3}) {
        const plan_options options{.stages = S,
                                   .micro_batches = M,
                                   .micro_batch_size = 3,
                                   .recompute = mode,
                                   .schedule = schedule,
                                   .coalesce = coalesce,
                                   .optimizer_moments = Optimizer::moments,
                                   .tensor_rule = gpipe::detail::tensor_memory<Optimizer>(),
                                   .average_weights = gpipe::tensor_rule<Optimizer>};
        if (coalesce > 1 && !options.may_coalesce()) continue;
        if (!options.chosen_schedule().admits(S, M)) continue;
        if (sanitized && mode != modes[(S + M) % 4]) continue;
        if (left_out(turn++)) continue;
        // A byte may equal the fill by chance, but not in both runs.
        const auto one = touched<Net, Optimizer>(options, data, std::byte{0xa5});
        const auto other = touched<Net, Optimizer>(options, data, std::byte{0x5a});
        for (std::size_t s = 0; s < one.size(); ++s) {
          std::size_t untouched = 0;
          for (std::size_t i = 0; i + 1 < one[s].size(); ++i) untouched += !one[s][i] && !other[s][i];
          CAPTURE(name_of(schedule));
          CAPTURE(S);
          CAPTURE(static_cast<int>(mode));
          CAPTURE(M);
          CAPTURE(s);
          const std::size_t last = one[s].size() - 1;
          CHECK((one[s][last - 1] || other[s][last - 1]));  // the highest predicted line
          CHECK(!(one[s][last] || other[s][last]));         // the first line behind it
          const runtime_plan plan = make_plan(network_of<Net>, options);
          const stage_memory& memory = plan.memory(static_cast<int>(s));
          CHECK(untouched * gpipe::detail::alignment <= static_cast<std::size_t>(memory.total() - memory.lower_bound) +
                                                            spare_slots(network_of<Net>, plan, static_cast<int>(s)));
        }
      }
}

template <class Plan>
void equals_the_plan_made_at_run_time() {
  const runtime_plan made = make_plan(network_of<typename Plan::model>, Plan::options);
  for (int s = 0; s < Plan::S; ++s) {
    CHECK(made.first[static_cast<std::size_t>(s)] == Plan::cut().first[s]);
    for (int kind = 0; kind < memory_kinds; ++kind)
      CHECK(made.memory(s).bytes[kind] == Plan::memory(s).bytes[kind]);
  }
}

template <int S>
void equals_in_each_mode() {
  using namespace gpipe;
  using net = residual_net<float>;
  equals_the_plan_made_at_run_time<plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>, optimizer<sgd>,
                                        gpipe::recompute<recompute_mode::always>>>();
  equals_the_plan_made_at_run_time<plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>>>();
  equals_the_plan_made_at_run_time<
      plan<net, stages<S>, micro_batches<3>, micro_batch_size<4>, gpipe::recompute<recompute_mode::never>>>();
}

/// A loss with field names too long for a small string.
struct verbose_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> : passing_loss::on<tensor<T, N>> {
    static constexpr field fields[] = {
        {"the class that each of the samples belongs to", 1, dtype::int32, N},
        {"how much each of the samples counts in the loss", 1, dtype_of<compute_type<T>>, 0, true}};
  };
};
struct verbose_net : model<input<float, 12>, linear<12>, halve, cross, join, verbose_loss> {};

}  // namespace

TEST_CASE("a stage uses its predicted memory: all of the arena, and nothing behind it") {
  touches_what_is_predicted<residual_net<float>>(samples<float>(9, 12, 1));
  touches_what_is_predicted<skip_net<float>>(samples<float>(9, 12, 2));
  touches_what_is_predicted<pair_net<double>>(samples<double>(9, 12, 1));
  touches_what_is_predicted<integer_net<float>>(samples<float, std::int32_t>(9, 3, 1));
  touches_what_is_predicted<token_net<float>>(samples<float, std::int32_t>(9, 3, 1));
  touches_what_is_predicted<headed_net<float>>(samples<float, std::int32_t>(9, 3, 3));
  for (const int together : {2, 3}) {
    touches_what_is_predicted<residual_net<float>>(samples<float>(9, 12, 1), schedule_kind::fill_drain, together);
    touches_what_is_predicted<skip_net<float>>(samples<float>(9, 12, 2), schedule_kind::fill_drain, together);
  }
  touches_what_is_predicted<broad_net<float>>(samples<float>(9, 12, 1));
  touches_what_is_predicted<attended_net<float>>(token_samples<float>(9));
  touches_what_is_predicted<picture_net<float>>(samples<float>(9, 12, 1));
  touches_what_is_predicted<residual_net<bf16>>(samples<float>(9, 12, 1));
  touches_what_is_predicted<skip_net<bf16>>(samples<float>(9, 12, 2));
}

TEST_CASE("the digits example uses its predicted memory, as planned and with other schedules") {
  samples<float> data(64, 64, 1);
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_v})
    for (const recompute_mode mode : {recompute_mode::except_last, recompute_mode::never}) {
      const plan_options options{
          .stages = 4, .micro_batches = 8, .micro_batch_size = 8, .recompute = mode, .schedule = schedule};
      CAPTURE(name_of(schedule));
      for (const auto& lines : touched<digits_net>(options, data, std::byte{0xa5})) {
        CHECK(lines[lines.size() - 2]);  // the highest predicted line
        CHECK(!lines.back());            // the first line behind it
      }
    }
}

TEST_CASE("a stage uses its predicted memory with every schedule") {
  for (const schedule_kind schedule : schedule_kinds)
    if (schedule != schedule_kind::fill_drain && schedule != schedule_kind::forward_only) {
      touches_what_is_predicted<tied_net<float>>(samples<float>(9, 12, 1), schedule);
      touches_what_is_predicted<skip_net<float>>(samples<float>(9, 12, 2), schedule);
    }
}

TEST_CASE("a plan predicts the same memory at compile time and at run time") {
  equals_in_each_mode<1>();
  equals_in_each_mode<2>();
  equals_in_each_mode<5>();
}

TEST_CASE("rows and columns of Adafactor, and the average of the weights, are in the predicted memory") {
  touches_what_is_predicted<tied_net<float>, adafactor>(samples<float>(9, 12, 1));
  touches_what_is_predicted<residual_net<double>, adafactor_with_momentum>(samples<double>(9, 12, 1));
}

#ifdef LAWS_COUNTED
TEST_CASE("a step with Adafactor, groups and an average of the weights allocates nothing") {
  const samples<float> data(9, 12, 1);
  for (const auto& [stages, replicas] : {std::pair(1, 1), {3, 1}, {2, 2}}) {
    const int S = stages, R = replicas;
    CAPTURE(S);
    CAPTURE(R);
    const plan_options options{.stages = S, .micro_batches = 3, .micro_batch_size = 3, .replicas = R};
    trainer<tied_net<float>, adafactor_with_momentum> training(
        options, {},
        {.groups = {no_decay_for_biases_and_norms(), {.parameters = {"0.weight"}, .rate_factor = 0.5}},
         .average_weights = 0.9});
    const batch b = data.take(0, 8);
    const auto counted = [&](auto&& call) {
      const long before = allocations;
      call();
      return allocations - before;
    };
    for (int i = 0; i < 3; ++i) CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(counted([&] { training.evaluate(b, weights::averaged); }) == 0);
    training.freeze(0);
    CHECK(counted([&] { training.step(b); }) == 0);
  }
}

TEST_CASE("a step with attention allocates nothing, the first step included") {
  const token_samples<float> data(9);
  for (const int stages : {1, 3}) {
    trainer<attended_net<float>, adam> training({.stages = stages, .micro_batches = 3, .micro_batch_size = 3}, {});
    const batch b = data.take(0, 8);
    for (int i = 0; i < 2; ++i) {
      const long before = allocations;
      training.step(b);
      CHECK(allocations == before);
    }
  }
}

TEST_CASE("a step with convolutions allocates nothing, the first step included") {
  const samples<float> data(9, 12, 1);
  for (const int stages : {1, 3}) {
    trainer<picture_net<float>, adam> training({.stages = stages, .micro_batches = 3, .micro_batch_size = 3}, {});
    const batch b = data.take(0, 8);
    for (int i = 0; i < 2; ++i) {
      const long before = allocations;
      training.step(b);
      CHECK(allocations == before);
    }
  }
}

TEST_CASE("a step allocates nothing on any thread, the first step included") {
  const samples<float> data(9, 12, 1);
  for (const auto& [stages, replicas] : {std::pair(1, 1), {2, 1}, {5, 1}, {1, 2}, {2, 3}}) {
    const int S = stages, R = replicas;  // clang 14 cannot capture a structured binding
    CAPTURE(S);
    CAPTURE(R);
    training_options how;
    how.trace_events = 100;
    how.digest_calls = 5;
    how.max_grad_norm = 1;
    how.before = [](const instruction&) {};
    how.slot_times = S > 1;
    how.link_bytes_per_second = S > 2 ? 10'000'000 : 0;
    const plan_options options{.stages = S,
                               .micro_batches = 3,
                               .micro_batch_size = 3,
                               .precision = S == 2 ? precision::bf16 : precision::float32,
                               .replicas = R};
    trainer<both_precisions<verbose_net>, adam> training(options, adam{}, how);
    batch b(8);
    b.with("inputs", std::span(data.inputs).first(8 * 12))
        .with("the class that each of the samples belongs to", std::span(data.labels).first(8))
        .with("how much each of the samples counts in the loss", std::span(data.weights).first(8));
    const auto counted = [&](auto&& call) {
      const long before = allocations;
      call();
      return allocations - before;
    };
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(counted([&] { training.evaluate(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    training.watch(1);
    training.freeze(0);
    long hooked = 0;
    training.on_step([&hooked](const step_result& found, std::uint64_t) { hooked += found.metric("loss") > 0; });
    CHECK(counted([&] { training.accumulate(b); }) == 0);
    CHECK(counted([&] { training.step(b); }) == 0);
    CHECK(hooked == 1);
    CHECK(training.digest().calls() == 5);
    static void* volatile kept;  // keeps the compiler from removing it
    CHECK(counted([&] { kept = std::malloc(1), std::free(kept); }) == 1);
    CHECK(counted([&] { kept = new int, delete static_cast<int*>(kept); }) == 1);
  }
}
#endif
