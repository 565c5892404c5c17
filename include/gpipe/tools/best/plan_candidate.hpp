#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/model/network.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/tools/best/plan_space.hpp>

namespace gpipe {

/// The choices of a plan in a space, and what a search knows of it. Times are in picoseconds.
struct plan_candidate {
  schedule_kind schedule = schedule_kind::one_f_one_b;
  int chunks = 2, replicas = 1, workers = 1, stages = 1, micro_batches = 1, micro_batch_size = 1;
  std::int64_t bound = 0;                 ///< no step of it is shorter
  std::int64_t step = detail::unlimited;  ///< of the best cut that is known; `unlimited`: none that fits is known

  /// The options with these choices.
  constexpr plan_options in(plan_options o) const {
    o.schedule = schedule;
    o.chunks = chunks;
    o.replicas = replicas;
    o.stages = stages;
    o.micro_batches = micro_batches;
    o.micro_batch_size = micro_batch_size;
    o.workers = 0;
    o.group_gradients = 0;
    o.custom_schedule = nullptr;
    return o;
  }
};

namespace detail {

/// The schedules that train: of those with equally long steps first the one that needs less memory.
inline constexpr schedule_kind searched_kinds[] = {
    schedule_kind::one_f_one_b, schedule_kind::v_min,      schedule_kind::v_half,         schedule_kind::zb_h1,
    schedule_kind::zb_v,        schedule_kind::zb_2p,      schedule_kind::dual_pipe_v,    schedule_kind::interleaved,
    schedule_kind::looped_bfs,  schedule_kind::fill_drain, schedule_kind::interleaved_zb,
};

/// The samples of a micro-batch that a space asks for, or two for a model with batch norms: the statistics of one
/// sample would be the sample.
constexpr int least_micro_batch_size(const network& net, const plan_space& of) {
  int least = of.min_micro_batch_size;
  for (int t = 0; t < net.type_count && least == 0; ++t)
    if (net.types[t].state_count > 0) least = 2;
  return least;
}

/// Calls `use(M, B)` for the numbers and sizes of micro-batches of `samples` samples: no smaller number of
/// micro-batches of this size, and no smaller size of this number, holds them; and no micro-batch, the last one of the
/// mini-batch included, is smaller than the space allows. A number that the space fixes has one size, and a size one
/// number. Numbers above `max_count` are left out.
template <class Use>
constexpr void each_split(int samples, const plan_space& of, const Use& use, std::int64_t max_count = unlimited) {
  const auto up = [](int a, int b) { return a / b + (a % b != 0); };
  const int fixed_M = of.micro_batches, fixed_B = of.micro_batch_size;
  if (fixed_M > 0 || fixed_B > 0) {
    const int M = fixed_M > 0 ? fixed_M : up(samples, fixed_B), B = fixed_B > 0 ? fixed_B : up(samples, fixed_M);
    if (std::int64_t{M} * B >= samples && M <= max_count) use(M, B);
    return;
  }
  const int most = of.replicas > 0 ? samples : of.batch;
  const int least = of.min_micro_batch_size < most ? of.min_micro_batch_size : most;
  for (int M = 1; M <= samples && M <= max_count;) {
    const int B = up(samples, M), last = of.batch % B;
    if (B >= least && (last == 0 || last >= least)) use(M, B);
    M = B > 1 ? up(samples, B - 1) : samples + 1;  // the next number with a smaller size
  }
}

/// Calls `use` for all plans of a space for a model of `layers` layers, but for cut and recompute. Those of more than
/// `max_cells` stages x micro-batches are left out.
template <class Use>
constexpr void each_candidate(const plan_space& of, const plan_options& rest, int layers, const Use& use,
                              std::int64_t max_cells = unlimited) {
  const auto free_or = [](int fixed, int given) { return fixed == 0 || fixed == given; };
  const int most = of.devices < of.batch ? of.devices : of.batch;
  for (int R = 1; R <= most; ++R) {
    if (!free_or(of.replicas, R) || (rest.device_count > 0 && R > 1)) continue;
    const int samples = of.batch / R + (of.batch % R != 0);
    for (int K = 1; K <= of.devices / R && K <= layers; ++K) {
      if (!free_or(of.workers, K)) continue;
      const auto add = [&](schedule_kind kind, int chunks) {
        const int S = K * stages_per_worker(kind, chunks);
        if (S > layers) return;
        const schedule_choice schedule(kind, chunks);
        each_split(
            samples, of,
            [&](int M, int B) {
              if (schedule.admits(S, M)) use(plan_candidate{kind, chunks, R, K, S, M, B});
            },
            max_cells / S);
      };
      for (const schedule_kind kind : searched_kinds) {
        if (of.schedule ? kind != *of.schedule : K == 1 && stages_per_worker(kind) > 1) continue;
        if (!has_chunks(kind)) add(kind, 2);
        else
          for (int chunks = 2; chunks <= of.max_chunks; ++chunks) add(kind, chunks);
      }
    }
  }
}

inline constexpr std::size_t max_candidates = std::size_t{1} << 22;

/// All plans of a space for a model of `layers` layers, but for cut and recompute.
GPIPE_COLD inline std::vector<plan_candidate> candidates_in(const plan_space& of, const plan_options& rest,
                                                            int layers) {
  std::vector<plan_candidate> all;
  each_candidate(of, rest, layers, [&all](const plan_candidate& it) {
    if (all.size() == max_candidates)
      throw_error({"the space has more than ", max_candidates, " plans"},
                  {"fix more choices, such as workers or micro_batch_size"});
    all.push_back(it);
  });
  return all;
}

}  // namespace detail

}  // namespace gpipe
