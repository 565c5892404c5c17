#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

/// The cost of one layer for one micro-batch, in picoseconds, with backward in its two parts.
struct layer_cost {
  std::int64_t forward = 0, backward_input = 0, backward_parameters = 0;

  constexpr bool operator==(const layer_cost&) const = default;
};

namespace detail {

// Not constexpr: a call in constant evaluation is an error, and the compiler shows the call with its numbers.
[[noreturn]] inline void cost_exceeds_64_bits(std::int64_t amount, std::int64_t times) {
  throw_error({"a cost exceeds 64 bits: ", amount, " times ", times}, {"use smaller micro-batches or a larger unit"});
}
[[noreturn]] inline void sum_exceeds_64_bits(std::int64_t a, std::int64_t b) {
  throw_error({"a sum of costs exceeds 64 bits: ", a, " plus ", b}, {"use smaller costs or a larger unit"});
}
[[noreturn]] inline void negative_work(std::int64_t amount) {
  throw_error({"a layer's cost is ", amount, " operations or bytes"}, {"declare at least 0"});
}
[[noreturn]] inline void device_lacks_rate(const char* device, std::int64_t per_second) {
  throw_error(
      {"the device ", device, " does ", per_second, " operations or bytes per second of a kind that the model needs"},
      {"set the rate to 1 ... 9 x 10^15, or choose another device"});
}

constexpr std::int64_t max_cost = (std::numeric_limits<std::int64_t>::max)();

constexpr std::int64_t multiplied(std::int64_t amount, std::int64_t times) {
  if (times > 0 && amount > max_cost / times) cost_exceeds_64_bits(amount, times);
  return amount * times;
}
constexpr std::int64_t summed(std::int64_t a, std::int64_t b) {
  if (b > 0 && a > max_cost - b) sum_exceeds_64_bits(a, b);
  return a + b;
}

/// The time of an amount of work, rounded down: 10^12 * amount / per_second. It is a long division with steps of 1000,
/// so that no intermediate result exceeds 64 bits.
GPIPE_COLD constexpr std::int64_t picoseconds(std::int64_t amount, std::int64_t per_second, const char* device) {
  if (amount < 0) negative_work(amount);
  if (amount == 0) return 0;
  if (per_second < 1 || per_second > max_cost / 1000) device_lacks_rate(device, per_second);
  std::int64_t time = amount / per_second, remainder = amount % per_second;
  for (int step = 0; step < 4; ++step) {
    remainder *= 1000;
    time = summed(multiplied(time, 1000), remainder / per_second);
    remainder %= per_second;
  }
  return time;
}

/// A kernel of a layer: operations, attention included, and bytes. The shares of the rate are in
/// thousandths; 0: not counted.
struct layer_kernel {
  std::int64_t flops, bytes, attention;
  int share, attention_share;
  std::int64_t of_parameters = 0;  ///< bytes, however few the samples are
  work_kind kind = work_kind::product;
};

/// Operations at the device's peak plus bytes; where kernels were counted, operations at their shares, or bytes if
/// those take longer. One launch.
constexpr std::int64_t kernel_time(const layer_kernel& kernel, int samples, dtype type, const device_spec& device) {
  const std::int64_t peak = device.flops_per_second(type);
  const auto computes = [&](std::int64_t flops, std::int64_t rate) {
    return picoseconds(multiplied(flops, samples), rate, device.name);
  };
  std::int64_t bytes = multiplied(kernel.bytes, samples), moves = 0;
  if (device.parameter_bytes_per_second > 0)
    moves = picoseconds(kernel.of_parameters, device.parameter_bytes_per_second, device.name);
  else bytes = summed(bytes, kernel.of_parameters);
  moves = summed(moves, picoseconds(bytes, device.memory_bytes_per_second, device.name));
  std::int64_t time = 0;
  if (kernel.share == 0) {
    const std::int64_t rate = kernel.kind == work_kind::convolution ? device.convolution
                              : kernel.kind == work_kind::other     ? device.other
                                                                    : 0;
    time = summed(computes(kernel.flops, rate > 0 ? rate : peak), moves);
  } else {
    time = summed(computes(kernel.flops - kernel.attention, peak / 1000 * kernel.share),
                  computes(kernel.attention, kernel.attention_share > 0 ? peak / 1000 * kernel.attention_share : peak));
    time = time > moves ? time : moves;
  }
  return summed(time, multiplied(device.launch_ns, 1000));
}

/// The kernels of a layer. A layer without parameters has no last one.
struct layer_kernels {
  layer_kernel forward, backward_input, backward_parameters;
};

/// The kernels of a layer on a device. If they were counted, backward also moves the values of forward that it
/// reads, and the parameter part as many bytes as forward. If `parameters` count, each kernel of a product or a
/// convolution also reads them, and the parameter part reads and writes their gradients.
GPIPE_COLD constexpr layer_kernels work_kernels(const layer_type& type, const device_spec& device, bool parameters) {
  const work& cost = type.cost;
  const counted_shares shares = device.shares(type.computes);
  const bool counted = shares.product > 0, convolves = cost.kind == work_kind::convolution;
  const int share = convolves ? shares.convolution : cost.kind == work_kind::product ? shares.product : 0;
  const std::int64_t reread = counted && (type.keeps.input || type.keeps.output) ? cost.bytes / 2 : 0;
  const auto elements = static_cast<std::int64_t>(type.parameter_elements());
  const bool reads = parameters && cost.kind != work_kind::other;
  const std::int64_t read = reads ? multiplied(elements, static_cast<std::int64_t>(bytes_of(type.computes))) : 0,
                     added = reads ? multiplied(elements, 2 * static_cast<std::int64_t>(bytes_of(type.type))) : 0;
  return {{cost.forward, cost.bytes, cost.attention, share, shares.attention, read, cost.kind},
          {cost.backward_input, summed(cost.bytes, reread), cost.attention_backward, share, shares.attention_backward,
           read, cost.kind},
          {cost.backward_parameters, counted ? cost.bytes : 0, 0, convolves ? shares.convolution_weight : share, 0,
           added, cost.kind}};
}

/// The analytic cost of a layer for one micro-batch of `samples`.
GPIPE_COLD constexpr layer_cost layer_cost_of(const layer_type& type, int samples, const device_spec& device = this_cpu,
                                              bool parameters = false) {
  const layer_kernels kernels = work_kernels(type, device, parameters);
  const auto time = [&](const layer_kernel& kernel) { return kernel_time(kernel, samples, type.computes, device); };
  return {time(kernels.forward), time(kernels.backward_input),
          type.parameter_count > 0 ? time(kernels.backward_parameters) : 0};
}

}  // namespace detail

