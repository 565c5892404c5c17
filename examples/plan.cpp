// Plans pipelines before anything runs: the paper's Transformers, a model of one's own, or, from a table of its layers'
// costs, a model that is not written with gpipe at all.

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/plan/step_time_bound.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/record/report.hpp>
#include <gpipe/record/timeline.hpp>

#include "layer_table.hpp"
#include "options.hpp"

using namespace gpipe;
using gpipe::detail::counted, gpipe::detail::fixed, gpipe::detail::concat, gpipe::detail::several, gpipe::detail::sized;

// A model of your own: put it here -----------------------------------------------------------------------------------

struct own_block : residual<layer_norm, linear<1024>, gelu, linear<256>> {};

struct own_model
    : model<input<float, 64>, linear<256>, repeat<12, own_block>, layer_norm, linear<10>, softmax_cross_entropy> {};

// What is planned ----------------------------------------------------------------------------------------------------

using table = std::vector<std::vector<std::string>>;

/// A model as planning sees it, with times in nanoseconds of one micro-batch.
struct subject {
  std::string title;
  std::vector<std::string> names;
  std::vector<layer_cost> costs;
  std::function<std::int64_t(cut whole, int stage, const memory_terms&)> bytes;  // of a stage
  std::function<std::string(int first, int last)> parameters;
  const network* net = nullptr;  // in whose stages what comes back depends on the other cuts; of a table, none
  plan_options options{};

  int layers() const { return static_cast<int>(costs.size()); }
};

subject written_in_gpipe(std::string title, const network& net, const plan_options& o) {
  subject it{std::move(title), {}, {}, {}, {}, &net, o};
  it.costs.resize(static_cast<std::size_t>(net.slot_count));
  layer_costs(net, o.micro_batch_size, o.device, o.profile, it.costs.data());
  for (layer_cost& c : it.costs) c = {c.forward / 1000, c.backward_input / 1000, c.backward_parameters / 1000};
  for (int l = 0; l < net.slot_count; ++l) it.names.emplace_back(net.row_of(l).name);
  it.bytes = [&net](cut whole, int stage, const memory_terms& terms) {
    return memory_of(stage_view(net, whole, stage), terms).total();
  };
  it.parameters = [&net](int first, int last) {
    std::uint64_t sum = 0;
    for (int l = first; l < last; ++l) sum += net.row_of(l).parameter_elements();
    return counted(sum);
  };
  return it;
}

subject from_table(const std::string& path) {
  const auto layers = example::read_layer_table(path);
  subject it{path, {}, {}, {}, {}, nullptr, {}};
  for (const auto& l : layers) {
    it.names.push_back(l.name);
    it.costs.push_back({l.forward_ns, l.backward_ns / 2, l.backward_ns - l.backward_ns / 2});
  }
  std::vector<std::int64_t> parameters{0}, activations{0}, enters{0};  // running sums; what enters a stage begun here
  for (const auto& l : layers) {
    parameters.push_back(parameters.back() + l.parameter_bytes);
    activations.push_back(activations.back() + l.activation_bytes);
    enters.push_back(l.output_bytes);
  }
  const auto between = [](const std::vector<std::int64_t>& sums, int first, int last) {
    return sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first)];
  };
  it.parameters = [=](int first, int last) {
    return sized(static_cast<std::uint64_t>(between(parameters, first, last)));
  };
  it.bytes = [=](cut whole, int stage, const memory_terms& terms) {
    using gpipe::detail::multiplied, gpipe::detail::summed;
    const int first = whole.first[stage], last = whole.first[stage + 1];
    const std::int64_t inputs = multiplied(enters[static_cast<std::size_t>(first)], terms.in_flight);
    return summed(between(parameters, first, last),
                  summed(inputs, multiplied(between(activations, first, last), terms.kept_copies)));
  };
  return it;
}

// How it is planned --------------------------------------------------------------------------------------------------

struct choice {
  int stages = 4, micro_batches = 8;
  schedule_kind schedule = schedule_kind::fill_drain;
  recompute_mode recompute = recompute_mode::except_last;
  std::int64_t limit = INT64_MAX;  // bytes of a stage
};

struct planned_stage {
  int first = 0, last = 0;  // the layers [first, last)
  std::int64_t forward = 0, backward = 0, bytes = 0;
};

