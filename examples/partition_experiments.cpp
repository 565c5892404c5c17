// The compiler can prove much about a pipeline before it runs. Every claim below is a `static_assert`: if this file
// compiles, all claims hold. The program itself only says so.

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/stages.hpp>

#include <boost/hana/cartesian_product.hpp>

#include <cstdint>
#include <cstdio>
#include <type_traits>

using namespace gpipe;

// 1. Counting --------------------------------------------------------------------------------------------------------

// The paper's largest Transformer: 1663 blocks and 84 billion parameters. The compiler instantiates one block.
using deepest = transformer<1663>;
static_assert(network_of<deepest>.parameters() == 83'876'910'336);
static_assert(layers_of<deepest> == 6 * 1663 + 2);
static_assert(network_of<deepest>.type_count == 8);

// 2. Cutting ---------------------------------------------------------------------------------------------------------

// Six layers, forward and backward. Two borders cut them into three stages.
constexpr pass_cost six[] = {{4, 8}, {2, 4}, {1, 2}, {1, 2}, {5, 10}, {3, 6}};

struct three_stages {
  int first[4]{};
};
constexpr auto best = [] {
  three_stages found;
  partition(six, 6, 3, 8, found.first);
  return found;
}();
static_assert(best.first[1] == 2 && best.first[2] == 5);  // forward 4 + 2 | 1 + 1 + 5 | 3

// The same number of layers on each stage takes a tenth longer. No cut takes less time: we try them all.
constexpr int by_number[] = {0, 2, 4, 6};
constexpr std::int64_t shortest = fill_drain_makespan(six, 6, best.first, 3, 8);
static_assert(fill_drain_makespan(six, 6, by_number, 3, 8) == 216 && shortest == 195);
static_assert([] {
  for (int i = 1; i < 5; ++i)
    for (int j = i + 1; j < 6; ++j) {
      const int any[] = {0, i, j, 6};
      if (fill_drain_makespan(six, 6, any, 3, 8) < shortest) return false;
    }
  return true;
}());

// A first device of half the speed gets one layer.
constexpr auto uneven = [] {
  // [kind][layer]: the same layers on a fast device, and on a device that takes twice as long.
  pass_cost costs[12];
  for (int l = 0; l < 6; ++l) {
    costs[l] = six[l];
    costs[6 + l] = {2 * six[l].forward, 2 * six[l].backward};
  }
  const int kind_of[] = {1, 0, 0};
  three_stages found;
  partition({.layers = 6, .stages = 3, .micro_batches = 8, .costs = costs, .kinds = 2, .kind_of = kind_of},
            found.first);
  return found;
}();
static_assert(uneven.first[1] == 1);

// 3. Idle time -------------------------------------------------------------------------------------------------------

// The bubble, (S - 1) / (M + S - 1): with 32 micro-batches, 128 stages idle for four fifths of the time.
static_assert(timetable(fill_drain{}, 4, 16).bubble() == 3.0 / 19);
static_assert(timetable(fill_drain{}, 128, 32).bubble() == 127.0 / 159);

// A step on 4 stages with 8 micro-batches, forward takes 1, and each part of backward takes 1.
constexpr std::int64_t step(schedule_choice schedule, recompute_mode recompute, int stages = 4) {
  const stage_times times[] = {{1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}};
  const stage_link links[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}};
  return simulate(schedule, {stages, 8, recompute, times, links, stages - 1});
}
static_assert(step(schedule_kind::fill_drain, recompute_mode::never) == 33);
static_assert(step(schedule_kind::fill_drain, recompute_mode::always) == 41);  // starts before its gradient arrives
static_assert(step(schedule_kind::fill_drain, recompute_mode::except_last) == 40);
static_assert(step(schedule_kind::one_f_one_b, recompute_mode::never) == 33);  // not faster: it saves memory
static_assert(fill_drain::in_flight(4, 8, 0) == 8 && one_f_one_b::in_flight(4, 8, 0) == 4);

// Two stages on each of four devices, each with half the work: 66 in these units equals fill-drain's 33.
static_assert(step({schedule_kind::interleaved, 2}, recompute_mode::never, 8) == 57);

// 4. Devices and measured costs --------------------------------------------------------------------------------------

struct net : model<input<float, 1024>, linear<1024>, repeat<3, residual<linear<1024>, relu>>, linear<10>,
                   softmax_cross_entropy> {};

using on_a_gpu = plan<net, stages<2>, micro_batches<8>, micro_batch_size<64>, on_device<a100_80gb>>;
static_assert(on_a_gpu::L == 12);