/// The cost as a partition takes it: backward in one number, with the second forward if there is one.
constexpr pass_cost pass_cost_of(const layer_cost& c, bool recomputed) {
  const std::int64_t backward = detail::summed(c.backward_input, c.backward_parameters);
  return {c.forward, recomputed ? detail::summed(backward, c.forward) : backward, recomputed ? c.forward : 0};
}

namespace detail {

/// The analytic cost of a layer type, as a partition takes it.
constexpr pass_cost cost_of(const layer_type& type, int samples, bool recomputed,
                            const device_spec& device = this_cpu) {
  return pass_cost_of(layer_cost_of(type, samples, device), recomputed);
}

}  // namespace detail

/// The analytic cost of every layer; it is computed once for each layer type.
GPIPE_COLD constexpr void layer_costs(const network& net, int samples, const device_spec& device, layer_cost* costs,
                                      bool parameters = false) {
  const detail::zeroed_array<layer_cost> of_type(net.type_count);
  for (int t = 0; t < net.type_count; ++t)
    of_type[t] = detail::layer_cost_of(net.types[t], samples, device, parameters);
  for (int l = 0; l < net.layer_count; ++l) costs[l] = of_type[net.layers[l].type];
}

/// The costs of every layer on the device of each stage, in picoseconds. The array belongs to the caller.
struct stage_costs {
  const layer_cost* costs = nullptr;  ///< [kind][layer]: one kind of device, or one per stage
  int layers = 0;
  bool per_stage = false;

  constexpr int kinds(int stages) const { return per_stage ? stages : 1; }
  constexpr const layer_cost* of(int stage) const { return costs + (per_stage ? stage * layers : 0); }
};

namespace detail {

/// The bytes on a link for one micro-batch: activations forward, gradients backward.
struct traffic {
  std::int64_t forward_bytes = 0, backward_bytes = 0;
};

}  // namespace detail

/// The time of one transfer over a device's link, in picoseconds; 0 bytes take no time.
constexpr std::int64_t transfer_time(std::int64_t bytes, const device_spec& device) {
  if (bytes == 0) return 0;
  return detail::summed(detail::picoseconds(bytes, device.link_bytes_per_second, device.name),
                        detail::multiplied(device.link_latency_ns, 1000));
}

namespace detail {

// assumes: links in a process move no bytes
constexpr std::int64_t bytes_sent(const edge_part& part, int samples) {
  return multiplied(static_cast<std::int64_t>(part.size * bytes_of(part.type)), samples);
}

/// The bytes on a link of the cut. A value is sent once, for any number of readers there. If a gradient flows, the
/// stage of the last reader returns the sum of its readers' gradients; earlier stages return one for each reader.
GPIPE_COLD constexpr traffic traffic_of(const network& net, const cut& cut, const stage_link& link, int samples) {
  traffic sum;
  const expanded_layer& last = net.layers[cut.first[link.source + 1] - 1];
  for (int v = net.layers[cut.first[link.source]].first_write; v < last.first_write + last.writes; ++v) {
    const value& value = net.values[v];
    std::int64_t readers = 0;
    for (int i = 0; i < value.readers; ++i) readers += cut.stage_of(net.reader(v, i)) == link.target;
    if (readers == 0) continue;
    const std::int64_t bytes = detail::bytes_sent(value.part, samples);
    sum.forward_bytes = detail::summed(sum.forward_bytes, bytes);
    if (!value.gradient) continue;
    const bool top = cut.stage_of(net.reader(v, value.readers - 1)) == link.target;
    sum.backward_bytes = detail::summed(sum.backward_bytes, detail::multiplied(bytes, top ? 1 : readers));
  }
  return sum;
}

/// The time of a link's transfers for one micro-batch.
constexpr pass_cost link_cost_of(const traffic& traffic, const device_spec& device) {
  return {transfer_time(traffic.forward_bytes, device), transfer_time(traffic.backward_bytes, device)};
}

}  // namespace detail

}  // namespace gpipe
