#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe::detail {

/// The step of a cut, and how far it is from the shortest.
struct cut_quality {
  std::int64_t step = 0;  ///< its simulated time, in picoseconds
  std::int64_t min = 0;   ///< no cut that obeys the memory limit has a shorter step
  std::int64_t free = 0;  ///< the shortest step without that limit, if known; else 0
  std::int64_t cuts = 0;  ///< all cuts, if each was simulated; else 0
  bool proven = false;    ///< a cut with the step `min` exists
  bool whole = true;      ///< the search under the memory limit came to its end
};

/// Moves the boundaries of a cut that `search_cut` has found, while its simulated step gets shorter.
///
/// For fill-drain of a chained network with free transfers the search's objective is the step, and the cut is
/// the best. For others all cuts are simulated if they are few: if cuts x S x M is at most `max_simulated_cells`. Else
/// single boundaries move by one layer while that helps, within as many simulations. The cut stays if no step is
/// shorter.
void shorten_step(const network& net, const plan_options& o, const stage_costs& costs, bool searched_whole, int* first);

/// Compares a cut, which may be custom, with the best one.
cut_quality quality_of_cut(const network& net, const plan_options& o, const stage_costs& costs, const int* first);

/// Cells of all simulations for one plan: less than a tenth of a second if optimized.
inline constexpr std::int64_t max_simulated_cells = 1 << 16;

/// No cut that obeys the limit has a shorter step.
std::int64_t min_step(const network& net, const plan_options& o, const stage_costs& costs);

/// Simulates cuts of a network, with the working sets that each stage has memory for.
class cut_simulator {
 public:
  GPIPE_COLD cut_simulator(const network& net, const plan_options& o, const stage_costs& costs)
      : net_(net),
        o_(o),
        never_(o),
        schedule_(o.chosen_schedule()),
        costs_(costs),
        needs_(o.stages),
        limits_(o.stages),
        kept_(o.stages),
        recompute_(net, o, costs, needs_.data()) {
    never_.recompute = recompute_mode::never;
    for (int s = 0; s < o.stages; ++s) {
      needs_[s] = requirements_of(schedule_, o, s);
      limits_[s] = o.limit_of(s);
    }
  }

  /// Whether every stage of a cut exceeds its limit with any recomputes. Every other cut has a stage that holds all
  /// layers of a stage of this cut, so hardly any cut fits then.
  GPIPE_COLD bool all_exceed(const int* first) const {
    for (int s = 0; s < o_.stages; ++s)
      if (recompute_.decide(first, s, limits_[s]).fits) return false;
    return true;
  }
  /// The bytes of a worker that suffice for any stage of a cut, if a worker's stages share them equally.
  GPIPE_COLD std::int64_t most_bytes(const int* first) const {
    std::int64_t most = 0;
    for (int s = 0; s < o_.stages; ++s)
      if (const std::int64_t bytes = multiplied(recompute_.least_bytes(first, s), o_.stages_beside(s)); bytes > most)
        most = bytes;
    return most;
  }

  std::int64_t cells() const { return std::int64_t{o_.stages} * o_.micro_batches; }
  /// The work so far, in simulated cells.
  std::int64_t work() const { return simulated_ * cells() + recompute_.work(); }

  /// `unlimited` if a stage breaks the memory limit, or if a custom table is wrong for this cut, or if the step is not
  /// shorter than `than`: by the work of the busiest worker, or if nothing runs again. Then no byte is counted.
  GPIPE_COLD std::int64_t step_of(const int* first, std::int64_t than = unlimited) const {
    if (than != unlimited && o_.custom_schedule == nullptr) {
      if (longest_work(first) >= than) return unlimited;
      if (o_.limits_memory() && o_.recompute_whole() == recompute_mode::as_needed &&
          makespan(never_, cut{first, o_.stages}, [](int) { return 0; }) >= than)
        return unlimited;
    }
    const cut chosen{first, o_.stages, recompute_.before()};
    for (int s = 0; s < o_.stages; ++s) {
      const stage_recompute decided = recompute_.decide(first, s, limits_[s]);
      if (!decided.fits) return unlimited;
      kept_[s] = decided.working_sets;
    }
    return makespan(o_, chosen, [this](int s) { return kept_[s]; });
  }

