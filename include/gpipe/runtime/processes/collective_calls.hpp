#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>

#include <gpipe/core/config.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

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

// change: gradient clipping; the agreement
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

// assumes: several lengths in one process
/// The calls of an executor. All processes of a job make the same calls, and a call that fails in one process fails in
/// all. With one process, most of these calls return at once.
class collective_calls {
 public:
  /// `job` null: there is one process.
  explicit collective_calls(process_group* job) : job_(job) {}

  /// These throw if another process makes another call.
  GPIPE_COLD void agree_to_freeze(int layer, bool frozen) const {
    agree(collective_kind::freeze,
          {agreed_value::number("the layer", layer), agreed_value::number("whether it is frozen", frozen)});
  }
  GPIPE_COLD void agree_to_watch(int layer, bool watched) const {
    agree(collective_kind::watch,
          {agreed_value::number("the layer", layer), agreed_value::number("whether it is watched", watched)});
  }
  GPIPE_COLD void agree_to_write(const array_location& array, const void* values) const {
    if (job_ == nullptr) return;
    hash sum;
    sum.add(static_cast<const std::byte*>(values), array.bytes);
    agree(collective_kind::write, {agreed_value::number("the kind of memory", static_cast<int>(array.kind)),
                                   agreed_value::number("the layer", array.layer_index),
                                   agreed_value::number("the first byte", static_cast<std::int64_t>(array.offset)),
                                   {"the values", sum.value()}});
  }
  /// A point that all processes reach in a save or a load, or none passes.
  GPIPE_COLD void agree_to(collective_kind kind, std::initializer_list<agreed_value> values) const {
    agree(kind, values);
  }
  /// Whether this is the process that does the work that is done once per job.
  bool is_first() const { return job_ == nullptr || job_->rank() == 0; }
  bool alone() const { return job_ == nullptr; }
  /// In a call that takes long: this process makes progress.
  void working(const char* action) const {
    if (job_ != nullptr) job_->begin({.action = action});
  }

  /// Runs `call()`. If it throws here, the call fails in all processes.
  template <class Call>
  void together(Call&& call) const {
    try {
      call();
    } catch (...) {
      leave();
      throw;
    }
  }
  /// A pass begins. The processes find out while they work whether all make the same call.
  void enter(const network& net, const step_context& step, const commit_terms& terms) const {
    if (job_ != nullptr) job_->enter(collective_kind_of(step.kind), agreed_values_of_call(net, step, terms));
  }
  /// A worker's part of a pass: if it throws, all processes find out at once.
  template <class Call>
  void report_failure(Call&& call) const {
    try {
      call();
    } catch (...) {
      fail();
      throw;
    }
  }
  /// The pass has failed, here or elsewhere. Called before devices are waited for.
  void abandon() const noexcept {
    if (job_ != nullptr) job_->abandon();
  }
  /// Called in a handler: throws the first cause among all processes. With one process it returns.
  GPIPE_COLD void leave() const {
    if (job_ == nullptr) return;
    fail();
    throw job_->recover();
  }

 private:
  // In a handler: reports the cause, unless another was first.
  GPIPE_COLD void fail() const {
    if (job_ == nullptr) return;
    try {
      throw;
    } catch (const interrupted&) {
    } catch (const error& cause) {
      job_->fail(cause);
    } catch (const std::exception& cause) {
      job_->fail(error(cause.what(), ""));
    }
  }
  void agree(collective_kind kind, std::initializer_list<agreed_value> values) const {
    if (job_ != nullptr) job_->agree(kind, {values.begin(), values.size()});
  }

  process_group* job_;
};

}  // namespace gpipe::detail
