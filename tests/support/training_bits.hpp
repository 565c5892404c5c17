#pragma once

// The bits of a training that laws compare.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>
#include <gpipe/train/basic_trainer.hpp>

namespace laws {

using namespace gpipe;

/// The bits of all that a training has changed: parameters, moments, arrays of tensor rules, averages, state, the
/// number of steps; of one replica.
inline std::uint64_t state_of(const basic_trainer& training, int replica = 0) {
  gpipe::detail::hash sum;
  const auto& run = training.executor();
  for (int l = 0; l < run.net().layer_count; ++l) {
    const gpipe::detail::layer_type& r = run.net().type_of(l);
    const auto add = [&](const array_location& from) {
      std::vector<std::byte> copy(from.bytes);
      run.read(from, copy.data(), replica);
      sum.add(copy.data(), from.bytes);
    };
    const std::size_t own = run.net().own_bytes(l);
    add({memory_kind::parameters, l, 0, 0, own});
    for (int k = 0; k < run.plan().options.optimizer_moments; ++k)  // without the padding
      for (int p = 0; p < r.parameter_count; ++p)
        if (run.net().owns(l, p)) add(gpipe::detail::locate(run.net(), {l, p}).in(memory_kind::moments, k));
    if (const auto* rule = run.plan().options.tensor_rule; rule != nullptr)
      add({memory_kind::arrays, l, 0, 0, gpipe::detail::arrays_before(run.net(), l, *rule)});
    if (run.plan().options.average_weights) add({memory_kind::averages, l, 0, 0, own});
    for (int i = 0; i < r.state_count; ++i)  // without the padding
      add(gpipe::detail::locate(run.net(), {l, i, array_kind::state}));
  }
  const std::uint64_t steps = training.steps();
  sum.add(reinterpret_cast<const std::byte*>(&steps), sizeof steps);
  return sum.value();
}

/// Returns true if all replicas are equal.
inline bool replicas_agree(const basic_trainer& training) {
  bool agree = true;
  for (int r = 1; r < training.plan().replicas(); ++r) agree = agree && state_of(training, r) == state_of(training);
  return agree;
}

/// The bits of every parameter's gradient.
inline std::uint64_t gradients_of(const basic_trainer& training) {
  gpipe::detail::hash sum;
  const auto& run = training.executor();
  for (int l = 0; l < run.net().layer_count; ++l) {
    std::vector<std::byte> copy(run.net().own_bytes(l));
    run.read({memory_kind::gradients, l, 0, 0, copy.size()}, copy.data());
    sum.add(copy.data(), copy.size());
  }
  return sum.value();
}

using training_bits = std::vector<std::uint64_t>;

inline void append(training_bits& found, const step_result& result) {
  for (const double x : {result.loss, result.weight, result.correct, result.norm})
    found.push_back(std::bit_cast<std::uint64_t>(x));
  found.push_back(static_cast<std::uint64_t>(result.samples));
  for (const loss_result& auxiliary : result.auxiliary_losses())
    for (const double x : {auxiliary.loss, auxiliary.weight}) found.push_back(std::bit_cast<std::uint64_t>(x));
}

inline void append(training_bits& found, const tensor_rows& rows) {
  found.push_back(static_cast<std::uint64_t>(rows.samples()));
  for (int t = 0; t < rows.tensors(); ++t) {
    const auto bytes = std::as_bytes(rows.all(t));
    gpipe::detail::hash sum;
    sum.add(bytes.data(), bytes.size());
    found.push_back(sum.value());
  }
}

/// Gradients, and all that the training has changed.
inline void append(training_bits& found, const basic_trainer& training) {
  found.push_back(gradients_of(training));
  found.push_back(state_of(training));
}

}  // namespace laws
