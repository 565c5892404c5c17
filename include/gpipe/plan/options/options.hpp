#pragma once

#include <limits>

#include <gpipe/core/descriptions/precision.hpp>
#include <gpipe/core/descriptions/recompute.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe {

/// Any number of bytes will do.
inline constexpr std::int64_t no_memory_limit = (std::numeric_limits<std::int64_t>::max)();

/// The choices that make a plan of a network, at compile time or at run time.
struct plan_options {
  int stages = 1;             ///< S
  int micro_batches = 1;      ///< M
  int micro_batch_size = 32;  ///< B, the most samples of a micro-batch
  precision in = precision::float32;  ///< of what the network is compiled in: see in_bf16 and in_both
  recompute_mode recompute = recompute_mode::except_last;
  schedule_kind schedule = schedule_kind::fill_drain;
  int chunks = 2;   ///< stages a worker, of the interleaved schedule
  int workers = 0;  ///< at most the schedule's, which are folded onto them, neighbours together; 0: as many as those
  bool apart = false;  ///< workers share no memory: what one sends lies in its own until it has left
  int replicas = 1;  ///< R, of the pipeline: each runs M micro-batches of every mini-batch
  const own_schedule* own = nullptr;  ///< of `schedule_kind::own`: `&own_schedule_of<mine>`
  /// Micro-batches whose parameter gradients a stage makes together, by fill-drain where none is recomputed: what
  /// makes them reads and writes a gradient once for all; at most `most_together`. The bits are the same. 0: as many as
  /// pay, and the memory limit has room for (see `coalesced`).
  int coalesce = 0;
  int moments = 2;  ///< arrays that the optimizer keeps beside the parameters: Adam two, SGD with momentum one
  device on = this_cpu;  ///< what costs and transfers are reckoned for
  const device* each = nullptr;  ///< of the stages in turn, `each_count` of them, where they are not alike
  int each_count = 0;
  profile measured{};    ///< of the model, in place of the analytic costs; of one kind of device
  bool transfers = false;  ///< whether the cut pays for what crosses it, over the device's link
  std::int64_t memory_limit = no_memory_limit;  ///< bytes of every stage

  constexpr schedule_choice chosen_schedule() const {
    if (schedule != schedule_kind::own) return schedule_choice(schedule, chunks).on_workers(workers);
    const bool splits = own->admits(stages, micro_batches) && detail::splits_backward(*own, stages, micro_batches);
    return schedule_choice(*own, splits).on_workers(workers);
  }
  /// Micro-batches of a mini-batch, of all replicas.
  constexpr int all_micro_batches() const { return replicas * micro_batches; }
  /// Whether a stage surely holds so many micro-batches that their parameter gradients may wait for each other.
  constexpr bool may_coalesce() const {
    return schedule == schedule_kind::fill_drain && recompute == recompute_mode::never;
  }
  /// Workers of the schedule before it is folded; 0: it does not admit the numbers.
  constexpr int most_workers() const {
    const schedule_choice whole = chosen_schedule().on_workers(0);
    return whole.admits(stages, micro_batches) ? whole.workers(stages) : 0;
  }

  GPIPE_ONCE constexpr void require_sensible(int slots) const {
    using detail::refuse;
    if (stages < 1 || stages > slots)
      refuse({"the model cannot be cut into ", detail::several(stages, "stage")},
             {"choose 1 to ", slots, ", its number of layers"});
    if (each_count != 0 && each_count != stages)
      refuse({each_count, " devices are not one for each of ", stages, " stages"}, {"name the device of every stage"});
    if ((schedule == schedule_kind::own) != (own != nullptr))
      refuse({"a schedule of one's own is named by its kind and by what it is"},
             {"give both: .schedule = schedule_kind::own, .own = &own_schedule_of<mine>"});
    if (memory_limit < 1) refuse({"a memory limit of ", memory_limit, " bytes leaves no memory"}, {"choose more"});
    if (micro_batches < 1) refuse({micro_batches, " micro-batches are no step"}, {"choose at least 1"});
    if (micro_batch_size < 1)
      refuse({"a micro-batch of ", micro_batch_size, " samples is no micro-batch"}, {"choose at least 1"});
    if (replicas < 1) refuse({replicas, " replicas train nothing"}, {"choose at least 1"});
    if (micro_batch_size > (std::numeric_limits<int>::max)() / micro_batches / replicas)
      refuse({replicas > 1 ? detail::several(replicas, "replica") + " with " : "",
              detail::several(micro_batches, "micro-batch"), " of ", micro_batch_size,
              " samples are more than can be counted"},
             {"choose fewer"});
    if (coalesce < 0 || coalesce > most_together)
      refuse({coalesce, " micro-batches do not make their parameter gradients together"},
             {"choose 1 to ", most_together, ", or 0 for as many as pay"});
    if (coalesce > 1 && schedule == schedule_kind::fill_drain && recompute == recompute_mode::as_needed)
      refuse({"with recompute as-needed memory decides how many micro-batches make their parameter gradients together, "
              "and not ", coalesce},
             {"choose recompute never, or coalesce 0"});
    if (coalesce > 1 && !may_coalesce()) {
      const bool drains = schedule == schedule_kind::fill_drain, keeps = recompute == recompute_mode::never;
      const char* both = drains || keeps ? "" : " and ";
      refuse({drains ? "" : chosen_schedule().name(), drains || keeps ? "" : " with ", keeps ? "" : "recompute ",
              keeps ? "" : name_of(recompute), " does not make the parameter gradients of ", coalesce,
              " micro-batches together"},
             {"choose ", drains ? "" : "fill-drain", both, keeps ? "" : "recompute never", ", or coalesce 0"});
    }
    if (workers < 0) refuse({workers, " workers do nothing"}, {"choose 0, for as many as the schedule has, or more"});
    if (const int most = most_workers(); most > 0 && workers > most)
      refuse({chosen_schedule().name(), " of ", detail::several(stages, "stage"), " has work for ",
              detail::several(most, "worker"), ", not ", workers},
             {"choose 1 to ", most, ", or 0 for as many as it has"});
  }
};

}  // namespace gpipe
