#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

/// The plans that a search considers: all ways to train a mini-batch of `batch` samples on `devices` devices. A number
/// that is 0 is searched; any other is fixed, and so is a schedule.
///
///     replicas R x workers K <= devices        R x micro-batches M x micro-batch size B >= batch
struct plan_space {
  int devices = 1;  ///< D
  int batch = 32;   ///< samples of a mini-batch, over all replicas
  int replicas = 0, workers = 0, micro_batches = 0, micro_batch_size = 0;
  std::optional<schedule_kind> schedule{};
  int max_chunks = 4;  ///< the most stages per worker, for schedules that have this choice
  /// The fewest samples of a searched micro-batch, the last one included. 0: 1, or 2 for a model with batch norms,
  /// which would otherwise normalize by the statistics of one sample. A fixed number or size stays.
  int min_micro_batch_size = 0;
};

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

/// A schedule that trains, with estimates of its plans of K workers and M micro-batches.
struct searched_kind {
  schedule_kind kind;
  /// It fills and drains in about K - 1 times forward, `input` x the input part and `parameters` x the parameter part.
  int input = 1, parameters = 1;
  int (*copies)(int K, int M) = [](int K, int) { return K; };  ///< in flight, averaged over the layers; at most M count
  int lead = 1;               ///< forwards before the first backward, in multiples of K; 0: all
  bool makes_table = false;   ///< it simulates its own table, which takes several times as long as a formula
  bool needs_little = false;  ///< its plans come first where memory is limited
  bool ranked = true;         ///< `choose_best` tries it even if the space does not fix it
};

// change: a schedule; the search for the best plan
/// All schedules that train. Among those with equally long steps, the one that needs less memory comes first.
inline constexpr auto searched_kinds = [] {
  constexpr auto half_of_workers = [](int K, int) { return (K + 1) / 2; };
  constexpr auto all_micro_batches = [](int, int M) { return M; };
  return std::to_array<searched_kind>({
      {.kind = schedule_kind::one_f_one_b, .copies = half_of_workers, .needs_little = true},
      {.kind = schedule_kind::v_min,
       .input = 2,
       .parameters = 0,
       .copies = [](int K, int) { return K / 3 + 1; },
       .makes_table = true},
      {.kind = schedule_kind::v_half, .parameters = 0, .copies = half_of_workers, .makes_table = true},
      {.kind = schedule_kind::zb_h1, .parameters = -1, .needs_little = true},
      {.kind = schedule_kind::zb_v, .parameters = -2, .makes_table = true, .needs_little = true},
      {.kind = schedule_kind::zb_2p, .parameters = -2, .copies = [](int K, int) { return 2 * K - 1; }, .lead = 2},
      {.kind = schedule_kind::dual_pipe_v, .parameters = -2, .makes_table = true},
      {.kind = schedule_kind::interleaved},
      {.kind = schedule_kind::looped_bfs, .copies = all_micro_batches},
      {.kind = schedule_kind::fill_drain, .copies = all_micro_batches, .lead = 0},
      {.kind = schedule_kind::interleaved_zb, .parameters = -1, .makes_table = true, .ranked = false},
  });
}();

/// The row of a kind; null: it is not searched.
constexpr const searched_kind* find_searched(schedule_kind kind) {
  for (const searched_kind& row : searched_kinds)
    if (row.kind == kind) return &row;
  return nullptr;
}
static_assert(
    [] {
      int rows = 0;
      for (const schedule_kind kind : schedule_kinds) {
        if (schedule_choice(kind).trains && find_searched(kind) == nullptr) return false;
        rows += schedule_choice(kind).trains;
      }
      return rows == static_cast<int>(searched_kinds.size());
    }(),
    "a schedule that trains has one row in searched_kinds");

/// Throws for a space without a plan.
GPIPE_COLD inline void require_space(const plan_space& space, const plan_options& options, int layers) {
  const auto require = [](const char* name, int given, int min, int max) {
    if (given >= min && given <= max) return;
    if (max < min) throw_error({name, " is ", given}, {"choose at least ", min});
    throw_error({name, " is ", given}, {"choose ", min, " to ", max});
  };
  constexpr int many = 1 << 24;
  require("devices", space.devices, 1, 1 << 16);
  require("batch", space.batch, 1, many);
  require("replicas", space.replicas, 0, space.devices < space.batch ? space.devices : space.batch);
  require("workers", space.workers, 0, space.devices < layers ? space.devices : layers);
  require("micro_batches", space.micro_batches, 0, space.batch);
  require("micro_batch_size", space.micro_batch_size, 0, space.batch);
  require("min_micro_batch_size", space.min_micro_batch_size, 0, space.batch);
  require("max_chunks", space.max_chunks, 1, 64);
  if (space.replicas > 0 && space.workers > space.devices / space.replicas)
    throw_error({"replicas x workers is ", space.replicas, " x ", space.workers, ", and there are ",
                 several(space.devices, "device")},
                {"fix one of them, or smaller numbers"});
  if (space.schedule && find_searched(*space.schedule) == nullptr)
    throw_error({"schedule is ", name_of(*space.schedule)}, {"choose a built-in schedule that trains, or none"});
  if ((options.devices != nullptr) != (options.device_count > 0))
    throw_error(
        {"devices is ", options.devices == nullptr ? "null" : "set", " and device_count is ", options.device_count},
        {"give both, a device for each of the space: .devices = each, .device_count = ", space.devices});
  if (options.device_count > 0 && options.device_count != space.devices)
    throw_error({"device_count is ", options.device_count, ", and the space has ", several(space.devices, "device")},
                {"describe each of them"});
  if (options.named_processes() > 0)
    throw_error({"the devices name ", options.named_processes(), " processes, and the search may leave devices out"},
                {"name none, and name the processes of the plan's devices when it is found"});
  if (options.device_count > 0 && space.replicas > 1)
    throw_error({"replicas is ", space.replicas, ", and devices differ"}, {"choose 1: replicas have equal devices"});
  if (options.profile.count > 0 && space.micro_batch_size != options.profile.micro_batch_size)
    throw_error({"a profile is of micro-batches of ", options.profile.micro_batch_size, ", and micro_batch_size is ",
                 space.micro_batch_size},
                {"fix it to that size, or leave the profile out"});
}

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
      for (const searched_kind& row : searched_kinds) {
        const schedule_kind kind = row.kind;
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