struct planned {
  std::vector<planned_stage> stages;
  std::int64_t makespan = 0, bound = 0;
  double idle = 0;  // share of the workers' time
  int workers = 1;
  std::vector<event> events;

  std::int64_t most_bytes() const {
    std::int64_t most = 0;
    for (const planned_stage& s : stages) most = std::max(most, s.bytes);
    return most;
  }
};

/// Plans one subject for one choice.
class planner {
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  /// Whether a stage of a table's layers keeps within the limit, wherever the others are cut.
  bool fits(int stage, int begin, int end, std::int64_t limit) const {
    const int ends[] = {begin, end};
    return it_.bytes({ends, 1}, 0, terms_[at(stage)]) <= limit;
  }
  auto fits() const {
    return [this, any = c_.limit == INT64_MAX || it_.net](int stage, int begin, int end) {
      return any || fits(stage, begin, end, c_.limit);
    };
  }

 public:
  planner(const subject& it, const choice& c) : it_(it), c_(c), o_(it.options) {
    o_.stages = c.stages;
    o_.micro_batches = c.micro_batches;
    o_.schedule = c.schedule;
    o_.recompute = c.recompute;
    o_.memory_limit = c.limit;
    o_.require_sensible(it.layers());
    with_schedule(c.schedule, [this](auto schedule) {
      gpipe::detail::require_admitted(schedule, c_.stages, c_.micro_batches);
      workers_ = schedule.workers(c_.stages);
      trains_ = schedule.trains;
      split_ = trains_ && gpipe::detail::splits_backward(schedule, c_.stages, c_.micro_batches);
    });
    find_terms();
    for (int s = 0; s + 1 < c.stages; ++s) links_.push_back({s, s + 1, true});
  }

  planned plan() {
    require_room();
    planned found;
    found.bound = with_schedule(c_.schedule, [this](auto schedule) {
      return schedule_lower_bound(schedule, it_.costs.data(), it_.layers(), c_.stages, c_.micro_batches, c_.recompute,
                                  fits());
    });
    const std::vector<int> first = best_cut(found.bound);
    if (it_.net) {
      o_.coalesce = coalesced(*it_.net, o_, o_.chosen_schedule(), {first.data(), c_.stages});
      find_terms();
    }
    std::vector<std::int64_t> idle(at(workers_));
    const auto watch = [&](const instruction& it, std::int64_t from, std::int64_t to) {
      const bool whole = it.kind == action_kind::backward_input && !split_;  // its other part takes no time
      if (to > from) found.events.push_back({from, to, whole ? action_kind::backward : it.kind, it.stage, it.micro_batch, -1});
    };
    found.makespan = step(first, {.idle = idle.data()}, watch);
    for (int s = 0; s < c_.stages; ++s) {
      const int begin = first[at(s)], end = first[at(s) + 1];
      const stage_times t = times(begin, end);
      found.stages.push_back(
          {begin, end, t.forward, t.backward_input + t.backward_parameters, bytes(first, s, working_sets(first, s))});
    }
    found.workers = workers_;
    double waits = 0;
    for (const std::int64_t ns : idle) waits += static_cast<double>(ns);
    if (found.makespan > 0) found.idle = waits / static_cast<double>(found.makespan) / workers_;
    return found;
  }

 private:
  void find_terms() {
    terms_.clear();
    for (int s = 0; s < c_.stages; ++s) terms_.push_back(terms_of(o_.chosen_schedule(), o_, s));
  }

  /// Whether any cut obeys the limit: from stage to stage, where the next can begin.
  bool has_room(std::int64_t limit) const {
    const int L = it_.layers();
    std::vector<int> begins{0};
    for (int s = 0; s < c_.stages; ++s) {
      std::vector<int> change(at(L + 2)), ends;  // of how many of those before can end here
      for (const int begin : begins) {
        int low = begin, high = L;  // a stage that holds more needs more
        while (low < high) {
          const int middle = high - (high - low) / 2;
          if (fits(s, begin, middle, limit)) low = middle;
          else high = middle - 1;
        }
        ++change[at(begin) + 1];
        --change[at(low) + 1];
      }
      int reached = 0;
      for (int end = 1; end <= L; ++end)
        if ((reached += change[at(end)]) > 0) ends.push_back(end);
      if (!ends.empty() && ends.back() == L && s + 1 < c_.stages) ends.pop_back();
      begins.swap(ends);
    }
    return !begins.empty() && begins.back() == it_.layers();
  }

