#pragma once

#include <cstdint>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

// assumes: replicas keep all parameters
/// The part of a stage that one of its replicas updates: neighbouring layers, whose parameters are a range of the
/// stage's flat array. A layer belongs to the share in which its middle lies, if the array were cut into equal parts:
///
///     parameters   | layer 0    | 1 | 2     | 3              | 4 | 5 |
///     equal parts  |             0             |             1             |
///     shares       |           0            |           1            |
///
/// So a share has at most the bytes of an equal part plus one layer, and is empty if one layer has several equal parts.
struct stage_share {
  int first = 0, last = 0;            ///< layers [first, last)
  std::int64_t begin = 0, bytes = 0;  ///< of the flat array
  std::int64_t arrays = 0;            ///< bytes of a tensor rule's arrays

  constexpr std::int64_t end() const { return begin + bytes; }
  constexpr bool has(int layer) const { return first <= layer && layer < last; }
  constexpr bool operator==(const stage_share&) const = default;
};

/// The share of a layer with these bytes, in a stage with `total` bytes.
constexpr int share_of(std::int64_t begin, std::int64_t bytes, std::int64_t total, int replicas) {
  if (total == 0) return 0;
  const std::int64_t number = (begin + bytes / 2) * replicas / total;
  return number < replicas ? static_cast<int>(number) : replicas - 1;
}

/// Calls `sink(replica, const stage_share&)` for each replica's share, in ascending order. `rule` may be null.
template <class Sink>
constexpr void each_share(const stage_view& stage, int replicas, const tensor_rule_memory* rule, Sink&& sink) {
  const network& net = stage.net();
  std::int64_t total = 0;
  for (int l = stage.first(); l < stage.last(); ++l) total += static_cast<std::int64_t>(net.own_bytes(l));
  stage_share next{stage.first(), stage.first()};
  int number = 0;
  for (int l = stage.first(); l < stage.last(); ++l) {
    const auto bytes = static_cast<std::int64_t>(net.own_bytes(l));
    for (const int owner = share_of(next.end(), bytes, total, replicas); number < owner; ++number) {
      sink(number, static_cast<const stage_share&>(next));
      next = {l, l, next.end()};
    }
    next.last = l + 1;
    next.bytes += bytes;
    if (rule != nullptr) next.arrays += static_cast<std::int64_t>(arrays_before(net, l, *rule));
  }
  for (; number < replicas; ++number) {
    sink(number, static_cast<const stage_share&>(next));
    next = {stage.last(), stage.last(), next.end()};
  }
}

/// The share of one replica. If nothing is in shares (`replicas` 1), it is the whole stage.
constexpr stage_share share_of_replica(const stage_view& stage, int replicas, int replica) {
  stage_share found;
  each_share(stage, replicas, nullptr, [&](int number, const stage_share& share) {
    if (number == replica) found = share;
  });
  return found;
}

/// The largest of the bytes that a share may have: all replicas have the same layout.
constexpr stage_share largest_share(const stage_view& stage, int replicas, const tensor_rule_memory* rule) {
  stage_share max;
  each_share(stage, replicas, rule, [&](int, const stage_share& share) {
    if (share.bytes > max.bytes) max.bytes = share.bytes;
    if (share.arrays > max.arrays) max.arrays = share.arrays;
  });
  return max;
}

struct layer_range {
  int first = 0, last = 0;  ///< layers [first, last)

  constexpr bool empty() const { return first == last; }
  constexpr bool operator==(const layer_range&) const = default;
};

/// The layers whose gradients a replica reports to the decision after a sum over replicas: the layers of its share. In
/// a pass that does not commit the first replica has all sums.
constexpr layer_range reported_layers(const stage_view& stage, int shares, int replica, bool commits) {
  if (shares == 1 || !commits) return replica == 0 ? layer_range{stage.first(), stage.last()} : layer_range{};
  const stage_share share = share_of_replica(stage, shares, replica);
  return {share.first, share.last};
}

}  // namespace gpipe::detail
