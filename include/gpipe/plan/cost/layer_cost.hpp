#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/link.hpp>

namespace gpipe {

/// What one layer costs on one micro-batch, in picoseconds, with backward in its two parts.
struct layer_cost {
  std::int64_t forward = 0, backward_input = 0, backward_parameters = 0;

  constexpr bool operator==(const layer_cost&) const = default;
};

/// What crosses a link for one micro-batch: activations with the flow, gradients against it.
struct traffic {
  std::int64_t forward_bytes = 0, backward_bytes = 0;
};

namespace detail {

// Not constexpr: reached in constant evaluation, they end it, and the compiler shows the call with its numbers.
[[noreturn]] inline void cost_exceeds_64_bits(std::int64_t amount, std::int64_t times) {
  refuse({"a cost exceeds 64 bits: ", amount, " times ", times}, {"choose smaller micro-batches, or a larger unit"});
}
[[noreturn]] inline void sum_exceeds_64_bits(std::int64_t a, std::int64_t b) {
  refuse({"a sum of costs exceeds 64 bits: ", a, " plus ", b}, {"choose smaller ones, or a larger unit"});
}
[[noreturn]] inline void negative_work(std::int64_t amount) {
  refuse({"a layer states ", amount, " operations or bytes"}, {"give 0 or more"});
}
[[noreturn]] inline void device_lacks_rate(const char* device, std::int64_t per_second) {
  refuse({"the device ", device, " does ", per_second, " operations or bytes a second of a kind that the model needs"},
         {"give the description a rate from 1 to 9 x 10^15, or choose another device"});
}

constexpr std::int64_t most_cost = (std::numeric_limits<std::int64_t>::max)();

constexpr std::int64_t multiplied(std::int64_t amount, std::int64_t times) {
  if (times > 0 && amount > most_cost / times) cost_exceeds_64_bits(amount, times);
  return amount * times;
}
constexpr std::int64_t summed(std::int64_t a, std::int64_t b) {
  if (b > 0 && a > most_cost - b) sum_exceeds_64_bits(a, b);
  return a + b;
}

/// The time of an amount of work, rounded down: amount / per_second, 10^12 times finer. A long division in steps of a
/// thousand, so that nothing on the way leaves 64 bits.
GPIPE_ONCE constexpr std::int64_t picoseconds(std::int64_t amount, std::int64_t per_second, const char* device) {
  if (amount < 0) negative_work(amount);
  if (amount == 0) return 0;
  if (per_second < 1 || per_second > most_cost / 1000) device_lacks_rate(device, per_second);
  std::int64_t time = amount / per_second, rest = amount % per_second;
  for (int step = 0; step < 4; ++step) {
    rest *= 1000;
    time = summed(multiplied(time, 1000), rest / per_second);
    rest %= per_second;
  }
  return time;
}

constexpr std::int64_t kernel_time(std::int64_t flops, std::int64_t bytes, int samples, dtype type, const device& on) {
  const std::int64_t computes = picoseconds(multiplied(flops, samples), on.flops_per_second(type), on.name);
  const std::int64_t moves = picoseconds(multiplied(bytes, samples), on.memory_bytes_per_second, on.name);
  return summed(summed(computes, moves), multiplied(on.launch_ns, 1000));
}

}  // namespace detail

/// The analytic cost of one micro-batch of `samples` in a layer: operations and bytes by the device's rates, and a
/// kernel's start for each part.
GPIPE_ONCE constexpr layer_cost layer_cost_of(const row& r, int samples, const device& on = this_cpu) {
  const auto time = [&](std::int64_t flops, std::int64_t bytes) {
    return detail::kernel_time(flops, bytes, samples, r.computes, on);
  };
  return {time(r.cost.forward, r.cost.bytes), time(r.cost.backward_input, r.cost.bytes),
          r.parameter_count == 0 ? 0 : time(r.cost.backward_parameters, 0)};
}

/// The same as a partition sees it: backward in one, with the second forward if there is one.
constexpr slot_cost slot_cost_of(const layer_cost& c, bool recomputed) {
  const std::int64_t backward = detail::summed(c.backward_input, c.backward_parameters);
  return {c.forward, recomputed ? detail::summed(backward, c.forward) : backward};
}
/// The analytic cost of a row, so.
constexpr slot_cost cost_of(const row& r, int samples, bool recomputed, const device& on = this_cpu) {
  return slot_cost_of(layer_cost_of(r, samples, on), recomputed);
}

/// The analytic cost of every slot; a row is reckoned once, however often it is repeated.
GPIPE_ONCE constexpr void layer_costs(const network& net, int samples, const device& on, layer_cost* costs) {
  const detail::scratch<layer_cost> of_row(net.row_count);
  for (int r = 0; r < net.row_count; ++r) of_row[r] = layer_cost_of(net.rows[r], samples, on);
  for (int l = 0; l < net.slot_count; ++l) costs[l] = of_row[net.slots[l].row];
}

/// The time of one transfer over a device's link, in picoseconds; nothing to send takes none.
constexpr std::int64_t transfer_time(std::int64_t bytes, const device& over) {
  if (bytes == 0) return 0;
  return detail::summed(detail::picoseconds(bytes, over.link_bytes_per_second, over.name),
                        detail::multiplied(over.link_latency_ns, 1000));
}

namespace detail {

constexpr std::int64_t bytes_sent(const edge_part& part, int samples) {
  return multiplied(static_cast<std::int64_t>(part.size * bytes_of(part.type)), samples);
}

}  // namespace detail

/// What a link of the cut carries: each value once, however many read it there; where a gradient flows, the sum of the
/// readers' gradients from the stage of the last reader, and from the stages before it one from each reader.
GPIPE_ONCE constexpr traffic traffic_of(const network& net, const cut& cut, const link& over, int samples) {
  traffic sum;
  const slot& last = net.slots[cut.first[over.from + 1] - 1];
  for (int v = net.slots[cut.first[over.from]].first_write; v < last.first_write + last.writes; ++v) {
    const value& of = net.values[v];
    std::int64_t readers = 0;
    for (int i = 0; i < of.readers; ++i) readers += cut.stage_of(net.reader(v, i)) == over.to;
    if (readers == 0) continue;
    const std::int64_t bytes = detail::bytes_sent(of.part, samples);
    sum.forward_bytes = detail::summed(sum.forward_bytes, bytes);
    if (!of.gradient) continue;
    const bool top = cut.stage_of(net.reader(v, of.readers - 1)) == over.to;
    sum.backward_bytes = detail::summed(sum.backward_bytes, detail::multiplied(bytes, top ? 1 : readers));
  }
  return sum;
}

/// The time of a link's transfers for one micro-batch.
constexpr slot_cost link_cost_of(const traffic& t, const device& over) {
  return {transfer_time(t.forward_bytes, over), transfer_time(t.backward_bytes, over)};
}

}  // namespace gpipe