// A slower link takes longer for the same bytes.
static_assert(transfer_time(1'000'000, a100_80gb) < transfer_time(1'000'000, l4));

// Measured times replace predicted ones. A table of another model does not compile.
struct measured {
  static constexpr int micro_batch_size = 64;
  static constexpr measured_layer layers[] = {{0, "linear<1024>", 9000, 9000, 9000},  // the first is slow here
                                              {1, "linear<1024>", 900, 900, 900},
                                              {2, "relu", 50, 50},
                                              {3, "add", 50, 50},
                                              {4, "linear<1024>", 900, 900, 900},
                                              {5, "relu", 50, 50},
                                              {6, "add", 50, 50},
                                              {7, "linear<1024>", 900, 900, 900},
                                              {8, "relu", 50, 50},
                                              {9, "add", 50, 50},
                                              {10, "linear<10>", 100, 100, 100},
                                              {11, "softmax_cross_entropy", 60, 60}};
};
using as_measured = plan<net, stages<2>, micro_batches<8>, micro_batch_size<64>, profiled<measured>>;
static_assert(as_measured::cut().first[1] == 1 && on_a_gpu::cut().first[1] > 1);

// 5. Fitting ---------------------------------------------------------------------------------------------------------

// The paper's first row of pipelines, as the paper trained it: a batch of 32, recompute, 12 bytes a parameter, and 16
// GiB in each core. Our packed weights take 8 bytes more.
using paper_8 = plan<transformer<103>, stages<8>, micro_batches<32>, micro_batch_size<1>, optimizer<sgd>,
                     gpipe::recompute<recompute_mode::always>, on_device<tpu_v3_core>>;
