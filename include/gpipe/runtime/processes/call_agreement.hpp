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
inline request request_of(const step_state& step) {
  if (step.predicted != nullptr) return request::predict;
  if (!step.training) return request::evaluate;
  if (!step.applied) return step.examining ? request::examine : request::measure;
  return step.commits ? request::step : request::accumulate;
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
GPIPE_OUT_OF_LINE inline std::array<trait, 5> traits_of_call(const network& net, const step_state& step,
                                                             const commit& decision) {
  const bool commits = request_of(step) == request::step;
  return {trait::number("the samples of the call", step.rows.samples),
          trait::number("the samples accumulated before", decision.earlier.samples),
          trait::real("the learning rate", commits ? decision.rate : 0),
          trait::real("the largest norm", commits ? decision.clip : 0),
          trait{"the batch: its first samples differ", first_of(net, step.rows)}};
}

}  // namespace gpipe::detail