  /// The number of all cuts if all can be simulated; else 0.
  GPIPE_COLD std::int64_t affordable_cuts() const {
    std::int64_t cuts = 1;
    for (int s = 1; s < o_.stages; ++s) {  // a product of s - 1 factors over (s - 1)!
      cuts = cuts * (net_.layer_count - s) / s;
      if (cuts > max_simulated_cells / cells()) return 0;
    }
    return cuts <= max_simulated_cells / cells() ? cuts : 0;
  }

  /// Calls `use(first, step)` for every cut; the step is `unlimited` where `step_of(first, than())` says so.
  template <class Use, class Than>
  void simulate_all(const Use& use, const Than& than) const {
    const int S = o_.stages, L = net_.layer_count;
    const zeroed_array<int> first(S);  // S + 1 elements
    for (int s = 0; s < S; ++s) first[s] = s;
    for (first[S] = L;;) {
      use(static_cast<const int*>(first.data()), step_of(first.data(), than()));
      int s = S - 1;
      while (s > 0 && first[s] == L - (S - s)) --s;
      if (s == 0) return;
      for (int begin = ++first[s]; s < S; ++s) first[s] = begin++;
    }
  }
  /// The shortest step of all cuts, or `shortest`. `best`, unless null, becomes its cut; of equal ones the first.
  GPIPE_COLD std::int64_t shortest_of_all(std::int64_t shortest, int* best) const {
    const auto use = [&](const int* first, std::int64_t step) {
      if (step >= shortest) return;
      shortest = step;
      for (int s = 0; best && s <= o_.stages; ++s) best[s] = first[s];
    };
    simulate_all(use, [&] { return shortest; });
    return shortest;
  }

  /// Moves one boundary at a time by one layer while the step gets shorter and longer than `bound`.
  GPIPE_COLD void move_boundaries(std::int64_t shortest, std::int64_t bound, int* first) const {
    std::int64_t left = max_simulated_cells / cells();
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 1; s < o_.stages; ++s)
        for (const int shift : {-1, 1})
          for (;;) {
            if (shortest <= bound || left-- <= 0) return;
            first[s] += shift;
            const bool is_cut = first[s] > first[s - 1] && first[s] < first[s + 1];
            const std::int64_t step = is_cut ? step_of(first) : unlimited;
            if (step >= shortest) {
              first[s] -= shift;
              break;
            }
            shortest = step;
            moved = true;
          }
    }
  }

 private:
  template <class WorkingSets>
  GPIPE_COLD std::int64_t makespan(const plan_options& o, const cut& cut, const WorkingSets& kept) const {
    ++simulated_;
    const link_list links(net_, cut);
    if (o_.custom_schedule != nullptr &&
        !check_timetable(schedule_, o_.stages, o_.micro_batches, links.data(), links.count()).ok())
      return unlimited;
    return makespan_of(net_, o, schedule_, costs_, cut, links.data(), links.count(), kept);
  }
  /// The time that the busiest worker computes, if nothing runs again.
  GPIPE_COLD std::int64_t longest_work(const int* first) const {
    const zeroed_array<std::int64_t> work(schedule_.workers(o_.stages));
    std::int64_t longest = 0;
    for (int s = 0; s < o_.stages; ++s) {
      std::int64_t& worker_work = work[schedule_.worker_of(o_.stages, s)];
      const stage_times t = times_of(costs_.of(s), first[s], first[s + 1], false);
      worker_work = summed(worker_work, summed(t.forward, summed(t.backward_input, t.backward_parameters)));
      longest = worker_work > longest ? worker_work : longest;
    }
    return schedule_.trains ? multiplied(longest, o_.micro_batches) : 0;
  }

  const network& net_;
  const plan_options& o_;
  plan_options never_;  // the options, if nothing runs again
  const schedule_choice schedule_;
  const stage_costs& costs_;
  const zeroed_array<memory_requirements> needs_;
  const zeroed_array<std::int64_t> limits_;
  const zeroed_array<int> kept_;
  mutable recompute_search recompute_;
  mutable std::int64_t simulated_ = 0;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/plan/cut/simulated_cut-inl.hpp>
#endif
