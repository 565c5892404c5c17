#pragma once

#include <cstdint>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

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
