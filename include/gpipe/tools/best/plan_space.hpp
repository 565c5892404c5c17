#pragma once

#include <optional>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/schedule_kind.hpp>

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

namespace detail {

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
  if (space.schedule && *space.schedule >= schedule_kind::forward_only)
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

}  // namespace detail

}  // namespace gpipe
