// How far from the optimum are other libraries' cuts, and how long does the optimum take?
//
// Each instance is cut by three heuristics, implemented here from their descriptions, and by the partition, whose
// objective is the optimum (tests/laws/partition.cpp). The heuristics use f + b of every layer on the first device
// only, without transfers, unequal devices or the two maxima of fill-drain.
//
// Then AmoebaNet-D (18, 256): a cut through cells, at any layer, beside cuts between cells.
//
// Then the cut and the layers that run again, together, against brute force: 10,000 small instances under a memory
// limit; and how long that search takes for a Transformer of 96 blocks on 8 devices.
//
// Then the cuts of plans against brute force: 10,000 small instances of every schedule and recompute mode, the
// simulated step of the plan's cut over the shortest of all cuts.

#include "../measure.hpp"
#include "../recompute_limits.hpp"

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/partition/partition.hpp>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <random>
#include <string>

#include "support/cuts_and_layers.hpp"

namespace {

using namespace gpipe;
using cost_list = std::vector<std::int64_t>;
using boundaries = std::vector<int>;

constexpr auto at = [](int i) { return static_cast<std::size_t>(i); };

/// Block partition (Barany and Grinberg, 2015): starts from stages of equal length; the largest stage gives a layer to
/// its neighbour on the side of the smallest, until the two differ by at most the largest layer, or nothing improves.
boundaries block_partition(const cost_list& costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  boundaries first;
  for (int s = 0; s <= stages; ++s) first.push_back(s * layers / stages);
  const auto sum = [&](int s) {
    return std::accumulate(costs.begin() + first[at(s)], costs.begin() + first[at(s + 1)], std::int64_t{0});
  };
  const std::int64_t largest_layer = *std::max_element(costs.begin(), costs.end());
  boundaries best = first;
  std::int64_t best_sum = -1;
  for (int turn = 0; turn < layers * stages; ++turn) {
    int largest = 0, smallest = 0;
    for (int s = 1; s < stages; ++s) {
      if (sum(s) > sum(largest)) largest = s;
      if (sum(s) < sum(smallest)) smallest = s;
    }
    if (best_sum < 0 || sum(largest) < best_sum) {
      best = first;
      best_sum = sum(largest);
    }
    if (sum(largest) - sum(smallest) <= largest_layer) break;
    if (smallest < largest) ++first[at(largest)];
    else --first[at(largest + 1)];
  }
  return best;
}

/// One pass over cumulative cost: a stage ends when the layers so far have reached its share of the total.
boundaries one_pass(const cost_list& costs, int stages) {
  const std::int64_t all = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  boundaries first{0};
  std::int64_t passed = 0;
  for (int l = 0; l < static_cast<int>(costs.size()); ++l) {
    passed += costs[at(l)];
    while (static_cast<int>(first.size()) < stages && passed * stages >= all * static_cast<int>(first.size()))
      first.push_back(l + 1);
  }
  while (static_cast<int>(first.size()) <= stages) first.push_back(static_cast<int>(costs.size()));
  return first;
}

/// Bisection for the largest f + b of a stage to a thousandth, over a longest-prefix probe.
boundaries tolerant_bisection(const cost_list& costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  const auto probe = [&](double limit) {
    boundaries first{0};
    double held = 0;
    for (int l = 0; l < layers; ++l) {
      if (held + static_cast<double>(costs[at(l)]) > limit && held > 0) {
        first.push_back(l);
        held = 0;
      }
      held += static_cast<double>(costs[at(l)]);
    }
    return first;
  };
  double low = static_cast<double>(*std::max_element(costs.begin(), costs.end()));
  double high = static_cast<double>(std::accumulate(costs.begin(), costs.end(), std::int64_t{0}));
  while (high - low > 1e-3 * high) {
    const double middle = (low + high) / 2;
    if (static_cast<int>(probe(middle).size()) <= stages) high = middle;
    else low = middle;
  }
  boundaries first = probe(high);
  while (static_cast<int>(first.size()) <= stages) first.push_back(layers);
  return first;
}

/// `objective_of` for cuts that may have empty stages.
std::int64_t value_of(const partition_problem& p, const boundaries& first) {
  const detail::range_sums all(p, gpipe::detail::fits_always{});
  std::int64_t sum = 0, forward = 0, backward = 0, bottleneck = 0;
  for (int s = 0; s < p.stages; ++s) {
    detail::transfer_charges::running_charge moved(all.moved, first[at(s)]);
    for (int l = first[at(s)]; l < first[at(s + 1)]; ++l) moved.add(l);
    const detail::load held = all.range(s, first[at(s)], first[at(s + 1)]);
    sum += held.both;
    forward = (std::max)(forward, held.forward);
    backward = (std::max)(backward, held.backward);
    bottleneck = (std::max)(bottleneck, held.both + moved.charge());
  }
  return p.goal == objective::bottleneck ? bottleneck : sum + (p.micro_batches - 1) * (forward + backward);
}

/// A model with its arrays: blocks of a Transformer between an embedding and a head, or layers of random costs.
struct instance {
  std::vector<pass_cost> costs;
  std::vector<int> kind_of, readers;
  std::vector<gpipe::detail::transfer> transfers;
  partition_problem problem;

