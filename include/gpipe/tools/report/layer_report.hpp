#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/cost/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace gpipe {

namespace detail {

/// The total time of the layers of one name for a micro-batch.
struct layer_time {
  const layer_type* type;
  int layers = 0;
  double ns = 0, operations = 0;

  /// The time lost against a core that always computes at the peak, in nanoseconds.
  double lost(double peak) const { return (std::max)(0.0, ns - 1e9 * operations / peak); }
};

/// The operations of a micro-batch, of the parts that ran: the gradient of a model's input is not computed.
GPIPE_COLD inline double operations_of(const layer_type& type, const measured_layer& line, int samples) {
  return static_cast<double>(samples) *
         static_cast<double>((line.forward_ns > 0 ? type.cost.forward : 0) +
                             (line.backward_input_ns > 0 ? type.cost.backward_input : 0) +
                             (line.backward_parameters_ns > 0 ? type.cost.backward_parameters : 0));
}

/// The remedy for a layer that is slow for its number of operations.
GPIPE_COLD inline std::string remedy(const layer_type& type, int samples, int group_gradients) {
  // Products have many operations per byte moved, other layers few.
  if (type.parameter_count > 0 && type.cost.forward > 16 * type.cost.bytes)
    return "its weights are read for every micro-batch of " + several(samples, "sample") +
           (group_gradients > 1
                ? ", and their gradients are written for every " + std::to_string(group_gradients) + ": use "
                : ", and their gradients are written (with fill-drain, no recompute and enough "
                  "memory: once for `group_gradients` of them): use ") +
           "fewer and larger micro-batches, or more stages, so that a stage's weights fit a core's cache";
  return "it moves many bytes per operation: build for speed and for this processor (-O3 -march=native); in "
         "your own layer, compute more per number read, and check that the compiler vectorizes its loops";
}

}  // namespace detail

/// One line per layer: its time for one micro-batch, its share of the total time, and its declared operations, of the
/// parts that ran, per second and relative to `peak`, in operations per second (`host::gemm_peak()`; 0: unknown).
/// Below, the name whose layers lose most against that peak, and the remedy. `group_gradients` is the plan's.
///
///     layer  name          share   forward  input part  parameter part  GFLOP/s  of the peak
///         2  linear<1024>  11.2 %  111.2 us    129.3 us        162.1 us      125       70.4 %
GPIPE_COLD inline void write_layers(std::ostream& out, const network& net, const profile& costs, double peak = 0,
                                    int group_gradients = 1) {
  detail::require_profile_of(costs, net, costs.micro_batch_size);
  const auto time_of = [](const measured_layer& line) {
    return static_cast<double>(line.forward_ns + line.backward_input_ns + line.backward_parameters_ns);
  };
  double whole = 0;
  for (int l = 0; l < costs.count; ++l) whole += time_of(costs.layers[l]);
  const auto us = [](std::int64_t ns) { return detail::fixed(1e-3 * static_cast<double>(ns), 1) + " us"; };
  std::vector<detail::layer_time> named;
  std::vector<std::vector<std::string>> rows{
      {"layer", "name", "share", "forward", "input part", "parameter part", "GFLOP/s", "of the peak"}};
  for (int l = 0; l < costs.count; ++l) {
    const measured_layer& line = costs.layers[l];
    const detail::layer_type& type = net.type_of(l);
    const double ns = time_of(line), operations = detail::operations_of(type, line, costs.micro_batch_size);
    auto sum = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.type->name == type.name; });
    if (sum == named.end()) sum = named.insert(sum, {&type});
    ++sum->layers, sum->ns += ns, sum->operations += operations;
    rows.push_back({std::to_string(l), std::string(type.name), detail::percent(ns, whole), us(line.forward_ns),
                    us(line.backward_input_ns), us(line.backward_parameters_ns),
                    ns > 0 ? detail::fixed(operations / ns, 1) : "-", detail::percent(1e9 * operations, ns * peak)});
  }
  out << detail::table(rows);
  if (!(peak > 0) || !(whole > 0)) return;
  const auto worst = std::max_element(named.begin(), named.end(),
                                      [&](const auto& a, const auto& b) { return a.lost(peak) < b.lost(peak); });
  double operations = 0;
  for (const detail::layer_time& sum : named) operations += sum.operations;
  out << "all layers reach " << detail::percent(1e9 * operations, whole * peak) << " of the "
      << detail::fixed(1e-9 * peak, 0) << " GFLOP/s that one core reaches in this build's matrix products\n"
      << worst->type->name << " (" << detail::several(worst->layers, "layer")
      << ") loses the most time: " << detail::percent(worst->lost(peak), whole) << " of the total; "
      << detail::remedy(*worst->type, costs.micro_batch_size, group_gradients) << '\n';
}

}  // namespace gpipe