  /// The library's cut of a model written with it: the best that obeys the limit by the partition's own objective. The
  /// smallest limit that would do, where none obeys this one; else 0.
  std::int64_t choose(std::vector<int>& first) const {
    const stage_costs costs{it_.costs.data(), it_.layers()};
    first.resize(at(c_.stages) + 1);
    if (choose_cut(*it_.net, o_, o_.chosen_schedule(), costs, first.data())) return 0;
    return min_memory_limit(*it_.net, o_, o_.chosen_schedule(), costs);
  }

  void require_room() const {
    if (c_.limit == INT64_MAX) return;
    std::vector<int> first;
    std::int64_t low = c_.limit, high = low;  // low does not do
    if (it_.net) {
      high = choose(first);
      if (high == 0) return;
    } else {
      if (has_room(c_.limit)) return;
      while (!has_room(high)) high = high > INT64_MAX / 2 ? INT64_MAX : 2 * high;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (has_room(middle) ? high : low) = middle;
      }
    }
    throw error(
        concat({"no cut of ", several(it_.layers(), "layer"), " into ", several(c_.stages, "stage"), " fits ",
                several(c_.limit, "byte"), " a stage"}),
        concat({"the smallest limit that would do is ", several(high, "byte")}));
  }

  /// What recompute as needed keeps: as much as there is room for.
  int working_sets(const std::vector<int>& first, int stage) const {
    int kept = terms_[at(stage)].kept_copies;
    if (c_.recompute == recompute_mode::as_needed)
      while (kept < terms_[at(stage)].in_flight && bytes(first, stage, kept + 1) <= c_.limit) ++kept;
    return kept;
  }
  std::int64_t bytes(const std::vector<int>& first, int stage, int kept) const {
    memory_terms terms = terms_[at(stage)];
    terms.kept_copies = kept;
    return it_.bytes({first.data(), c_.stages}, stage, terms);
  }

  stage_times times(int begin, int end) const {
    stage_times sum;
    for (int l = begin; l < end; ++l) {
      const layer_cost& c = it_.costs[at(l)];
      sum.forward += c.forward;
      (split_ ? sum.backward_parameters : sum.backward_input) += c.backward_parameters;
      sum.backward_input += c.backward_input;
    }
    return sum;
  }

  template <class Witness = gpipe::detail::no_witness>
  std::int64_t step(const std::vector<int>& first, const simulation_details& details = {},
                    const Witness& witness = {}) const {
    std::vector<stage_times> stages;
    std::vector<int> kept;
    for (int s = 0; s < c_.stages; ++s) {
      stages.push_back(times(first[at(s)], first[at(s) + 1]));
      kept.push_back(working_sets(first, s));
    }
    return simulate(c_.schedule,
                    {c_.stages,
                     c_.micro_batches,
                     {c_.recompute, kept.data()},
                     stages.data(),
                     links_.data(),
                     static_cast<int>(links_.size())},
                    details, witness);
  }

  bool obeys(const std::vector<int>& first) const {
    for (int s = 0; c_.limit != INT64_MAX && s < c_.stages; ++s)
      if (bytes(first, s, terms_[at(s)].kept_copies) > c_.limit) return false;
    return true;
  }

  /// The partitions' cuts come near, for fill-drain without recompute and forward only as near as can be. Else, until
  /// the bound is reached: of few cuts all; of many, one border moves at a time while that helps.
  std::vector<int> best_cut(std::int64_t bound) const {
    const int L = it_.layers(), S = c_.stages, M = c_.micro_batches;
    const bool again = c_.recompute == recompute_mode::always || c_.recompute == recompute_mode::except_last;
    std::vector<slot_cost> costs;
    for (const layer_cost& c : it_.costs) costs.push_back(trains_ ? slot_cost_of(c, again) : slot_cost{c.forward, 0});

    std::vector<int> best, first(at(S) + 1);
    std::int64_t shortest = INT64_MAX;
    const auto consider = [&](const std::vector<int>& cut) {
      if (!obeys(cut)) return false;
      const std::int64_t time = step(cut);
      if (time >= shortest) return false;
      shortest = time;
      best = cut;
      return true;
    };
    if (it_.net && c_.limit != INT64_MAX) {
      choose(first);
      consider(first);
    }
    for (const objective goal : {objective::fill_drain, objective::bottleneck}) {
      partition_problem problem{L, S, M, costs.data()};
      problem.goal = goal;
      partition(problem, first.data(), fits());
      consider(first);
      if (shortest <= bound) return best;
    }

    constexpr double affordable = 3e6;  // instructions of simulated steps, a second or so
    const double instructions = 8.0 * S * M;
    double cuts = 1;
    for (int s = 1; s < S; ++s) cuts *= static_cast<double>(L - s) / s;
    if (cuts * instructions < 4 * affordable) {
      for (int s = 0; s < S; ++s) first[at(s)] = s;
      for (first.back() = L; shortest > bound;) {
        consider(first);
        int s = S - 1;
        while (s > 0 && first[at(s)] == L - (S - s)) --s;
        if (s == 0) break;
        ++first[at(s)];
        for (; s + 1 < S; ++s) first[at(s) + 1] = first[at(s)] + 1;
      }
      return best;
    }
    double spent = 0;
    for (bool moved = true; moved && shortest > bound && spent < affordable;) {
      moved = false;
      for (int s = 1; s < S; ++s)
        for (const int by : {-1, 1})
          for (bool helps = true; helps && spent < affordable; spent += instructions) {
            first = best;
            first[at(s)] += by;
            helps = first[at(s)] > first[at(s) - 1] && first[at(s)] < first[at(s) + 1] && consider(first);
            moved = moved || helps;
          }
    }
    return best;
  }

  const subject& it_;
  const choice& c_;
  plan_options o_;
  int workers_ = 1;
  bool trains_ = true, split_ = false;
  std::vector<memory_terms> terms_;  // of each stage, with the fewest working sets
  std::vector<link> links_;
};

