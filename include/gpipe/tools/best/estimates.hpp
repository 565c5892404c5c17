#pragma once

#include <cstdint>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

namespace gpipe::detail {

/// The bytes of a model's parameters in the layers [first, last).
constexpr std::int64_t parameter_bytes(const network& net, int first, int last) {
  std::int64_t sum = 0;
  for (int l = first; l < last; ++l) sum += static_cast<std::int64_t>(net.own_bytes(l));
  return sum;
}

/// The time from the last backward of a worker to its updated parameters, in picoseconds: R replicas sum their
/// gradients, and each updates all parameters or, in shares, one of R parts. With P bytes of parameters
///
///     sums     2 (R - 1) / R x P over the link, in 2 (R - 1) transfers: reduced to shares, and gathered
///     update   value read and written, gradient read, moments read and written: (3 + 2 moments) P of memory
constexpr std::int64_t update_time(std::int64_t parameter_bytes, const plan_options& options,
                                   const device_spec& device) {
  const std::int64_t R = options.replicas;
  std::int64_t time = 0;
  if (R > 1 && parameter_bytes > 0)
    time = summed(picoseconds(multiplied(parameter_bytes / R, 2 * (R - 1)), device.link_bytes_per_second, device.name),
                  multiplied(device.link_latency_ns, 2000 * (R - 1)));
  const std::int64_t updated = options.shares() > 1 ? parameter_bytes / R : parameter_bytes;
  return summed(time, picoseconds(multiplied(updated, 3 + 2 * options.optimizer_moments),
                                  device.memory_bytes_per_second, device.name));
}

/// The update time of a plan with this cut, on the worker where it takes longest.
constexpr std::int64_t update_time(const network& net, const plan_options& options, const int* first) {
  const schedule_choice schedule = options.chosen_schedule();
  std::int64_t longest = 0;
  for (int w = 0; w < schedule.workers(options.stages); ++w) {
    std::int64_t bytes = 0;
    const device_spec* device = &options.device;
    for (int s = 0; s < options.stages; ++s)
      if (schedule.worker_of(options.stages, s) == w)
        bytes += parameter_bytes(net, first[s], first[s + 1]), device = &options.device_of(s);
    const std::int64_t time = update_time(bytes, options, *device);
    if (time > longest) longest = time;
  }
  return longest;
}

/// A layer whose stage holds the value for backward, for any cut; -1: there is none.
constexpr int holder_of(const network& net, int v) {
  const value& value = net.values[v];
  if (value.writer < 0 || net.type_of(value.writer).view) return -1;
  if (net.type_of(value.writer).keeps.output) return value.writer;
  for (int i = 0; i < value.readers; ++i)
    if (net.type_of(net.reader(v, i)).keeps.input) return net.reader(v, i);
  return -1;
}

/// Estimates the memory that plans of a model need, before they have a cut.
class memory_estimate {
 public:
  constexpr explicit memory_estimate(const network& net)
      : net_(net), parameter_bytes_(detail::parameter_bytes(net, 0, net.layer_count)) {
    for (int v = 0; v < net.value_count; ++v)
      if (holder_of(net, v) >= 0) kept_bytes_ += bytes_sent(net.values[v].part, 1);
    for (int l = 0; l < net.layer_count; ++l) kept_bytes_ += static_cast<std::int64_t>(net.type_of(l).extra_bytes(1));
  }

  constexpr std::int64_t parameter_bytes() const { return parameter_bytes_; }

  /// Whether a layer alone, with its inputs and outputs, exceeds the limit of every stage.
  constexpr bool exceeds_in_one_layer(const plan_options& options) const {
    std::int64_t limit = 0;
    for (int s = 0; s < kinds(options); ++s) limit = options.limit_of(s) > limit ? options.limit_of(s) : limit;
    for (int l = 0; l < net_.layer_count; ++l) {
      if (net_.type_of(l).cost.kind == work_kind::other) continue;
      auto bytes = static_cast<std::int64_t>(net_.own_bytes(l));
      for (int i = 0; i < net_.layers[l].reads; ++i)
        bytes += bytes_sent(net_.values[net_.reads_value(l, i)].part, options.micro_batch_size);
      for (int i = 0; i < net_.layers[l].writes; ++i)
        bytes += bytes_sent(net_.values[net_.writes_value(l, i)].part, options.micro_batch_size);
      if (bytes > limit) return true;
    }
    return false;
  }

  /// The micro-batches in flight, averaged over the layers.
  static constexpr double copies_in_flight(const plan_options& options) {
    const schedule_choice schedule = options.chosen_schedule();
    double copies = 0;
    for (int s = 0; s < options.stages; ++s)
      copies += static_cast<double>(schedule.in_flight(options.stages, options.micro_batches, s)) / options.stages;
    return copies;
  }
  /// The bytes for the parameters and for `copies` of the values that a micro-batch keeps, over the workers' bytes. One
  /// copy is for the case that all stages recompute: one micro-batch and temporary values. 0: there is no limit.
  constexpr double needed_over_had(const plan_options& options, double copies) const {
    double have = 0;
    std::int64_t limit = 0;
    for (int s = 0; s < options.stages; ++s) {
      if (s < kinds(options)) limit = options.limit_of(s);
      if (limit == no_memory_limit) return 0;
      have += static_cast<double>(limit);
    }
    const double R = options.shares(),
                 arrays = 1 + (options.shard == shard::gradients ? 1 / R : 1) + options.optimizer_moments / R;
    const double parameters = arrays * static_cast<double>(parameter_bytes_);
    const double kept = static_cast<double>(kept_bytes_) * options.micro_batch_size;
    return (1.1 * parameters + 1.2 * copies * kept) / have;
  }

  /// A cut whose stages have about the same bytes.
  constexpr void cut_evenly(const plan_options& options, int* first) const {
    const zeroed_array<pass_cost> bytes(net_.layer_count);
    for (int l = 0; l < net_.layer_count; ++l) {
      const layer_type& type = net_.type_of(l);
      std::int64_t kept = static_cast<std::int64_t>(type.extra_bytes(options.micro_batch_size));
      for (int i = 0; i < net_.layers[l].writes && !type.view; ++i)
        kept += static_cast<std::int64_t>(net_.values[net_.writes_value(l, i)].part.bytes(options.micro_batch_size));
      bytes[l] = {static_cast<std::int64_t>(net_.own_bytes(l)) * (2 + options.optimizer_moments), kept};
    }
    partition_problem problem{net_.layer_count, options.stages, options.micro_batches, bytes.data()};
    problem.goal = objective::bottleneck;
    partition(problem, first);
  }

 private:
  /// The number of stages with different limits: on equal devices all have the first stage's.
  static constexpr int kinds(const plan_options& options) { return options.device_count > 0 ? options.stages : 1; }

  const network& net_;
  std::int64_t parameter_bytes_, kept_bytes_ = 0;  // kept: per sample, for backward
};

}  // namespace gpipe::detail
