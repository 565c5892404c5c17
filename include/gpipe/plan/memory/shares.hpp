#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/plan/memory/array_location.hpp>
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

// assumes: one parameter type
/// A range of a stage's flat gradients that replicas sum as one, as soon as the last backward of its layers [first,
/// last) is over.
struct bucket {
  int first = 0, last = 0;
  std::size_t begin = 0, bytes = 0;  ///< of the flat array
  /// Large enough to be summed before the stage's backward is over, and without gradients of tied layers, which are
  /// added after it.
  bool early = false;
  bool lent = false;  ///< with gradients of tied layers
  int owner = 0;      ///< the replica whose share has the layers, if replicas keep shares

  constexpr bool operator==(const bucket&) const = default;
};

/// Smaller or more buckets cost more messages than they hide time.
inline constexpr std::size_t min_bucket_bytes = std::size_t{1} << 20, max_buckets = 16;

/// Each of R replicas sums a slice of `bytes`: the slice of replica r begins here, and the slice of r - 1 ends here.
constexpr std::size_t slice_begin(std::size_t bytes, int r, int R) {
  return bytes / alignment * static_cast<std::size_t>(r) / static_cast<std::size_t>(R) * alignment;
}

// change: the sum over replicas; the bytes that arrive
/// Bytes for the slices that `remote_replicas` send, of a range that is cut into `ranges`.
constexpr std::size_t landing_bytes(std::size_t bytes, int remote_replicas, std::size_t ranges = 1) {
  if (bytes == 0) return 0;
  const auto R = static_cast<std::size_t>(remote_replicas) + 1;
  return static_cast<std::size_t>(remote_replicas) * (aligned((bytes + R - 1) / R) + (ranges - 1) * alignment);
}
/// The same for all buckets of `bytes`. More bytes never need less.
constexpr std::size_t landing_of_buckets(std::size_t bytes, int remote_replicas) {
  return landing_bytes(bytes, remote_replicas, (std::min)(max_buckets, bytes / min_bucket_bytes + 1));
}

/// Gradients that leave the memory of their stage go in smaller buckets, each of one share.
inline constexpr std::size_t max_leaving_buckets = 64;

/// Calls `sink(const bucket&)` for each bucket of a stage, the last layers first, in the order of backward. Together
/// they are the whole array; each has whole layers. `shares` > 1: buckets of gradients that leave the memory of a stage
/// which that many replicas share.
template <class Sink>
constexpr void each_bucket(const stage_view& stage, Sink&& sink, int shares = 1) {
  const network& net = stage.net();
  std::size_t total = 0;
  for (int l = stage.first(); l < stage.last(); ++l) total += net.own_bytes(l);
  const std::size_t max = shares > 1 ? max_leaving_buckets : max_buckets;
  const std::size_t min_bytes = (std::max)(min_bucket_bytes, (total + max - 1) / max);
  const auto owner = [&](int l, std::size_t begin) {
    return share_of(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(net.own_bytes(l)),
                    static_cast<std::int64_t>(total), shares);
  };
  bucket next{0, stage.last(), total};
  for (int l = stage.last() - 1; l >= stage.first(); --l) {
    next.first = l;
    next.begin -= net.own_bytes(l);
    next.bytes += net.own_bytes(l);
    for (int user = l + 1; user < net.layer_count && !next.lent; ++user) next.lent = net.uses(user, l);
    next.owner = owner(l, next.begin);
    const bool ends =
        l == stage.first() || (shares > 1 && owner(l - 1, next.begin - net.own_bytes(l - 1)) != next.owner);
    if (next.bytes < min_bytes && !ends) continue;
    next.early = next.bytes >= min_bytes && !next.lent;
    if (next.bytes > 0) sink(static_cast<const bucket&>(next));
    next = {0, l, next.begin};
  }
}

}  // namespace gpipe::detail