  instance(std::mt19937& random, bool transformer, bool unequal, bool moves, objective goal) {
    const auto from = [&random](int low, int high) {
      return low + static_cast<int>(random() % unsigned(high - low + 1));
    };
    const int stages = from(2, 16);
    int layers = from(stages + 2, 6 * stages);
    if (transformer) {
      const int width = 1000 * from(1, 8);
      costs.push_back({width / 50, width / 10});
      for (int l = 1; l + 1 < layers; ++l)  // attention and feed-forward
        costs.push_back(l % 2 != 0 ? pass_cost{4 * width, 8 * width} : pass_cost{8 * width, 16 * width});
      const int head = width * from(2, 40);  // by vocabulary
      costs.push_back({head, 2 * head});
    } else {
      for (int l = 0; l < layers; ++l) costs.push_back({from(1, 1000), from(1, 2000)});
    }
    if (unequal)
      for (int l = 0; l < layers; ++l) costs.push_back({costs[at(l)].forward * 5 / 2, costs[at(l)].backward * 5 / 2});
    for (int s = 0; s < stages; ++s) kind_of.push_back(unequal && s >= stages / 2);
    if (moves) {
      readers.reserve(at(2 * layers));
      for (int l = 0; l + 1 < layers; ++l) {
        readers.push_back(l + 1);
        readers.push_back((std::min)(layers - 1, l + (l % 4 == 0 ? 1 + from(1, layers / 2) : 1)));
        transfers.push_back({l, readers.data() + 2 * l, 2, costs[at(l)].forward / from(1, 4)});
      }
    }
    problem = {layers,
               stages,
               16,
               costs.data(),
               unequal ? 2 : 1,
               kind_of.data(),
               transfers.data(),
               static_cast<int>(transfers.size()),
               goal};
  }
};

/// The paper's largest model on 128 devices, with layers of different costs: seconds of a partition.
double large(bool unequal, bool moves, objective goal) {
  constexpr int layers = 1663, stages = 128;
  std::mt19937 random(1);
  const auto draw = [&random](int low, int high) { return low + static_cast<int>(random() % unsigned(high - low)); };
  std::vector<pass_cost> costs(2 * layers);
  std::vector<int> kind_of(stages), readers(2 * layers);
  std::vector<gpipe::detail::transfer> transfers;
  for (int l = 0; l < layers; ++l) {
    costs[at(l)] = {draw(1'000'000, 2'000'000), draw(2'000'000, 4'000'000)};
    costs[at(layers + l)] = {costs[at(l)].forward * 3 / 2, costs[at(l)].backward * 3 / 2};
    readers[at(2 * l)] = l + 1;
    readers[at(2 * l + 1)] = (std::min)(layers - 1, l + draw(1, 40));
    if (moves && l + 1 < layers) transfers.push_back({l, readers.data() + 2 * l, 2, draw(0, 1'000'000)});
  }
  for (int s = 0; s < stages; ++s) kind_of[at(s)] = unequal && s / 8 % 2 != 0;
  const partition_problem p{layers,
                            stages,
                            512,
                            costs.data(),
                            unequal ? 2 : 1,
                            kind_of.data(),
                            transfers.data(),
                            static_cast<int>(transfers.size()),
                            goal};
  boundaries first(stages + 1);
  return bench::timed([&] { partition(p, first.data()); });
}

/// The module of torchgpipe's AmoebaNet-D that a layer belongs to: a stem, a cell, or what classifies.
std::string module_of(const network& net, int layer) {
  const std::string path = gpipe::detail::path_of(net, layer);
  std::size_t end = path.find('.');
  const std::string name = path.substr(0, end);
  if (!name.starts_with("stem") && !name.starts_with("cell")) return "classify";
  if (name == "cell1" || name == "cell3" || name == "cell5") {  // cell1.0, cell1.1.0, cell1.1.1 ...
    const bool repeated = path[end + 1] == '1';
    for (int parts = repeated ? 2 : 1; parts > 0; --parts) end = path.find('.', end + 1);
    return path.substr(0, end);
  }
  return name;
}

/// Mean over largest work of a stage, with the best cut for it.
double balance(const cost_list& work, int stages) {
  std::vector<pass_cost> costs;
  for (const std::int64_t w : work) costs.push_back({w, 0});
  partition_problem p{static_cast<int>(work.size()), stages, 1, costs.data()};
  p.goal = objective::bottleneck;
  boundaries first(at(stages + 1));
  partition(p, first.data());
  const auto all = static_cast<double>(std::accumulate(work.begin(), work.end(), std::int64_t{0}));
  return all / stages / static_cast<double>(gpipe::detail::objective_of(p, first.data()));
}

/// Multiply-adds of convolutions and of the linear layer: of each layer, and of each module.
struct amoebanet_work {
  cost_list layers, modules;

