#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe {

/// Hashes of all results of a training. For each call: the data, the results of each layer in forward and in both parts
/// of backward for each micro-batch, and the parameters after the update. They are stored by the layer's position and
/// not by the stage: bit-equal trainings of one model have the same digest for every number of stages.
class digest {
 public:
  /// A call of `step` or `accumulate`: its step, and the number of earlier calls of the same step.
  struct call {
    std::uint64_t step;
    int before;
  };

  digest() = default;
  /// Reserves memory for `calls` calls of step and accumulate; later calls are not stored.
  GPIPE_COLD digest(std::vector<std::string> layers, int micro_batches, std::size_t calls)
      : layers_(std::move(layers)), micro_batches_(micro_batches), room_(calls), hashes_(calls * per_call()) {
    known_.reserve(calls);
  }
  /// The bytes per call.
  static constexpr std::size_t call_bytes(int layers, int micro_batches) {
    return hashes_in_call(layers, micro_batches) * sizeof(std::uint64_t) + sizeof(call);
  }

  std::size_t calls() const { return known_.size(); }
  bool full() const { return known_.size() == room_; }
  const std::vector<std::string>& layers() const { return layers_; }
  int micro_batches() const { return micro_batches_; }
  const call& at(std::size_t number) const { return known_[number]; }
  std::span<const std::uint64_t> hashes(std::size_t number) const {
    return std::span(hashes_).subspan(number * per_call(), per_call());
  }

  /// Begins a call, or begins it anew if it has failed: all hashes are zero until written.
  std::span<std::uint64_t> open() {
    if (full()) return {};
    const auto hashes = std::span(hashes_).subspan(known_.size() * per_call(), per_call());
    std::fill(hashes.begin(), hashes.end(), std::uint64_t{0});
    return hashes;
  }
  /// Stores the hash of a layer's results of the call's action on a micro-batch (-1 for `update`); `idle`: of the data.
  void put(action_kind kind, int micro_batch, int layer, std::uint64_t bits) {
    if (!full()) hashes_[known_.size() * per_call() + index_of(kind, micro_batch, layer)] = bits;
  }
  /// The hashes of the layers [first, last) in the open call, line by line; `put_layers` stores them.
  GPIPE_COLD std::vector<std::uint64_t> of_layers(int first, int last) {
    std::vector<std::uint64_t> found;
    each_line(first, last, [&](std::uint64_t& bits) { found.push_back(bits); });
    return found;
  }
  GPIPE_COLD void put_layers(int first, int last, const std::vector<std::uint64_t>& layer_hashes) {
    std::size_t next = 0;
    each_line(first, last, [&](std::uint64_t& bits) { bits = layer_hashes[next++]; });
  }
  void close(const call& ended) {
    if (!full()) known_.push_back(ended);
  }

  /// The first action with different results in `a` and `b`, among the calls that both have: step, position, layer,
  /// micro-batch (counted over accumulated calls) and action. The order: forward before backward, a micro-batch before
  /// the next, a layer after the layers that it reads. Throws `error` if the models or their micro-batches differ.
  friend GPIPE_COLD std::optional<detail::location> first_difference(const digest& a, const digest& b) {
    if (a.layers_ != b.layers_ || a.micro_batches_ != b.micro_batches_)
      detail::throw_error({"the digests differ in their layers or in their number of micro-batches"},
                          {"compare trainings of one model with the same number of micro-batches"});
    for (std::size_t i = 0; i < (std::min)(a.calls(), b.calls()); ++i)
      if (auto found = a.first_difference_in(i, b)) return found;
    return std::nullopt;
  }

 private:
  int layer_count() const { return static_cast<int>(layers_.size()); }
  // The data; forward and each part of backward of every micro-batch; the update.
  static constexpr std::size_t hashes_in_call(int layers, int micro_batches) {
    return 1 + static_cast<std::size_t>(layers) * (3 * static_cast<std::size_t>(micro_batches) + 1);
  }
  std::size_t per_call() const { return hashes_in_call(layer_count(), micro_batches_); }
  template <class Visit>
  void each_line(int first, int last, Visit&& visit) {
    for (int line = 0; line <= 3 * micro_batches_ && !full(); ++line)
      for (int l = first; l < last; ++l)
        visit(hashes_[known_.size() * per_call() + 1 + static_cast<std::size_t>(line) * layers_.size() +
                      static_cast<std::size_t>(l)]);
  }
  std::size_t index_of(action_kind kind, int m, int layer) const {
    if (kind == action_kind::idle) return 0;
    const int line = kind == action_kind::forward          ? m
                     : kind == action_kind::backward_input ? micro_batches_ + m
                     : kind == action_kind::update         ? 3 * micro_batches_
                                                           : 2 * micro_batches_ + m;
    return 1 + static_cast<std::size_t>(line) * layers_.size() + static_cast<std::size_t>(layer);
  }

  GPIPE_COLD std::optional<detail::location> first_difference_in(std::size_t number, const digest& b) const {
    const call& expected = known_[number];
    const auto differs = [&](action_kind kind, int m, int layer) {
      const std::size_t i = number * per_call() + index_of(kind, m, layer);
      return hashes_[i] != b.hashes_[i];
    };
    const auto found = [&](std::string_view action, int m, int layer) {
      return detail::location{.layer = layer < 0 ? std::string() : layers_[static_cast<std::size_t>(layer)],
                              .layer_index = layer,
                              .micro_batch = m < 0 ? -1 : expected.before * micro_batches_ + m,
                              .action = std::string(action),
                              .step = static_cast<long>(expected.step)};
    };
    if (expected.step != b.known_[number].step || expected.before != b.known_[number].before)
      return found("call", -1, -1);
    if (differs(action_kind::idle, -1, -1)) return found("data", -1, -1);
    for (int m = 0; m < micro_batches_; ++m)
      for (int l = 0; l < layer_count(); ++l)
        if (differs(action_kind::forward, m, l)) return found(name_of(action_kind::forward), m, l);
    for (int m = 0; m < micro_batches_; ++m)
      for (int l = layer_count() - 1; l >= 0; --l)
        for (const action_kind kind : {action_kind::backward_input, action_kind::backward_parameters})
          if (differs(kind, m, l)) return found(name_of(kind), m, l);
    for (int l = 0; l < layer_count(); ++l)
      if (differs(action_kind::update, -1, l)) return found(name_of(action_kind::update), -1, l);
    return std::nullopt;
  }

  std::vector<std::string> layers_;
  int micro_batches_ = 0;
  std::size_t room_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::vector<call> known_;
};

}  // namespace gpipe
