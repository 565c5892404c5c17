#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gpipe/core/hash.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

/// What a process is asked for by a call whose batch was taken.
inline collective_kind collective_kind_of(const step_context& step) {
  if (step.predicted != nullptr) return collective_kind::predict;
  if (!step.training) return collective_kind::evaluate;
  if (!step.applied) return step.examining ? collective_kind::examine : collective_kind::measure;
  return step.commits ? collective_kind::step : collective_kind::accumulate;
}

/// Of the fields of a batch's first sample, as far as this costs nothing to speak of: other batches begin otherwise.
GPIPE_OUT_OF_LINE inline std::uint64_t first_of(const network& net, const batch_rows& rows) {
  constexpr std::size_t most = 64;
  hash sum;
  const auto add = [&](const std::byte* row, std::size_t size, dtype type) {
    if (row != nullptr) sum.add(row, (std::min)(most, size * bytes_of(type)));
  };
  add(rows.inputs, net.values[0].part.size, net.values[0].part.type);
  for (int f = 0; f < net.field_count; ++f)
    add(rows.fields[static_cast<std::size_t>(f)], net.fields[f].size, net.fields[f].type);
  return sum.value();
}

/// What the processes of a job must have in common in a call, beside their plans.
GPIPE_OUT_OF_LINE inline std::array<agreed_value, 5> agreed_values_of_call(const network& net, const step_context& step,
                                                             const commit_decision& decision) {
  const bool commits = collective_kind_of(step) == collective_kind::step;
  return {agreed_value::number("the samples of the call", step.rows.samples),
          agreed_value::number("the samples accumulated before", decision.earlier.samples),
          agreed_value::real("the learning rate", commits ? decision.rate : 0),
          agreed_value::real("the largest norm", commits ? decision.clip : 0),
          agreed_value{"the batch: its first samples differ", first_of(net, step.rows)}};
}

}  // namespace gpipe::detail
