#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gpipe/core/hash.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

/// The only translation of a pass into the call that processes agree on.
inline collective_kind collective_kind_of(pass_kind kind) {
  switch (kind) {
    case pass_kind::train:
      return collective_kind::step;
    case pass_kind::accumulate:
      return collective_kind::accumulate;
    case pass_kind::measure:
      return collective_kind::measure;
    case pass_kind::diagnose:
      return collective_kind::examine;
    case pass_kind::evaluate:
      return collective_kind::evaluate;
    case pass_kind::predict:
      break;
  }
  return collective_kind::predict;
}

/// Hashes of the beginning of a batch's first sample: of the inputs, and of each field; the last hash is of all further
/// fields. They cost little, and different batches begin differently. A process need not have fields that its layers do
/// not read; their hashes are unknown.
GPIPE_OUT_OF_LINE inline std::array<std::uint64_t, 8> hashes_of_first_sample(const network& net,
                                                                             const batch_rows& rows) {
  constexpr std::size_t max_bytes = 64;
  std::array<hash, 8> sums;
  std::array<bool, 8> unknown{};
  const auto add = [&](std::size_t i, const std::byte* row, std::size_t size, dtype type) {
    if (row != nullptr) sums[i].add(row, (std::min)(max_bytes, size * bytes_of(type)));
  };
  add(0, rows.inputs, net.values[0].part.size, net.values[0].part.type);
  unknown[0] = rows.inputs == nullptr;
  for (int f = 0; f < net.field_count; ++f) {
    const std::size_t i = (std::min)(index(f) + 1, sums.size() - 1);
    add(i, rows.fields[index(f)], net.fields[f].size, net.fields[f].type);
    unknown[i] = unknown[i] || rows.unknown[index(f)];
  }
  std::array<std::uint64_t, 8> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = unknown[i] ? agreed_value::unknown : sums[i].value();
  return values;
}

/// The values of a call that must be the same in all processes of a job.
GPIPE_OUT_OF_LINE inline std::array<agreed_value, 12> agreed_values_of_call(const network& net,
                                                                            const step_context& step,
                                                                            const commit_terms& terms) {
  const bool trains = step.kind == pass_kind::train;
  std::array<agreed_value, 12> values{agreed_value::number("the samples of the call", step.rows.samples),
                                      agreed_value::number("the samples accumulated before", terms.accumulated.samples),
                                      agreed_value::real("the learning rate", trains ? terms.rate : 0),
                                      agreed_value::real("the largest norm", trains ? terms.max_norm : 0)};
  const std::array<std::uint64_t, 8> hashes = hashes_of_first_sample(net, step.rows);
  for (std::size_t i = 0; i < hashes.size(); ++i) values[4 + i] = {"the batch: its first samples differ", hashes[i]};
  return values;
}

}  // namespace gpipe::detail
