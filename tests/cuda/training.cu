#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <gpipe.hpp>

#include "support/nets.hpp"
#include "support/on_gpu.hpp"

#if GPIPE_WITH_NCCL
#include <gpipe/cuda/nccl/job.hpp>

#include "support/threaded_job.hpp"
#endif

// Trainings on GPUs: the same bits for every number of stages, and the host's numbers within a tolerance.

using namespace gpipe;

namespace {

/// 26 layers, with every layer for networks without tokens.
struct net : model<input<float, 64>, dropout<10>, linear<64>, batch_norm<>, relu, reshape<4, 16>, batch_norm<>,
                   reshape<64>, tied<"w", linear<64>>, repeat<2, residual<layer_norm, linear<96>, gelu, linear<64>>>,
                   tied<"w", linear<64>>, layer_norm, linear<7>, softmax_cross_entropy> {};

/// Copies, and counts how often the host calls it: while a step is recorded, and not when its graph is launched again.
struct counted {
  static inline int calls = 0;
  template <class In>
  struct on {
    using output = In;
    static constexpr std::ptrdiff_t size = In::size;
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      ++calls;
      c.copy(size * a.samples(), a.in(), a.out());
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      c.copy(size * a.samples(), a.out_gradient(), a.in_gradient());
    }
  };
};
/// Without dropout, whose steps are recorded each time.
struct repeatable : model<input<float, 64>, linear<24>, counted, gelu, layer_norm, linear<7>, softmax_cross_entropy> {};

const laws::samples<float> data(64, 64, 1);
const int steps = short_settings ? 3 : 20, M = short_settings ? 2 : 4, B = short_settings ? 4 : 8;
const std::vector<int> stage_counts = short_settings ? std::vector<int>{3} : std::vector<int>{1, 2, 3, 8};
using kind = schedule_kind;
const std::vector<kind> schedules = short_settings
                                        ? std::vector<kind>{kind::zb_h1}
                                        : std::vector<kind>{kind::fill_drain, kind::one_f_one_b, kind::zb_h1};

struct setting {
  int S = 1;
  recompute_mode recompute = recompute_mode::never;
  schedule_kind schedule = schedule_kind::fill_drain;
  gpipe::precision precision = gpipe::precision::float32;
  bool graph = false;
  int workers = 0, replicas = 1;
  shard shares = shard::none;
};

template <class Device, class Net = both_precisions<net>>
auto training_of(const setting& as, training_options how = {}) {
  const plan_options options{.stages = as.S,
                             .micro_batches = M,
                             .micro_batch_size = B,
                             .precision = as.precision,
                             .recompute = as.recompute,
                             .schedule = as.schedule,
                             .workers = as.workers,
                             .replicas = as.replicas,
                             .shard = as.shares,
                             .group_gradients = as.shares == shard::gradients ? M : 0};
  how.seed = 3, how.max_grad_norm = 1, how.graph = as.graph;
  return trainer<Net, adamw, Device>(options, adamw{.learning_rate = 1e-3}, how);
}

using bit_list = std::vector<std::uint64_t>;

void add(bit_list& found, const step_result& o) {
  for (const double x : {o.loss, o.weight, o.correct, o.norm}) found.push_back(std::bit_cast<std::uint64_t>(x));
}

/// The bits of three steps, the first with fewer samples, and of an evaluation. The last two differ in their dropout
/// alone, so that a graph of the second must not serve the third.
bit_list bits(const setting& as, training_options how = {}) {
  auto training = training_of<cuda_device>(as, how);
  bit_list found;
  for (const int size : {M * B / 2 - 1, M * B, M * B}) {
    add(found, training.step(data.take(0, size)));
    found.push_back(laws::gradients_of(training));
    found.push_back(laws::state_of(training));
  }
  add(found, training.evaluate(data.take(32, M * B)));
  return found;
}

/// The bits of five steps on two mini-batches in turn; and whether the host enqueued the layers of each step.
bit_list bits_of_repeated(const setting& as, std::string& enqueued) {
  auto training = training_of<cuda_device, repeatable>(as);
  bit_list found;
  for (const int first : {0, 32, 0, 32, 0}) {
    const int before = counted::calls;
    add(found, training.step(data.take(first, M * B)));
    enqueued += counted::calls > before ? 'x' : '-';
  }
  found.push_back(laws::state_of(training));
  return found;
}

template <class Device>
std::vector<double> losses(precision in) {
  auto training = training_of<Device>({.S = 2, .precision = in});
  std::vector<double> found;
  for (int step = 0; step < steps; ++step) found.push_back(training.step(data.take(step % 2 * 32, M * B)).loss);
  return found;
}

}  // namespace

TEST_CASE("the bits are the same for every number of stages, every schedule, with a graph and without") {
  for (const precision in : {precision::float32, precision::bf16}) {
    const auto expected = bits({.precision = in});
    detail::hash hash;
    hash.add(reinterpret_cast<const std::byte*>(expected.data()), expected.size() * sizeof expected[0]);
    std::printf("bits %016llx\n", static_cast<unsigned long long>(hash.value()));  // see orders.cmake
    CHECK(bits({.precision = in}) == expected);
    for (const int S : stage_counts)
      for (const recompute_mode recompute : {recompute_mode::always, recompute_mode::never})
        for (const schedule_kind schedule : schedules) {
          CAPTURE(S);
          CAPTURE(static_cast<int>(recompute));
          CAPTURE(static_cast<int>(schedule));
          CHECK(bits({S, recompute, schedule, in}) == expected);
          for (const int workers : {0, 1}) CHECK(bits({S, recompute, schedule, in, true, workers}) == expected);
        }
  }
}

