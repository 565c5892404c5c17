#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/tools/best/update_time.hpp>

namespace gpipe::detail {

/// About how much memory the plans of a model need, before they have a cut.
class memory_estimate {
 public:
  constexpr explicit memory_estimate(const network& net)
      : net_(net), parameter_bytes_(detail::parameter_bytes(net, 0, net.layer_count)) {
    for (int v = 0; v < net.value_count; ++v)
      if (is_kept(v)) kept_bytes_ += bytes_sent(net.values[v].part, 1);
    for (int l = 0; l < net.layer_count; ++l) kept_bytes_ += static_cast<std::int64_t>(net.type_of(l).extra_bytes(1));
  }

  constexpr std::int64_t parameter_bytes() const { return parameter_bytes_; }

  /// Whether a layer alone, with what it reads and writes, exceeds the limit of every stage.
  constexpr bool exceeds_in_one_layer(const plan_options& o) const {
    std::int64_t limit = 0;
    for (int s = 0; s < kinds(o); ++s) limit = o.limit_of(s) > limit ? o.limit_of(s) : limit;
    for (int l = 0; l < net_.layer_count; ++l) {
      if (net_.type_of(l).cost.kind == work_kind::other) continue;
      auto bytes = static_cast<std::int64_t>(net_.own_bytes(l));
      for (int i = 0; i < net_.layers[l].reads; ++i)
        bytes += bytes_sent(net_.values[net_.reads_value(l, i)].part, o.micro_batch_size);
      for (int i = 0; i < net_.layers[l].writes; ++i)
        bytes += bytes_sent(net_.values[net_.writes_value(l, i)].part, o.micro_batch_size);
      if (bytes > limit) return true;
    }
    return false;
  }

  /// The micro-batches in flight, of all layers.
  static constexpr double copies_in_flight(const plan_options& o) {
    const schedule_choice schedule = o.chosen_schedule();
    double copies = 0;
    for (int s = 0; s < o.stages; ++s)
      copies += static_cast<double>(schedule.in_flight(o.stages, o.micro_batches, s)) / o.stages;
    return copies;
  }
  /// The bytes for the parameters and the copies of what micro-batches keep, over those of the workers. With one copy:
  /// if all stages recompute, for one micro-batch and what comes and goes. 0: there is no limit.
  constexpr double needed_over_had(const plan_options& o, double copies) const {
    double have = 0;
    std::int64_t limit = 0;
    for (int s = 0; s < o.stages; ++s) {
      if (s < kinds(o)) limit = o.limit_of(s);
      if (limit == no_memory_limit) return 0;
      have += static_cast<double>(limit);
    }
    const double R = o.shares(), arrays = 1 + (o.shard == shard::gradients ? 1 / R : 1) + o.optimizer_moments / R;
    const double parameters = arrays * static_cast<double>(parameter_bytes_);
    const double kept = static_cast<double>(kept_bytes_) * o.micro_batch_size;
    return (1.1 * parameters + 1.2 * copies * kept) / have;
  }

  /// A cut whose stages have about the same bytes.
  constexpr void cut_evenly(const plan_options& o, int* first) const {
    const zeroed_array<pass_cost> bytes(net_.layer_count);
    for (int l = 0; l < net_.layer_count; ++l) {
      const layer_type& r = net_.type_of(l);
      std::int64_t kept = static_cast<std::int64_t>(r.extra_bytes(o.micro_batch_size));
      for (int i = 0; i < net_.layers[l].writes && !r.view; ++i)
        kept += static_cast<std::int64_t>(net_.values[net_.writes_value(l, i)].part.bytes(o.micro_batch_size));
      bytes[l] = {static_cast<std::int64_t>(net_.own_bytes(l)) * (2 + o.optimizer_moments), kept};
    }
    partition_problem problem{net_.layer_count, o.stages, o.micro_batches, bytes.data()};
    problem.goal = objective::bottleneck;
    partition(problem, first);
  }

 private:
  /// The stages with limits of their own: on equal devices all have that of the first.
  static constexpr int kinds(const plan_options& o) { return o.device_count > 0 ? o.stages : 1; }
  /// Whether backward reads the value, wherever the cut falls.
  constexpr bool is_kept(int v) const {
    const value& of = net_.values[v];
    if (of.writer < 0 || net_.type_of(of.writer).view) return false;
    if (net_.type_of(of.writer).keeps.output) return true;
    for (int i = 0; i < of.readers; ++i)
      if (net_.type_of(net_.reader(v, i)).keeps.input) return true;
    return false;
  }

  const network& net_;
  std::int64_t parameter_bytes_, kept_bytes_ = 0;  // the latter of a sample, in backward
};

}  // namespace gpipe::detail
