#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/nets.hpp"

#include <gpipe/job.hpp>

// A training with enough gradients to be summed over replicas before a stage's backward ends.

namespace laws {

/// Two of its layers fill a bucket of gradients each.
struct wide_net
    : model<input<float, 12>, linear<512>, gelu, linear<512>, gelu, linear<512>, linear<8>, softmax_cross_entropy> {};

struct wide_training {
  /// Hashes of gradients and parameters after each call; the first call, not counted below, throws.
  std::vector<std::uint64_t> bits;
  int sums_within_backward = 0;  ///< times that a replica began or continued a sum during the stage's backward

  wide_training(const plan_options& options, process_group* job) {
    const samples<float> data(16, 12, 1);
    training_options how;
    how.trace_events = 1000;
    how.job = job;
    bool throws = job == nullptr || job->rank() == 1;
    how.before = [&throws](const instruction& i) {
      if (throws && i.kind == action_kind::reduce) throw std::runtime_error("when sums have begun");
    };
    trainer<wide_net, sgd> training(options, sgd{.learning_rate = 0.1}, how);
    try {
      training.step(data.take(0, 16));
    } catch (const error&) {
      bits.push_back(training.parameter_hash());
    }
    throws = false;
    training.reset_report();
    for (const int size : {16, 2, 13}) {
      training.step(data.take(0, size));
      bits.push_back(gradients_of(training));
      bits.push_back(training.parameter_hash());
    }
    training.accumulate(data.take(0, 7));
    bits.push_back(std::bit_cast<std::uint64_t>(training.step(data.take(7, 9)).norm));
    bits.push_back(training.parameter_hash());
    for (const recorder& of : training.trace())
      for (int s = 0; s < training.plan().stages(); ++s) look_at(of, s);
  }
  /// In each of five calls the two full buckets of each replica; the second bucket has no sample in one call.
  static constexpr int min_sums = (5 + 4) * 2;

 private:
  void look_at(const recorder& of, int stage) {
    int since = 0;
    for (const trace_event& e : of.events()) {
      if (e.stage != stage) continue;
      if (e.kind == action_kind::reduce) ++since;
      if (e.kind == action_kind::backward || e.kind == action_kind::backward_parameters)
        sums_within_backward += std::exchange(since, 0);
      if (e.kind == action_kind::update) since = 0;
    }
  }
};

}  // namespace laws
