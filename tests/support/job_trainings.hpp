#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/job.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

#include "support/nets.hpp"
#include "support/processes.hpp"

// Trainings in the job of processes that mpirun has started, beside the same in the threads of each of them.

namespace laws {

inline constexpr int M = 4, B = 4;

inline plan_options plan_by(schedule_kind kind, int workers) {
  const int stages = stages_per_worker(kind) * workers;
  return {.stages = stages, .micro_batches = M, .micro_batch_size = B, .schedule = kind};
}

inline training_options options_in(process_group* job) {
  training_options o;
  o.seed = 5;
  o.max_grad_norm = 0.5;
  o.arena_fill = std::byte{0xff};
  o.deadline = std::chrono::seconds(30);
  o.canary = true;
  o.job = job;
  return o;
}

/// All numbers that a training returns.
template <class Net, class Data>
std::vector<double> numbers_of(const plan_options& o, training_options how, const Data& data) {
  how.digest_calls = 3;
  how.trace_events = 1000;
  trainer<Net, adam> training(o, adam{.learning_rate = 0.02}, how);
  const int layer = layers_of<Net> / 2;
  training.watch(layer);
  std::vector<double> found;
  const auto add = [&](const step_result& of) {
    found.insert(found.end(), {of.loss, of.norm, of.weight, of.correct});
    for (const loss_result& it : of.auxiliary_losses()) found.insert(found.end(), {it.loss, it.weight, it.accuracy()});
  };
  const auto add_bits = [&](std::uint64_t bits) {
    found.insert(found.end(), {static_cast<double>(bits >> 32), static_cast<double>(bits & 0xffffffffu)});
  };
  const auto add_rows = [&](const tensor_rows& rows) {
    try {
      for (const float x : rows.all()) found.push_back(static_cast<double>(x));
    } catch (const error&) {  // the type is another
    }
  };
  // 13 samples are 4 + 4 + 4 + 1; one sample is fewer than there are stages.
  for (const int size : {13, 16, o.replicas}) {
    add(training.step(data.take(0, size)));
    add_rows(training.activation(layer));
    add_rows(training.activation_gradient(layer));
  }
  add(training.accumulate(data.take(2, 7)));
  training.freeze(1);
  add(training.step(data.take(9, 4)));
  training.unfreeze(1);
  add_bits(gradients_of(training));
  add(training.evaluate(data.take(0, 9)));
  add_rows(training.predict(data.take(3, 9)));
  add_bits(state_of(training));
  add_bits(training.parameter_hash());
  CHECK(replicas_agree(training));
  gpipe::detail::hash all;
  for (std::size_t call = 0; call < training.digest().calls(); ++call)
    for (const std::uint64_t bits : training.digest().hashes(call))
      all.add(reinterpret_cast<const std::byte*>(&bits), sizeof bits);
  add_bits(all.value());
  for (const stage_report& r : training.report()) found.push_back(r.busy(action_kind::forward) > 0);
  for (const recorder& worker : training.trace()) found.push_back(static_cast<double>(worker.events().size()));
  for (int l = 0; l < layers_of<Net>; ++l) {  // values that the caller sets, tied parameters included
    const gpipe::detail::layer_type& r = training.executor().net().type_of(l);
    if (r.parameter_count == 0) continue;
    std::vector<float> ones(r.parameters[0].extents.size(), 0.125F);
    training.array(l, r.parameters[0].name).set(std::span<const float>(ones));
    break;
  }
  add(training.step(data.take(0, 5)));
  return found;
}

/// The parameters after a training that is not observed.
template <class Net, class Data>
std::uint64_t learned(const plan_options& o, const training_options& how, const Data& data) {
  trainer<Net, adam> training(o, adam{.learning_rate = 0.02}, how);
  for (const int size : {13, 16, 1}) training.step(data.take(0, size));
  return training.parameter_hash();
}

inline const samples<float> plain(40, 12, 1), channels(40, 12, 2);

inline error failure_of(trainer<tied_net<float>, adam>& training, const batch& data) {
  try {
    training.step(data);
  } catch (const error& cause) {
    return cause;
  }
  return {"no failure", ""};
}

}  // namespace laws