planned plan_for(const subject& it, const choice& c) { return planner(it, c).plan(); }

// What is shown ------------------------------------------------------------------------------------------------------

constexpr std::pair<const char*, schedule_kind> schedules[] = {{"fill-drain", schedule_kind::fill_drain},
                                                               {"1f1b", schedule_kind::one_f_one_b},
                                                               {"interleaved", schedule_kind::interleaved},
                                                               {"zb-h1", schedule_kind::zb_h1},
                                                               {"zb-v", schedule_kind::zb_v},
                                                               {"forward-only", schedule_kind::forward_only}};
constexpr std::pair<const char*, recompute_mode> recomputes[] = {{"always", recompute_mode::always},
                                                                 {"except-last", recompute_mode::except_last},
                                                                 {"as-needed", recompute_mode::as_needed},
                                                                 {"never", recompute_mode::never}};

std::string time(std::int64_t ns) {
  const char* units[] = {" ns", " us", " ms", " s"};
  double value = static_cast<double>(ns);
  int unit = 0;
  for (; value >= 999.5 && unit < 3; ++unit) value /= 1000;
  return unit == 0 ? fixed(value, 0) + units[0] : gpipe::detail::significant(value, 4) + units[unit];
}
std::string percent(double share) { return fixed(100 * share, 1) + " %"; }
std::string bytes(std::int64_t count) { return sized(static_cast<std::uint64_t>(count)); }

void print_plain(const planned& p) {
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const planned_stage& of = p.stages[s];
    std::cout << "stage " << s << " first " << of.first << " last " << of.last - 1 << " forward_ns " << of.forward
              << " backward_ns " << of.backward << " bytes " << of.bytes << '\n';
  }
  std::cout << "makespan_ns " << p.makespan << "\nlower_bound_ns " << p.bound << '\n';
}

