#include <gpipe/plan/cut/choose_cut.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// One layer has most of the parameters, another most of the work.
struct net : model<input<float, 16>, linear<512>, linear<16>, repeat<4, residual<linear<16>, relu>>, linear<8>> {};
constexpr const network& it = network_of<net>;

struct costs_for {
  std::vector<layer_cost> all;
  stage_costs costs;
  explicit costs_for(const plan_options& o)
      : all(static_cast<std::size_t>(cost_count(it, o))), costs(fill_costs(it, o, all.data())) {}
  operator const stage_costs&() const { return costs; }
};

template <class Schedule>
std::vector<int> cut_of(const plan_options& o, const Schedule& schedule) {
  std::vector<int> first(static_cast<std::size_t>(o.stages) + 1);
  if (!choose_cut(it, o, schedule, costs_for(o), first.data())) first.clear();
  return first;
}

std::int64_t largest(const plan_options& o, const std::vector<int>& first) {
  std::int64_t max = 0;
  for (int s = 0; s < o.stages; ++s)
    max = (std::max)(max, memory_of_range(it, first[static_cast<std::size_t>(s)],
                                          first[static_cast<std::size_t>(s) + 1], requirements_of(fill_drain{}, o, s))
                              .total());
  return max;
}

}  // namespace

TEST_CASE("the cut is the partition's, by the schedule's objective") {
  const plan_options o{.stages = 3, .micro_batches = 4, .micro_batch_size = 8};
  for (const auto& first : {cut_of(o, fill_drain{}), cut_of(o, one_f_one_b{})}) {
    CHECK(first.front() == 0);
    CHECK(first.back() == it.layer_count);
  }
  const distance best = distance_of(it, o, fill_drain{}, costs_for(o), cut_of(o, fill_drain{}).data());
  CHECK(best.of_cut == best.optimum);
  const int lopsided[] = {0, 8, 9, it.layer_count};
  const distance far = distance_of(it, o, fill_drain{}, costs_for(o), lopsided);
  CHECK(far.optimum == best.optimum);
  CHECK(far.of_cut > far.optimum);
}

TEST_CASE("under every limit the best cut that obeys it is chosen") {
  plan_options o{.stages = 3, .micro_batches = 4, .micro_batch_size = 64, .recompute = recompute_mode::never};
  const int L = it.layer_count;
  std::vector<std::pair<std::int64_t, std::int64_t>> all;  // bytes of the largest stage, makespan
  for (int a = 1; a < L - 1; ++a)
    for (int b = a + 1; b < L; ++b) {
      const std::vector<int> first{0, a, b, L};
      all.emplace_back(largest(o, first), distance_of(it, o, fill_drain{}, costs_for(o), first.data()).of_cut);
    }
  std::sort(all.begin(), all.end());
  std::int64_t best = no_memory_limit;
  for (const auto& cut : all) {
    const std::int64_t bytes = cut.first, makespan = cut.second;
    best = (std::min)(best, makespan);
    o.memory_limit = bytes;
    const std::vector<int> first = cut_of(o, fill_drain{});
    CAPTURE(bytes);
    CHECK(largest(o, first) <= bytes);
    CHECK(distance_of(it, o, fill_drain{}, costs_for(o), first.data()).of_cut <= best);
  }
  o.memory_limit = all.front().first - 1;
  CHECK(cut_of(o, fill_drain{}).empty());
  CHECK(min_memory_limit(it, o, fill_drain{}, costs_for(o)) == all.front().first);
  CHECK_THROWS_WITH_AS(make_plan(it, o), doctest::Contains("choose at least "), error);
}

TEST_CASE("a cut that pays for what crosses it avoids wide edges") {
  // 512 wide after the first layer, 16 elsewhere, over a link that takes long.
  constexpr device_spec slow = [] {
    device_spec d = this_cpu;
    d.link_bytes_per_second = 1'000'000;
    return d;
  }();
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8, .device = slow};
  o.cost_transfers = true;
  CHECK(cut_of(o, fill_drain{})[1] != 1);
  const detail::value_transfers all(it, o);
  CHECK(all.count() == it.value_count - 2);  // not the inputs, nor the outputs
  CHECK(all.data()[0].time == transfer_time(512 * 4 * 8, slow));
  CHECK(all.data()[0].reader_count == 1);
}

TEST_CASE("a slower device gets less to do") {
  constexpr device_spec slow = [] {
    device_spec d = this_cpu;
    d.float32 /= 4, d.memory_bytes_per_second /= 4, d.launch_ns *= 4;
    return d;
  }();
  static constexpr device_spec each[] = {this_cpu, slow, this_cpu};
  plan_options o{.stages = 3, .micro_batches = 4, .micro_batch_size = 8};
  const std::vector<int> even = cut_of(o, fill_drain{});
  o.devices = each;
  o.device_count = 3;
  const std::vector<int> uneven = cut_of(o, fill_drain{});
  CHECK(uneven != even);
  const distance best = distance_of(it, o, fill_drain{}, costs_for(o), uneven.data());
  CHECK(best.of_cut == best.optimum);
  CHECK(best.of_cut < distance_of(it, o, fill_drain{}, costs_for(o), even.data()).of_cut);
  const step_plan p = make_plan(it, o);
  CHECK(p.first == uneven);
  CHECK(p.share(0) + p.share(1) + p.share(2) == doctest::Approx(1));
  o.device_count = 2;
  CHECK_THROWS_WITH_AS(make_plan(it, o), doctest::Contains("device_count is 2 and stages is 3"), error);
}

TEST_CASE("inadmissible numbers are rejected") {
  CHECK_THROWS_AS(cut_of({.stages = 3, .micro_batches = 4}, interleaved{2}), error);
}

TEST_CASE("stages that count as the same need the same memory for the same layers") {
  struct skipping : model<input<float, 16>, linear<16>, stash<"x">, linear<16>, relu, linear<16>, pop<"x">, gpipe::add,
                          stash<"y">, linear<16>, relu, pop<"y">, gpipe::add, linear<8>> {};
  const network& n = network_of<skipping>;
  const plan_options o{.stages = 5, .micro_batches = 8, .micro_batch_size = 1};
  std::vector<memory_requirements> needs;
  for (int s = 0; s < o.stages; ++s) needs.push_back(requirements_of(fill_drain{}, o, s));
  int same_whole = 0, same_apart = 0;
  const detail::stage_limits limits(o, 0);
  limits[3] = 100'000;
  for (const auto rest : {memory_fits::outside::whole, memory_fits::outside::apart}) {
    const memory_fits fits{n, limits.data(), needs.data(), rest};
    for (int s = 0; s < o.stages; ++s)
      for (int t = s + 1; t < o.stages; ++t) {
        if (!fits.same(s, t)) continue;
        ++(rest == memory_fits::outside::whole ? same_whole : same_apart);
        for (int begin = 0; begin < n.layer_count; ++begin)
          for (int end = begin + 1; end <= n.layer_count; ++end) {
            CHECK(fits.bytes(s, begin, end) == fits.bytes(t, begin, end));
            CHECK(fits(s, begin, end) == fits(t, begin, end));
          }
      }
  }
  CHECK(same_whole == 1);  // two of the stages between the first and the last; the third has a limit
  CHECK(same_apart < same_whole);
}
