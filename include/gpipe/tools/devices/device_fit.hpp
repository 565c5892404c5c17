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

/// The rates of a device by the measured times of layers: profiles of any models, each at several micro-batch sizes.
/// A kernel's time is a fixed part and one for each sample:
///
///     launch + parameters' bytes / their rate  +  samples x (operations / rate of the kind + bytes / memory rate)
///
/// The fit has the smallest sum of squared relative errors, and no negative time. A plan on such a device knows how
/// much longer a sample of a small micro-batch takes.
///
///     device_fit found;
///     for (const measured_profile& it : profiles) found.add(network_of<net>, it.view());
///     const best_plan best = find_best(network_of<net>, space, {.device = found.device()});
class device_fit {
 public:
  GPIPE_COLD void add(const network& net, const profile& measured) {
    detail::require_profile_of(measured, net, measured.micro_batch_size);
    for (int l = 0; l < net.layer_count; ++l) {
      const detail::layer_kernels of = detail::work_kernels(net.type_of(l), counted_by_none, true);
      const measured_layer& line = measured.layers[l];
      add(of.forward, measured.micro_batch_size, line.forward_ns);
      add(of.backward_input, measured.micro_batch_size, line.backward_input_ns);
      add(of.backward_parameters, measured.micro_batch_size, line.backward_parameters_ns);
    }
  }

  /// The device with the rates that fit. `rest` has what was not measured: link and memory, and how fast operations of
  /// 64 and of 16 bits are beside those of 32. Throws without a product.
  GPIPE_COLD device_spec device(const device_spec& rest = this_cpu) const {
    const solution ns = solve();
    const auto per_second = [](double of_one) {
      return static_cast<std::int64_t>(of_one > 1e9 / max_rate ? 1e9 / of_one : max_rate);
    };
    if (!(ns[product] > 0))
      detail::throw_error({"the measured kernels have no product"}, {"profile a model with a linear layer"});
    device_spec on = rest;
    on.name = "measured device";
    on.half_shares = on.float32_shares = {};
    on.float32 = per_second(ns[product]);
    const auto as_in_rest = [&](std::int64_t of) {
      return static_cast<std::int64_t>(static_cast<double>(of) * static_cast<double>(on.float32) /
                                       static_cast<double>(rest.float32));
    };
    on.float64 = as_in_rest(rest.float64);
    on.half = as_in_rest(rest.half);
    on.convolution = ns[convolution] > 0 ? per_second(ns[convolution]) : 0;
    on.other = ns[other] > 0 ? per_second(ns[other]) : 0;
    on.memory_bytes_per_second = per_second(ns[bytes]);
    on.parameter_bytes_per_second = ns[parameters] > 0 ? per_second(ns[parameters]) : 0;
    on.launch_ns = static_cast<std::int64_t>(ns[launch]);
    return on;
  }

  /// Half of the kernels differ by less from the fit, as a share of their time.
  GPIPE_COLD double median_error() const {
    const solution ns = solve();
    std::vector<double> errors;
    for (const kernel& it : kernels_) {
      double time = 0;
      for (std::size_t i = 0; i < unknowns; ++i) time += it.amount[i] * ns[i];
      errors.push_back(std::abs(time - 1));
    }
    if (errors.empty()) return 0;
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    return *middle;
  }

 private:
  enum unknown : std::size_t { product, convolution, other, bytes, parameters, launch, unknowns };
  using solution = std::array<double, unknowns>;  // nanoseconds of one
  struct kernel {
    solution amount{};  // over the measured nanoseconds
  };
  static constexpr double max_rate = 1e15;
  static constexpr device_spec counted_by_none{};

  void add(const detail::layer_kernel& of, int samples, std::int64_t ns) {
    if (ns < 1 || (of.flops == 0 && of.bytes == 0)) return;  // it does not run, or declares nothing
    kernel made;
    const unknown kind = of.kind == work_kind::product       ? product
                         : of.kind == work_kind::convolution ? convolution
                                                             : other;
    made.amount[kind] = static_cast<double>(of.flops) * samples;
    made.amount[bytes] = static_cast<double>(of.bytes) * samples;
    made.amount[parameters] = static_cast<double>(of.of_parameters);
    made.amount[launch] = 1;
    for (double& it : made.amount) it /= static_cast<double>(ns);
    kernels_.push_back(made);
  }

  /// Coordinate descent on the normal equations A^T A x = A^T 1 with x >= 0, in units in which A^T A has a diagonal of
  /// ones: it converges to the least squares, because they are convex.
  solution solve() const {
    std::array<solution, unknowns> normal{};
    solution right{}, unit{}, found{};
    for (const kernel& it : kernels_)
      for (std::size_t i = 0; i < unknowns; ++i) {
        right[i] += it.amount[i];
        for (std::size_t j = 0; j < unknowns; ++j) normal[i][j] += it.amount[i] * it.amount[j];
      }
    for (std::size_t i = 0; i < unknowns; ++i) unit[i] = std::sqrt(normal[i][i]);
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < unknowns; ++i) {
        if (!(unit[i] > 0)) continue;
        double rest = right[i] / unit[i];
        for (std::size_t j = 0; j < unknowns; ++j)
          if (j != i && unit[j] > 0) rest -= normal[i][j] / unit[i] / unit[j] * found[j];
        found[i] = (std::max)(0.0, rest);
      }
    for (std::size_t i = 0; i < unknowns; ++i)
      if (unit[i] > 0) found[i] /= unit[i];
    return found;
  }
  static constexpr int rounds = 20'000;  // a millisecond or two

  std::vector<kernel> kernels_;
};

}  // namespace gpipe