void print_stages(const subject& it, const choice& c, const planned& p) {
  std::cout << "\nThe best cut into " << several(c.stages, "stage") << " found for " << name(c.schedule) << " with "
            << several(c.micro_batches, "micro-batch") << ", recompute " << name_of(c.recompute);
  if (it.net)
    std::cout << ";\na micro-batch has " << several(it.options.micro_batch_size, "sample")
              << ", and times are reckoned for " << it.options.device.name;
  std::cout << "\n\n";
  std::int64_t all = 0;
  for (const planned_stage& s : p.stages) all += s.forward + s.backward;
  table rows{{"stage", "layers", "from", "to", "parameters", "memory", "forward", "backward", "share"}};
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const planned_stage& of = p.stages[s];
    rows.push_back({std::to_string(s), concat({of.first, "-", of.last - 1}),
                    it.names[static_cast<std::size_t>(of.first)], it.names[static_cast<std::size_t>(of.last) - 1],
                    it.parameters(of.first, of.last), bytes(of.bytes), time(of.forward), time(of.backward),
                    gpipe::detail::percent(static_cast<double>(of.forward + of.backward), static_cast<double>(all))});
  }
  std::cout << gpipe::detail::table(rows);
}

/// A line for a choice, or why there is none.
void add_line(table& rows, std::string what, const subject& it, const choice& c) {
  try {
    const planned p = plan_for(it, c);
    const double above = p.bound > 0 ? static_cast<double>(p.makespan) / static_cast<double>(p.bound) : 1;
    rows.push_back({std::move(what), std::to_string(c.stages), std::to_string(p.workers), time(p.makespan),
                    time(p.bound), percent(above - 1), percent(p.idle), bytes(p.most_bytes())});
  } catch (const error& none) {
    rows.push_back({std::move(what), std::to_string(c.stages), "-", "-", "-", "-", "-", none.wrong()});
  }
}

void print_choices(const subject& it, const choice& chosen) {
  const auto head = [](const char* what) {
    return table{{what, "stages", "devices", "a step", "at least", "above", "idle", "largest stage"}};
  };
  table by_stages = head(""), by_schedule = head("schedule"), by_recompute = head("recompute");
  for (int s = 1; s <= std::min(it.layers(), 2 * chosen.stages); s *= 2) {
    choice c = chosen;
    c.stages = s;
    add_line(by_stages, "", it, c);
  }
  for (const auto& [word, kind] : schedules) {
    choice c = chosen;  // on as many devices: two of the schedules have two stages on each
    const auto doubles = [](schedule_kind k) { return k == schedule_kind::interleaved || k == schedule_kind::zb_v; };
    if (doubles(kind) && !doubles(c.schedule)) c.stages *= 2;
    if (!doubles(kind) && doubles(c.schedule)) c.stages /= 2;
    c.schedule = kind;
    add_line(by_schedule, word, it, c);
  }
  for (const auto& [word, mode] : recomputes) {
    choice c = chosen;
    c.recompute = mode;
    add_line(by_recompute, word, it, c);
  }
  for (const table* rows : {&by_stages, &by_schedule, &by_recompute}) {
    std::cout << '\n';
    std::cout << gpipe::detail::table(*rows);
  }
}

// The picture --------------------------------------------------------------------------------------------------------

/// The model as a bar, cut into stages, each layer as wide as its share of the time; below it the timetable.
void draw(const std::string& path, const subject& it, const choice& c, const planned& p) {
  write_file(path, [&](std::ostream& out) {
    constexpr double width = 1200, left = 76, bar = width - 2 * left, top = 50, height = 34, below = 120;
    const int lanes = c.stages;
    const double lane = std::clamp(640.0 / lanes, 12.0, 34.0);
    gpipe::detail::canvas picture(out, width, below + 140 + lanes * (lane + 6), it.title);
    picture.text("head", 20, 30,
                 it.title + ": " + several(it.layers(), "layer") + " on " + several(c.stages, "stage"));
    double all = 0, x = left;
    for (const planned_stage& s : p.stages) all += static_cast<double>(s.forward + s.backward);
    for (std::size_t s = 0; s < p.stages.size(); ++s) {
      const planned_stage& of = p.stages[s];
      const double begin = x;
      for (int l = of.first; l < of.last; ++l) {
        const layer_cost& cost = it.costs[static_cast<std::size_t>(l)];
        const double share = static_cast<double>(cost.forward + cost.backward_input + cost.backward_parameters);
        const double wide = all > 0 ? share / all * bar : bar / it.layers();
        picture.action("layer", action_kind::forward, static_cast<int>(s), x, top, std::max(0.1, wide - (wide > 3 ? 0.8 : 0)),
                       height,
                       concat({"layer ", l, " ", it.names[static_cast<std::size_t>(l)], ": "}) +
                           time(cost.forward + cost.backward_input + cost.backward_parameters));
        x += wide;
      }
      if (x - begin > 30) {
        picture.text("light", (begin + x) / 2, top + height / 2 + 4, std::to_string(s));
        if (x - begin > 64) picture.text("tick", (begin + x) / 2, top + height + 18, bytes(of.bytes));
      }
    }
    out << "<g transform=\"translate(0," << fixed(below, 0) << ")\">\n";
    write_timeline(out, p.events,
                   std::string(name(c.schedule)) + ", " + several(c.micro_batches, "micro-batch") +
                       ": a step takes " + time(p.makespan),
                   static_cast<int>(width));
    out << "</g>\n";
  });
}

