#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cost/profile.hpp>

namespace gpipe {

/// Fits the rates of a device to the measured times of layers: profiles of any models, each at several micro-batch
/// sizes. A kernel's time is a fixed part and a part per sample:
///
///     launch + parameters' bytes / their rate  +  samples x (operations / rate of the kind + bytes / memory rate)
///
/// The fit has the smallest sum of squared relative errors, and no negative time. A plan on such a device includes how
/// much longer a sample of a small micro-batch takes.
///
///     device_fit found;
///     for (const measured_profile& measured : profiles) found.add(network_of<net>, measured.view());
///     const best_plan best = find_best(network_of<net>, space, {.device = found.device()});
class device_fit {
 public:
  GPIPE_COLD void add(const network& net, const profile& measured) {
    detail::require_profile_of(measured, net, measured.micro_batch_size);
    for (int l = 0; l < net.layer_count; ++l) {
      const detail::layer_kernels kernels = detail::work_kernels(net.type_of(l), counted_by_none, true);
      const measured_layer& line = measured.layers[l];
      add(kernels.forward, measured.micro_batch_size, line.forward_ns);
      add(kernels.backward_input, measured.micro_batch_size, line.backward_input_ns);
      add(kernels.backward_parameters, measured.micro_batch_size, line.backward_parameters_ns);
    }
  }

  /// The device with the fitted rates. `base` gives all that was not measured: link and memory, and the rates of 64-bit
  /// and 16-bit operations relative to 32-bit ones. Throws if no product was measured.
  GPIPE_COLD device_spec device(const device_spec& base = this_cpu) const {
    const solution ns = solve();
    const auto per_second = [](double ns_each) {
      return static_cast<std::int64_t>(ns_each > 1e9 / max_rate ? 1e9 / ns_each : max_rate);
    };
    if (!(ns[product] > 0))
      detail::throw_error({"the measured kernels have no product"}, {"profile a model with a linear layer"});
    device_spec result = base;
    result.name = "measured device";
    result.half_shares = result.float32_shares = {};
    result.float32 = per_second(ns[product]);
    const auto scaled_rate = [&](std::int64_t rate) {
      return static_cast<std::int64_t>(static_cast<double>(rate) * static_cast<double>(result.float32) /
                                       static_cast<double>(base.float32));
    };
    result.float64 = scaled_rate(base.float64);
    result.half = scaled_rate(base.half);
    result.convolution = ns[convolution] > 0 ? per_second(ns[convolution]) : 0;
    result.other = ns[other] > 0 ? per_second(ns[other]) : 0;
    result.memory_bytes_per_second = per_second(ns[bytes]);
    result.parameter_bytes_per_second = ns[parameters] > 0 ? per_second(ns[parameters]) : 0;
    result.launch_ns = static_cast<std::int64_t>(ns[launch]);
    return result;
  }

  /// The median over the kernels of the difference from the fit, as a share of a kernel's time.
  GPIPE_COLD double median_error() const {
    const solution ns = solve();
    std::vector<double> errors;
    for (const kernel& measurement : kernels_) {
      double time = 0;
      for (std::size_t i = 0; i < unknowns; ++i) time += measurement.amount[i] * ns[i];
      errors.push_back(std::abs(time - 1));
    }
    if (errors.empty()) return 0;
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    return *middle;
  }

 private:
  enum unknown : std::size_t { product, convolution, other, bytes, parameters, launch, unknowns };
  using solution = std::array<double, unknowns>;  // nanoseconds per unit
  struct kernel {
    solution amount{};  // over the measured nanoseconds
  };
  static constexpr double max_rate = 1e15;
  static constexpr device_spec counted_by_none{};

  void add(const detail::layer_kernel& declared, int samples, std::int64_t ns) {
    if (ns < 1 || (declared.flops == 0 && declared.bytes == 0)) return;  // it does not run, or declares nothing
    kernel made;
    const unknown kind = declared.kind == work_kind::product       ? product
                         : declared.kind == work_kind::convolution ? convolution
                                                                   : other;
    made.amount[kind] = static_cast<double>(declared.flops) * samples;
    made.amount[bytes] = static_cast<double>(declared.bytes) * samples;
    made.amount[parameters] = static_cast<double>(declared.of_parameters);
    made.amount[launch] = 1;
    for (double& amount : made.amount) amount /= static_cast<double>(ns);
    kernels_.push_back(made);
  }

  /// Coordinate descent on the normal equations A^T A x = A^T 1 with x >= 0, in units in which A^T A has a diagonal of
  /// ones: it converges to the least squares, because they are convex.
  solution solve() const {
    std::array<solution, unknowns> normal{};
    solution right{}, unit{}, found{};
    for (const kernel& measurement : kernels_)
      for (std::size_t i = 0; i < unknowns; ++i) {
        right[i] += measurement.amount[i];
        for (std::size_t j = 0; j < unknowns; ++j) normal[i][j] += measurement.amount[i] * measurement.amount[j];
      }
    for (std::size_t i = 0; i < unknowns; ++i) unit[i] = std::sqrt(normal[i][i]);
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < unknowns; ++i) {
        if (!(unit[i] > 0)) continue;
        double residual = right[i] / unit[i];
        for (std::size_t j = 0; j < unknowns; ++j)
          if (j != i && unit[j] > 0) residual -= normal[i][j] / unit[i] / unit[j] * found[j];
        found[i] = (std::max)(0.0, residual);
      }
    for (std::size_t i = 0; i < unknowns; ++i)
      if (unit[i] > 0) found[i] /= unit[i];
    return found;
  }
  static constexpr int rounds = 20'000;  // a millisecond or two

  std::vector<kernel> kernels_;
};

}  // namespace gpipe