  amoebanet_work() {
    const network& net = network_of<amoebanet_d<18, 256>>;
    std::string last;
    for (int l = 0; l < net.layer_count; ++l) {
      const detail::layer_type& r = net.type_of(l);
      const bool multiplies = r.derived_count > 0;
      layers.push_back(multiplies ? r.cost.forward / 2 : 0);
      if (std::string module = module_of(net, l); module != last) {
        modules.push_back(0);
        last = std::move(module);
      }
      modules.back() += layers.back();
    }
  }
};

struct wide_and_narrow
    : model<input<float, 16>, linear<64>, relu, linear<16>, linear<128>, relu, linear<8>, linear<32>, linear<32>> {};
constexpr const network& small = network_of<wide_and_narrow>;

/// A plan of eight layers with random costs, on equal or unequal devices, with or without a memory limit.
struct small_plan {
  plan_options o;
  std::vector<layer_cost> all;
  stage_costs costs;

  small_plan(std::mt19937& random, schedule_kind kind, recompute_mode mode) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % unsigned(limit)); };
    do {
      o = {.stages = 2 + below(5),
           .micro_batches = 1 + below(8),
           .micro_batch_size = 8,
           .recompute = mode,
           .schedule = kind};
    } while (!o.chosen_schedule().admits(o.stages, o.micro_batches));
    const bool each = below(2) == 0;
    for (int l = 0; l < (each ? o.stages : 1) * small.layer_count; ++l)
      all.push_back({1 + below(100), 1 + below(100), 1 + below(100)});
    costs = {all.data(), small.layer_count, each};
    if (below(2) == 0) return;
    boundaries even;  // its largest stage is the limit
    for (int s = 0; s <= o.stages; ++s) even.push_back(s * small.layer_count / o.stages);
    std::int64_t bytes = 0;
    for (int s = 0; s < o.stages; ++s) {
      const stage_view stage(small, {even.data(), o.stages}, s);
      bytes = (std::max)(bytes, memory_of(stage, requirements_of(o.chosen_schedule(), o, s)).total());
    }
    o.memory_limit = bytes + below(4096);
  }
};

struct step_ratios {
  double searched = 1,
         planned = 1;  ///< the worst of the search's cuts, as a compiled plan has them, and of make_plan's
};