// The paper's Transformers -------------------------------------------------------------------------------------------

// Table 1: a mini-batch of 32, here in micro-batches of one sample; a value, a gradient and one moment a parameter.
constexpr plan_options as_in_the_paper(int stages) {
  return {.stages = stages,
          .micro_batches = 32,
          .micro_batch_size = 1,
          .recompute = recompute_mode::always,
          .optimizer_moments = 1,
          .device = tpu_v3_core};
}
constexpr std::int64_t paper_limit = tpu_v3_core.memory_bytes;

constexpr std::int64_t activations(const stage_memory& m) {
  return m.total() - m.of(memory_kind::parameters) - m.of(memory_kind::gradients) - m.of(memory_kind::moments);
}

std::int64_t largest_stage(const network& net, int stages) {
  std::int64_t most = 0;
  const runtime_plan p = make_plan(net, as_in_the_paper(stages));
  for (const stage_memory& m : p.memory) most = std::max(most, m.total());
  return most;
}

/// The most blocks that devices of the paper's memory hold: every further block of a stage needs as much again.
int most_blocks(int stages) {
  const auto more = [](std::int64_t one, std::int64_t two) {
    return one > paper_limit ? 0 : 1 + static_cast<int>((paper_limit - one) / (two - one));
  };
  if (stages == 1)
    return more(largest_stage(network_of<transformer<1>>, 1), largest_stage(network_of<transformer<2>>, 1));
  const network& net = network_of<transformer<8>>;
  const int L = net.slot_count, block = 6;
  const auto needs = [&](int first, int last) {
    const int ends[] = {0, first, last, L};
    const int skip = first == 0, count = 3 - skip - (last == L);
    const memory_terms paper{.micro_batches = 32,
                             .micro_batch_size = 1,
                             .in_flight = 32,
                             .optimizer_moments = 1,
                             .stash = {32, 32},
                             .returned = {2, 2}};
    return memory_of(stage_view(net, {ends + skip, count}, 1 - skip), paper).total();
  };
  const int head = more(needs(0, 1 + block), needs(0, 1 + 2 * block));
  const int middle = more(needs(1, 1 + block), needs(1, 1 + 2 * block));
  const int tail = more(needs(L - 1 - block, L), needs(L - 1 - 2 * block, L));
  return head + (stages - 2) * middle + tail;
}

template <int Blocks>
void add_transformer(table& rows, int stages, double paper_activations) {
  const network& net = network_of<transformer<Blocks>>;
  const runtime_plan p = make_plan(net, as_in_the_paper(stages));
  std::int64_t most = 0, kept = 0;
  for (const stage_memory& m : p.memory) {
    most = std::max(most, m.total());
    kept += activations(m);
  }
  const auto giga = [](std::int64_t count) { return fixed(static_cast<double>(count) * 1e-9, 1); };
  rows.push_back({std::to_string(Blocks), std::to_string(stages), counted(net.parameters()),
                  giga(static_cast<std::int64_t>(net.parameters()) * 12), giga(kept), fixed(paper_activations, 1),
                  giga(most), most <= paper_limit ? "yes" : "no", percent(timetable(fill_drain{}, stages, 32).bubble()),
                  std::to_string(most_blocks(stages))});
}