TEST_CASE("a graph that is launched again has the bits of steps without a graph, each with its own mini-batch") {
  for (const int S : {1, 2, 3}) {
    CAPTURE(S);
    std::string enqueued, recorded;
    const auto expected = bits_of_repeated({.S = S}, enqueued);
    CHECK(enqueued == "xxxxx");
    for (const int workers : {0, 1, 2}) {  // 0: one a stage
      if (workers > S) continue;
      CAPTURE(workers);
      recorded.clear();
      CHECK(bits_of_repeated({.S = S, .graph = true, .workers = workers}, recorded) == expected);
      CHECK(recorded == "x----");
    }
  }
}

TEST_CASE("the losses of twenty steps on a GPU are the host's: to 1e-4 of it, in bf16 to 3 %") {
  const auto host = losses<host_device>(precision::float32);
  const auto gpu = losses<cuda_device>(precision::float32), rounded = losses<cuda_device>(precision::bf16);
  for (std::size_t i = 0; i < host.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(gpu[i] - host[i]) < 1e-4 * host[i]);
    CHECK(std::fabs(rounded[i] - host[i]) < 3e-2 * host[i]);
  }
}

TEST_CASE("a GPU that is too small is rejected before any allocation, with the bytes") {
  std::string message;
  try {
    const trainer<net, adamw, cuda_device> training(plan_options{.micro_batches = 1, .micro_batch_size = 1 << 26});
  } catch (const error& failure) {
    message = failure.what();
  }
  CHECK(message.find("the memory of 1 stage is ") != std::string::npos);
  CHECK(message.find(" bytes, but the machine has ") != std::string::npos);
}

#if GPIPE_WITH_NCCL
TEST_CASE("processes with one GPU each have the bits of one process, and go on after a failure") {
  if (gpipe::cuda::gpus() < 2) {
    MESSAGE("SKIPPED, NOTHING WAS TRAINED: this machine has fewer than two GPUs");
    return;
  }
  for (const setting& as :
       {setting{.S = 2}, setting{.S = 2, .schedule = schedule_kind::zb_h1, .precision = precision::bf16},
        setting{.S = 1, .replicas = 2}, setting{.S = 1, .replicas = 2, .shares = shard::optimizer_state},
        setting{.S = 1, .replicas = 2, .shares = shard::gradients}}) {
    CAPTURE(as.S);
    setting whole = as;
    whole.shares = shard::none;
    const auto expected = bits(whole);
    if (as.shares != shard::none) CHECK(bits(as) == expected);
    threaded::job job(2);
    std::vector<std::uint64_t> found[2];
    std::string message[2];
    job.run([&](process_group& its) {
      nccl::job gpus(its);
      bool fails = its.rank() == 1;
      training_options how{.job = &gpus, .before = [&](const instruction& i) {
                             if (fails && i.kind == action_kind::forward) throw std::runtime_error("thrown here");
                           }};
      {
        auto training = training_of<cuda_device>(as, how);
        try {
          training.step(data.take(0, M * B));
        } catch (const error& cause) {
          message[its.rank()] = cause.wrong();
        }
        fails = false;
        training.step(data.take(0, M * B));  // with new communicators
        training.parameter_hash();
      }
      how.before = {};
      found[its.rank()] = bits(as, how);
    });
    for (const int rank : {0, 1}) {
      CHECK(message[rank] == "thrown here");
      CHECK(found[rank] == expected);
    }
  }
}

TEST_CASE("two processes on one GPU are rejected, naming both ranks") {
  const auto check = [](int one, int other) {
    nccl::require_apart(1, nccl::device_identity::of(one), 0, nccl::device_identity::of(other));
  };
  if (gpipe::cuda::gpus() == 0) return;
  CHECK_THROWS_WITH_AS(check(0, 0), doctest::Contains("ranks 0 and 1 have the same GPU"), error);
  if (gpipe::cuda::gpus() > 1) check(0, 1);
}
#endif

TEST_CASE("tf32 is an option of a plan, which its description names, and other devices refuse") {
  const plan_options with{.stages = 2, .micro_batches = M, .micro_batch_size = B, .tf32 = true};
  auto exact = training_of<cuda_device>({.S = 2});
  trainer<both_precisions<net>, adamw, cuda_device> fast(with, adamw{.learning_rate = 1e-3},
                                                         {.seed = 3, .max_grad_norm = 1});
  CHECK(describe(fast.net(), fast.plan()).find("tf32") != std::string::npos);
  CHECK(describe(exact.net(), exact.plan()).find("tf32") == std::string::npos);
  const double loss = exact.step(data.take(0, M * B)).loss, rounded = fast.step(data.take(0, M * B)).loss;
  CHECK(loss != rounded);
  CHECK(rounded == doctest::Approx(loss).epsilon(1e-2));
  std::string message;
  try {
    trainer<both_precisions<net>, adamw, host_device> here(with);
  } catch (const error& failure) {
    message = failure.what();
  }
  CHECK(message.find("tf32 is true, and the plan's device computes no products in TF32") != std::string::npos);
}