step_ratios worst_steps(std::mt19937& random, schedule_kind kind, recompute_mode mode, int instances) {
  step_ratios worst;
  for (int i = 0; i < instances; ++i) {
    const small_plan it(random, kind, mode);
    const gpipe::detail::cut_simulator simulator(small, it.o, it.costs);
    boundaries first(at(it.o.stages + 1));
    const cut_search found = search_cut(small, it.o, it.o.chosen_schedule(), it.costs, first.data());
    const auto searched = static_cast<double>(simulator.step_of(first.data()));
    gpipe::detail::shorten_step(small, it.o, it.costs, found.whole, first.data());
    const std::int64_t planned = simulator.step_of(first.data());
    const auto shortest = static_cast<double>(simulator.shortest_of_all(planned, nullptr));
    worst.searched = (std::max)(worst.searched, searched / shortest);
    worst.planned = (std::max)(worst.planned, static_cast<double>(planned) / shortest);
  }
  return worst;
}

/// The slowest stage of the searched cut and layers over the fastest of all, the worst of some instances.
double worst_of_cuts_and_layers(int instances) {
  std::mt19937 random(2024);
  double worst = 1;
  for (int i = 0; i < instances; ++i) {
    const nets::cuts_and_layers it(random);
    boundaries first(at(it.o.stages + 1));
    if (!search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.each(), first.data()).fits) continue;
    const auto best = static_cast<double>(it.best_bottleneck());
    if (best > 0) worst = (std::max)(worst, static_cast<double>(it.bottleneck_of(first)) / best);
  }
  return worst;
}

/// Seconds of the search for the cut and the layers, with memory for this share of the activations that 1F1B keeps.
double seconds_of_cut_and_layers(double share) {
  const network& net = network_of<transformer<96>>;
  plan_options o{.stages = 8,
                 .micro_batches = 32,
                 .micro_batch_size = 1,
                 .recompute = recompute_mode::never,
                 .schedule = schedule_kind::one_f_one_b};
  o.memory_limit = bench::limit_for(make_plan(net, o), share);
  o.recompute = recompute_mode::as_needed;
  std::vector<layer_cost> list(at(net.layer_count));
  const stage_costs costs = gpipe::detail::fill_costs(net, o, list.data());
  boundaries first(at(o.stages + 1));
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round)
    seconds.push_back(bench::timed([&] { search_cut(net, o, o.chosen_schedule(), costs, first.data()); }));
  return bench::median(seconds);
}

struct rule {
  const char* name;
  boundaries (*cut)(const cost_list&, int);
};
constexpr rule rules[] = {{"torchgpipe", block_partition}, {"lingvo", one_pass}, {"deepspeed", tolerant_bisection}};

struct family {
  const char* name;
  bool transformer, unequal, moves;
  objective goal;
};
constexpr family families[] = {
    {"Transformers, bottleneck", true, false, false, objective::bottleneck},
    {"Transformers, fill-drain", true, false, false, objective::fill_drain},
    {"random costs, bottleneck", false, false, false, objective::bottleneck},
    {"random costs, fill-drain", false, false, false, objective::fill_drain},
    {"Transformers with transfers and skips", true, false, true, objective::bottleneck},
    {"random costs with transfers and skips", false, false, true, objective::bottleneck},
    {"Transformers, unequal devices, fill-drain", true, true, false, objective::fill_drain},
    {"random costs, unequal devices, transfers", false, true, true, objective::bottleneck},
};

}  // namespace

