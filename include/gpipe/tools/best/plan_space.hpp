#pragma once

#include <optional>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/schedule_kind.hpp>

namespace gpipe {

/// The plans among which the best is searched: all ways to train a mini-batch of `batch` samples on `devices` devices.
/// A number that is 0 is searched; another is fixed, and so is a schedule.
///
///     replicas R x workers K <= devices        R x micro-batches M x micro-batch size B >= batch
struct plan_space {
  int devices = 1;  ///< D
  int batch = 32;   ///< samples of a mini-batch, of all replicas
  int replicas = 0, workers = 0, micro_batches = 0, micro_batch_size = 0;
  std::optional<schedule_kind> schedule{};
  int max_chunks = 4;  ///< the most stages a worker, of the schedules that have such a number
  /// The fewest samples of micro-batches that are searched, the last one included. 0: 1, or 2 for a model with batch
  /// norms, which would else normalize by the statistics of one sample. A fixed number or size stays.
  int min_micro_batch_size = 0;
};

namespace detail {

/// Throws for a space without a plan.
GPIPE_COLD inline void require_space(const plan_space& of, const plan_options& rest, int layers) {
  const auto require = [](const char* what, int given, int min, int max) {
    if (given >= min && given <= max) return;
    if (max < min) throw_error({what, " is ", given}, {"choose at least ", min});
    throw_error({what, " is ", given}, {"choose ", min, " to ", max});
  };
  constexpr int many = 1 << 24;
  require("devices", of.devices, 1, 1 << 16);
  require("batch", of.batch, 1, many);
  require("replicas", of.replicas, 0, of.devices < of.batch ? of.devices : of.batch);
  require("workers", of.workers, 0, of.devices < layers ? of.devices : layers);
  require("micro_batches", of.micro_batches, 0, of.batch);
  require("micro_batch_size", of.micro_batch_size, 0, of.batch);
  require("min_micro_batch_size", of.min_micro_batch_size, 0, of.batch);
  require("max_chunks", of.max_chunks, 1, 64);
  if (of.replicas > 0 && of.workers > of.devices / of.replicas)
    throw_error(
        {"replicas x workers is ", of.replicas, " x ", of.workers, ", and there are ", several(of.devices, "device")},
        {"fix one of them, or smaller numbers"});
  if (of.schedule && *of.schedule >= schedule_kind::forward_only)
    throw_error({"schedule is ", name_of(*of.schedule)}, {"choose a built-in schedule that trains, or none"});
  if ((rest.devices != nullptr) != (rest.device_count > 0))
    throw_error({"devices is ", rest.devices == nullptr ? "null" : "set", " and device_count is ", rest.device_count},
                {"give both, a device for each of the space: .devices = each, .device_count = ", of.devices});
  if (rest.device_count > 0 && rest.device_count != of.devices)
    throw_error({"device_count is ", rest.device_count, ", and the space has ", several(of.devices, "device")},
                {"describe each of them"});
  if (rest.named_processes() > 0)
    throw_error({"the devices name ", rest.named_processes(), " processes, and the search may leave devices out"},
                {"name none, and name the processes of the plan's devices when it is found"});
  if (rest.device_count > 0 && of.replicas > 1)
    throw_error({"replicas is ", of.replicas, ", and devices differ"}, {"choose 1: replicas have equal devices"});
  if (rest.profile.count > 0 && of.micro_batch_size != rest.profile.micro_batch_size)
    throw_error({"a profile is of micro-batches of ", rest.profile.micro_batch_size, ", and micro_batch_size is ",
                 of.micro_batch_size},
                {"fix it to that size, or leave the profile out"});
}

}  // namespace detail

}  // namespace gpipe
