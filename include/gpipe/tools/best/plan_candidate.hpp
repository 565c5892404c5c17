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

/// The choices of a plan in a space, and the results of a search for it. Times are in picoseconds.
struct plan_candidate {
  schedule_kind schedule = schedule_kind::one_f_one_b;
  int chunks = 2, replicas = 1, workers = 1, stages = 1, micro_batches = 1, micro_batch_size = 1;
  std::int64_t bound = 0;                 ///< its step is not shorter
  std::int64_t step = detail::unlimited;  ///< of the best known cut; `unlimited`: no cut that fits is known

  /// The options with these choices.
  constexpr plan_options in(plan_options options) const {
    options.schedule = schedule;
    options.chunks = chunks;
    options.replicas = replicas;
    options.stages = stages;
    options.micro_batches = micro_batches;
    options.micro_batch_size = micro_batch_size;
    options.workers = 0;
    options.group_gradients = 0;
    options.custom_schedule = nullptr;
    return options;
  }
};

namespace detail {

// change: a schedule; the search for the best plan
/// The schedules that train. Among those with equally long steps, the one that needs less memory comes first.
inline constexpr schedule_kind searched_kinds[] = {
    schedule_kind::one_f_one_b, schedule_kind::v_min,      schedule_kind::v_half,         schedule_kind::zb_h1,
    schedule_kind::zb_v,        schedule_kind::zb_2p,      schedule_kind::dual_pipe_v,    schedule_kind::interleaved,
    schedule_kind::looped_bfs,  schedule_kind::fill_drain, schedule_kind::interleaved_zb,
};

/// The least samples of a micro-batch: the choice of the space, or two for a model with batch norms, because the
/// statistics of one sample would be the sample.
constexpr int least_micro_batch_size(const network& net, const plan_space& space) {
  int least = space.min_micro_batch_size;
  for (int t = 0; t < net.type_count && least == 0; ++t)
    if (net.types[t].state_count > 0) least = 2;
  return least;
}

/// Calls `use(M, B)` for the numbers and sizes of micro-batches of `samples` samples: no smaller number of
/// micro-batches of this size, and no smaller size of this number, holds them; and no micro-batch, the last one of the
/// mini-batch included, is smaller than the space allows. A number that the space fixes has one size, and a size one
/// number. Numbers above `max_count` are left out.
template <class Use>
constexpr void each_split(int samples, const plan_space& space, const Use& use, std::int64_t max_count = unlimited) {
  const auto ceil_div = [](int a, int b) { return a / b + (a % b != 0); };
  const int fixed_M = space.micro_batches, fixed_B = space.micro_batch_size;
  if (fixed_M > 0 || fixed_B > 0) {
    const int M = fixed_M > 0 ? fixed_M : ceil_div(samples, fixed_B),
              B = fixed_B > 0 ? fixed_B : ceil_div(samples, fixed_M);
    if (std::int64_t{M} * B >= samples && M <= max_count) use(M, B);
    return;
  }
  const int most = space.replicas > 0 ? samples : space.batch;
  const int least = space.min_micro_batch_size < most ? space.min_micro_batch_size : most;
  for (int M = 1; M <= samples && M <= max_count;) {
    const int B = ceil_div(samples, M), last = space.batch % B;
    if (B >= least && (last == 0 || last >= least)) use(M, B);
    M = B > 1 ? ceil_div(samples, B - 1) : samples + 1;  // the next number with a smaller size
  }
}

/// Calls `use` for all plans of a space for a model of `layers` layers, except for cut and recompute. Plans with more
/// than `max_cells` stages x micro-batches are left out.
template <class Use>
constexpr void each_candidate(const plan_space& space, const plan_options& options, int layers, const Use& use,
                              std::int64_t max_cells = unlimited) {
  const auto free_or = [](int fixed, int given) { return fixed == 0 || fixed == given; };
  const int most = space.devices < space.batch ? space.devices : space.batch;
  for (int R = 1; R <= most; ++R) {
    if (!free_or(space.replicas, R) || (options.device_count > 0 && R > 1)) continue;
    const int samples = space.batch / R + (space.batch % R != 0);
    for (int K = 1; K <= space.devices / R && K <= layers; ++K) {
      if (!free_or(space.workers, K)) continue;
      const auto add = [&](schedule_kind kind, int chunks) {
        const int S = K * stages_per_worker(kind, chunks);
        if (S > layers) return;
        const schedule_choice schedule(kind, chunks);
        each_split(
            samples, space,
            [&](int M, int B) {
              if (schedule.admits(S, M)) use(plan_candidate{kind, chunks, R, K, S, M, B});
            },
            max_cells / S);
      };
      for (const schedule_kind kind : searched_kinds) {
        if (space.schedule ? kind != *space.schedule : K == 1 && stages_per_worker(kind) > 1) continue;
        if (!has_chunks(kind)) add(kind, 2);
        else
          for (int chunks = 2; chunks <= space.max_chunks; ++chunks) add(kind, chunks);
      }
    }
  }
}

inline constexpr std::size_t max_candidates = std::size_t{1} << 22;

/// All plans of a space for a model of `layers` layers, except for cut and recompute.
GPIPE_COLD inline std::vector<plan_candidate> candidates_in(const plan_space& space, const plan_options& options,
                                                            int layers) {
  std::vector<plan_candidate> candidates;
  each_candidate(space, options, layers, [&candidates](const plan_candidate& candidate) {
    if (candidates.size() == max_candidates)
      throw_error({"the space has more than ", max_candidates, " plans"},
                  {"fix more choices, such as workers or micro_batch_size"});
    candidates.push_back(candidate);
  });
  return candidates;
}

}  // namespace detail

}  // namespace gpipe