int main() {
  bench::print_environment();
  constexpr int instances = 2000;
  std::printf("objective over the optimum, median / worst of %d (cuts with an empty stage)\n", instances);
  std::printf("%-44s", "");
  for (const rule& r : rules) std::printf("  %-22s", r.name);
  std::printf("\n");

  std::mt19937 random(2019);
  std::vector<double> plain[std::size(rules)], unlike[std::size(rules)];
  for (const family& f : families) {
    std::vector<double> ratios[std::size(rules)];
    int empty[std::size(rules)] = {};
    for (int i = 0; i < instances; ++i) {
      const instance it(random, f.transformer, f.unequal, f.moves, f.goal);
      const partition_problem& p = it.problem;
      boundaries best(at(p.stages + 1));
      partition(p, best.data());
      const auto optimum = static_cast<double>(gpipe::detail::objective_of(p, best.data()));
      cost_list known;
      for (int l = 0; l < p.layers; ++l) known.push_back(p.costs[l].forward + p.costs[l].backward);
      for (std::size_t r = 0; r < std::size(rules); ++r) {
        const boundaries first = rules[r].cut(known, p.stages);
        const double ratio = static_cast<double>(value_of(p, first)) / optimum;
        const bool whole = std::adjacent_find(first.begin(), first.end()) == first.end();
        if (whole && ratio < 1) {
          std::printf("%s is better than the optimum: %.6f\n", rules[r].name, ratio);
          return EXIT_FAILURE;
        }
        empty[r] += !whole;
        ratios[r].push_back(ratio);
        (f.unequal || f.moves ? unlike : plain)[r].push_back(ratio);
      }
    }
    std::printf("%-44s", f.name);
    for (std::size_t r = 0; r < std::size(rules); ++r)
      std::printf("  %5.3f / %5.2f (%4d)   ", bench::median(ratios[r]), bench::quantile(ratios[r], 1), empty[r]);
    std::printf("\n");
  }

  const amoebanet_work amoebanet;
  std::printf(
      "\nAmoebaNet-D (18, 256), %d layers in %d modules: mean over largest work of a stage, cut at any layer / "
      "between modules\n",
      static_cast<int>(amoebanet.layers.size()), static_cast<int>(amoebanet.modules.size()));
  for (const int stages : {2, 4, 8})
    std::printf("  %d stages: %.4f / %.4f\n", stages, balance(amoebanet.layers, stages),
                balance(amoebanet.modules, stages));

  constexpr int plans = 10'000;
  const double of_layers = worst_of_cuts_and_layers(plans),
               seconds[] = {seconds_of_cut_and_layers(0.75), seconds_of_cut_and_layers(0.5)};
  std::printf(
      "\ncut and layers that run again under a limit, slowest stage over the fastest of all, worst of %d: %.4f\n"
      "the search for a Transformer of 96 blocks on 8 devices, 1F1B, 0.75 and 0.5 of the activations: %.3f, %.3f s\n",
      plans, of_layers, seconds[0], seconds[1]);

  constexpr recompute_mode modes[] = {recompute_mode::never, recompute_mode::except_last, recompute_mode::always,
                                      recompute_mode::as_needed};
  std::printf("\nsimulated step over the shortest of all cuts, worst of %d: a compiled plan's cut / make_plan's\n",
              plans);
  std::vector<std::pair<std::string, step_ratios>> simulated;
  for (const schedule_kind kind : schedule_kinds) {
    std::printf("%-44s", gpipe::name_of(kind));
    for (const recompute_mode mode : modes) {
      const step_ratios worst = worst_steps(random, kind, mode, plans);
      std::printf("  %s %5.3f / %5.3f", name_of(mode), worst.searched, worst.planned);
      simulated.emplace_back(std::string(gpipe::name_of(kind)) + "." + name_of(mode), worst);
    }
    std::printf("\n");
  }

  std::printf("\n");
  bench::result("partition.layers.worst", of_layers, "ratio");
  bench::result("partition.layers.seconds", (std::max)(seconds[0], seconds[1]), "s");
  for (const auto& [name, worst] : simulated) {
    bench::result("partition.simulated.worst." + name, worst.searched, "ratio");
    bench::result("partition.simulated.worst." + name + ".make_plan", worst.planned, "ratio");
  }
  for (std::size_t r = 0; r < std::size(rules); ++r) {
    const std::string name = std::string("partition.") + rules[r].name;
    bench::result(name + ".median", bench::median(plain[r]), "ratio");
    bench::result(name + ".worst", bench::quantile(plain[r], 1), "ratio");
    bench::result(name + ".unlike.median", bench::median(unlike[r]), "ratio");
    bench::result(name + ".unlike.worst", bench::quantile(unlike[r], 1), "ratio");
  }
  for (const int stages : {2, 4, 8}) {
    const std::string name = "partition.amoebanet." + std::to_string(stages);
    bench::result(name + ".layers", balance(amoebanet.layers, stages), "ratio");
    bench::result(name + ".cells", balance(amoebanet.modules, stages), "ratio");
  }
  bench::result("partition.1663x128.equal", large(false, false, objective::fill_drain), "s");
  bench::result("partition.1663x128.transfers", large(false, true, objective::bottleneck), "s");
  bench::result("partition.1663x128.unequal_transfers", large(true, true, objective::bottleneck), "s");
  bench::result("partition.1663x128.unequal", large(true, false, objective::fill_drain), "s");
}