static_assert(paper_8::parameters() == 5'318'006'016);
static_assert(require_fits<paper_8, 16_GiB>());

// Its activations on all devices, in bytes; the paper's peak is 50.9 GB.
constexpr std::int64_t activations = [] {
  std::int64_t sum = 0;
  for (int s = 0; s < paper_8::S; ++s) {
    const stage_memory m = paper_8::memory(s);
    for (const memory_kind weights :
         {memory_kind::parameters, memory_kind::gradients, memory_kind::moments, memory_kind::derived})
      sum -= m.of(weights);
    sum += m.total();
  }
  return sum;
}();
static_assert(activations < 50'900'000'000);

// Without recompute it does not fit: `require_fits<greedy, 16_GiB>()` is an error with the stage and its bytes.
using greedy = plan<transformer<103>, stages<8>, micro_batches<32>, micro_batch_size<1>, optimizer<sgd>,
                    gpipe::recompute<recompute_mode::never>, on_device<tpu_v3_core>>;
static_assert(greedy::memory(3).total() > 16_GiB);

// 6. Choosing --------------------------------------------------------------------------------------------------------

// Another schedule is another type. 1F1B takes no less time, but holds fewer micro-batches: it needs less memory.
template <class Schedule>
using on_four = plan<net, stages<4>, micro_batches<16>, micro_batch_size<64>, schedule<Schedule>,
                     gpipe::recompute<recompute_mode::never>>;
static_assert(on_four<one_f_one_b>::memory(3).total() < on_four<fill_drain>::memory(3).total());
static_assert(on_four<zb_h1>::makespan() < on_four<one_f_one_b>::makespan());
static_assert(on_four<fill_drain>::makespan() == on_four<fill_drain>::lower_bound());  // no cut takes less

// A cut by hand is used as it is, and reports how far it is from the best cut.
using by_hand =
    plan<net, cut_at<3, 6, 9>, micro_batches<16>, micro_batch_size<64>, gpipe::recompute<recompute_mode::never>>;
static_assert(by_hand::S == 4 && by_hand::cut().first[2] == 6);
static_assert(by_hand::from_optimum().of_cut == by_hand::makespan());
static_assert(by_hand::from_optimum().optimum == on_four<fill_drain>::makespan());

// The cut obeys a memory limit. Recompute as needed keeps what fits, so a higher limit gives a shorter step.
template <std::int64_t Limit>
using within = plan<net, stages<4>, micro_batches<16>, micro_batch_size<64>,
                    gpipe::recompute<recompute_mode::as_needed>, memory_limit<Limit>>;
static_assert(require_fits<within<30_MiB>, 30_MiB>() && require_fits<within<32_MiB>, 32_MiB>());
static_assert(within<30_MiB>::makespan() > within<32_MiB>::makespan());
static_assert(within<32_MiB>::makespan() > on_four<fill_drain>::makespan());

// 7. Stages as types -------------------------------------------------------------------------------------------------

// A plan's stages, and the layers of each stage, are tuples of Boost.Hana: its algorithms run on both.
namespace hana = boost::hana;
using four = on_four<fill_drain>;
constexpr auto stages_of_four = four::stages();
static_assert(hana::length(stages_of_four) == hana::size_c<4>);

// transform: the first layer of each stage. The plan's cut is the same.
constexpr auto firsts = hana::transform(stages_of_four, [](auto stage) { return stage.first; });
static_assert(hana::unpack(firsts, [](auto... first) {
  int s = 0;
  return (... && (first == four::cut().first[s++]));
}));

// fold: the parameters of a stage, over its distinct layers, and of the model, over its stages.
constexpr auto parameters_of = [](auto stage) {
  return hana::fold(typename decltype(stage)::layers{}, std::size_t{0}, [](std::size_t sum, auto run) {
    for (const parameter& p : decltype(run)::layer::parameters)
      sum += static_cast<std::size_t>(run.count) * p.extents.size();
    return sum;
  });
};
static_assert(hana::fold(stages_of_four, std::size_t{0},
                         [](std::size_t sum, auto stage) { return sum + parameters_of(stage); }) == four::parameters());

// for_each: a stage's arena has the parameters that its type counts, each of 4 bytes and padded to whole cache lines.
static_assert([] {
  bool equal = true;
  hana::for_each(stages_of_four, [&equal](auto stage) {
    const auto bytes = static_cast<std::int64_t>(4 * parameters_of(stage));
    const std::int64_t planned = four::memory(stage.index).of(memory_kind::parameters);
    equal = equal && bytes <= planned && planned < bytes + 1024;
  });
  return equal;
}());

// filter: the stages with more than one distinct layer that has parameters; here the last, with its linear<10>.
constexpr auto mixed = hana::filter(stages_of_four, [](auto stage) {
  constexpr int kinds = hana::fold(typename decltype(stage)::layers{}, 0, [](int sum, auto run) {
    return sum + (std::size(decltype(run)::layer::parameters) > 0 ? 1 : 0);
  });
  return hana::bool_c<(kinds > 1)>;
});
static_assert(hana::length(mixed) == hana::size_c<1> && hana::at_c<0>(mixed).index == four::S - 1);

// 8. Sweeping --------------------------------------------------------------------------------------------------------

// Schedules x micro-batches on four devices, for a batch of 256 samples: each plan is a type. `plan sweep` does the
// same at run time, for more choices.
template <class Schedule, int M>
using swept = plan<net, stages<4 * (2 / Schedule::workers(2))>, micro_batches<M>, micro_batch_size<256 / M>,
                   schedule<Schedule>, gpipe::recompute<recompute_mode::never>>;
constexpr auto choices = hana::cartesian_product(
    hana::make_tuple(hana::tuple_t<fill_drain, one_f_one_b, zb_h1, zb_v>, hana::tuple_c<int, 4, 16>));
constexpr auto plans = hana::transform(choices, [](auto of) {
  auto order = hana::at_c<0>(of);
  auto number = hana::at_c<1>(of);
  return hana::type_c<swept<typename decltype(order)::type, decltype(number)::value>>;
});
static_assert(hana::length(plans) == hana::size_c<8>);

// all_of: no step is under its lower bound. fold: the plan with the shortest step, which is a type that can be trained.
static_assert(hana::fold(plans, true, [](bool hold, auto it) {
  using of = typename decltype(it)::type;
  return hold && of::makespan() >= of::lower_bound();
}));
constexpr auto faster = [](auto a, auto b) {
  if constexpr (decltype(b)::type::makespan() < decltype(a)::type::makespan()) return b;
  else return a;
};
using fastest = decltype(+hana::fold(plans, hana::front(plans), faster))::type;
static_assert(std::is_same_v<fastest, swept<zb_h1, 16>>);

// filter: the plans whose stages, as types, all fit 26 MB. The fastest of these is another type.
constexpr auto small = hana::filter(plans, [](auto it) {
  using of = typename decltype(it)::type;
  return hana::bool_c<hana::fold(of::stages(), true,
                                 [](bool fit, auto stage) { return fit && of::memory(stage.index).total() <= 26_MB; })>;
});
using fastest_small = decltype(+hana::fold(small, hana::front(small), faster))::type;
static_assert(std::is_same_v<fastest_small, swept<fill_drain, 16>>);

int main() { std::puts("all claims held when this program was compiled"); }