void print_transformers() {
  std::cout
      << "The paper's Transformers (table 1): d 2048, 1024 tokens, a batch of 32 in micro-batches of one, always\n"
         "recomputed, fill-drain; 12 bytes a parameter; in GB. \"paper\" is the paper's peak of activations, and\n"
         "\"most\" is how many blocks would fit 16 GB a device.\n\n";
  table rows{{"blocks", "stages", "parameters", "they need", "activations", "paper", "largest stage", "fits 16",
              "bubble", "most"}};
  add_transformer<3>(rows, 1, 11.7);
  add_transformer<13>(rows, 1, 6.4);
  add_transformer<103>(rows, 8, 50.9);
  add_transformer<415>(rows, 32, 199.9);
  add_transformer<1663>(rows, 128, 796.1);
  std::cout << gpipe::detail::table(rows);
}

// The command line ---------------------------------------------------------------------------------------------------

template <class Value, std::size_t N>
std::vector<std::pair<std::string, Value>> words(const std::pair<const char*, Value> (&list)[N]) {
  return {std::begin(list), std::end(list)};
}

struct settings {
  choice how;
  int micro_batch_size = 8;
  std::string costs, svg;
  bool plain = false, stages_given = false;

  bool read(int count, char** arguments) {
    if (!example::options(
             "plan: cuts a model into pipeline stages, and tells what a step will take and need before anything runs.\n"
             "Without --costs it plans the paper's Transformers and the model at the top of examples/plan.cpp.")
             .text("--costs", "FILE", costs,
                   "plan the layers of a table: a header line\n"
                   "                            name,forward_ns,backward_ns,parameter_bytes,activation_bytes\n"
                   "                            (and output_bytes, if known) and a line a layer, for one\n"
                   "                            micro-batch. parameter_bytes are all that comes with its\n"
                   "                            parameters: gradients and the optimizer's state too;\n"
                   "                            activation_bytes what it keeps for backward, output_bytes what\n"
                   "                            the next layer reads. Zero-bubble schedules split backward in\n"
                   "                            halves")
             .number("--stages", how.stages, 1, 100'000, "stages of the pipeline, at most as many as layers")
             .number("--micro-batches", how.micro_batches, 1, 100'000, "micro-batches of a step")
             .number("--micro-batch-size", micro_batch_size, 1, 1'000'000, "samples of each, without --costs")
             .choice("--schedule", how.schedule, words(schedules), "the order of work")
             .choice("--recompute", how.recompute, words(recomputes),
                     "which micro-batches run forward again before backward;\n"
                     "                            as needed: as few as the memory limit asks for")
             .bytes("--memory-limit", how.limit, "of every stage, such as 16GiB; the cut obeys it")
             .text("--svg", "FILE.svg", svg, "draw the cut and the timetable")
             .flag("--plain", plain, "print for programs: a line a stage, makespan_ns and lower_bound_ns")
             .read(count, arguments))
      return false;
    const auto given = [&](std::string_view name) {
      return std::any_of(arguments + 1, arguments + count,
                         [name](std::string_view it) { return it.starts_with(name); });
    };
    stages_given = given("--stages");
    if (!costs.empty() && given("--micro-batch-size"))
      throw error("option --micro-batch-size: the figures of a table are of one micro-batch, whatever its size",
                  "leave it out, or give a table of such micro-batches");
    return true;
  }
};

void run(settings chosen) {
  if (!chosen.svg.empty()) require_writable(chosen.svg);
  const subject it =
      chosen.costs.empty()
          ? written_in_gpipe("own_model", network_of<own_model>,
                             {.micro_batches = chosen.how.micro_batches, .micro_batch_size = chosen.micro_batch_size})
          : from_table(chosen.costs);
  choice how = chosen.how;
  if (!chosen.stages_given) how.stages = std::min(how.stages, it.layers());
  const planned best = plan_for(it, how);
  if (!chosen.svg.empty()) draw(chosen.svg, it, how, best);
  if (chosen.plain) {
    print_plain(best);
  } else {
    if (chosen.costs.empty()) print_transformers();
    std::cout << (chosen.costs.empty() ? "\n" : "") << it.title << ": " << several(it.layers(), "layer") << "\n";
    print_stages(it, how, best);
    print_choices(it, how);
  }
}

int main(int count, char** arguments) {
  try {
    settings chosen;
    if (chosen.read(count, arguments)) run(chosen);
    if (!std::cout.flush()) throw error("cannot write to the standard output", "see where it goes");
  } catch (const std::exception& failure) {
    std::cerr << "plan: " << failure.what() << '\n';
    return 1;
  }
}
