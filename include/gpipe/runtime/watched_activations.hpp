#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/step/predicted_columns.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Copies the rows of a stage to all processes. Each replica has a part of the call's samples; `before` rows precede
/// them.
GPIPE_COLD inline void share_rows(const broadcast& processes, const step_plan& plan, const step_context& step,
                                  int stage, tensor_rows& rows, int before) {
  for (int r = 0; r < plan.replicas(); ++r) {
    const int first = step.first_sample(r * plan.micro_batches());
    const int count = step.first_sample((r + 1) * plan.micro_batches()) - first;
    for (int t = 0; t < rows.tensors() && count > 0; ++t)
      processes.from_stage(r, stage, rows.at(t, before + first), rows.row_bytes(t) * index(count));
  }
}

/// Copies a prediction to all processes, from the stage of the loss or from each stage that makes some of its columns.
GPIPE_COLD inline void share_predicted(const broadcast& processes, const network& net, const step_plan& plan,
                                       const step_context& step, tensor_rows& rows, int before) {
  const int loss = net.loss_layer();
  if (!is_in_columns(net.type_of(loss)))
    return share_rows(processes, plan, step, plan.cut().stage_of(loss), rows, before);
  if (processes.alone()) return;
  std::vector<std::byte> columns;
  for (int r = 0; r < plan.replicas(); ++r) {
    const int first = step.first_sample(r * plan.micro_batches());
    const int count = step.first_sample((r + 1) * plan.micro_batches()) - first;
    for (int l = 0; l < loss && count > 0; ++l) {
      if (!makes_columns(net, l)) continue;
      const column_range range = columns_in_row(net, l);
      const std::size_t n = index(count) * index(net.type_of(l).lists->predicted.rows);
      std::byte* const target = rows.at(0, before + first) + range.first;
      columns.resize(n * range.bytes);
      copy_columns(n, range.bytes, target, range.of_row, columns.data(), range.bytes);
      processes.from_stage(r, plan.cut().stage_of(l), columns.data(), columns.size());
      copy_columns(n, range.bytes, columns.data(), range.bytes, target, range.of_row);
    }
  }
}

/// The records of passes: rows of watched layers, and of every train and accumulate pass hashes for a digest.
class watched_activations {
 public:
  /// `calls` are kept in the digest; 0: there is no digest. `shared`: the digest of another plan of the training.
  GPIPE_COLD watched_activations(const network& net, const step_plan& plan, std::size_t calls,
                                 gpipe::digest* shared = nullptr)
      : net_(net), plan_(plan), watched_(index(net.layer_count)), shared_(shared) {
    if (calls == 0 || shared != nullptr) return;
    std::vector<std::string> layers;
    for (int l = 0; l < net.layer_count; ++l) layers.emplace_back(net.type_of(l).name);
    digest_ = {std::move(layers), plan.all_micro_batches(), calls};
  }

  gpipe::digest& digest() { return shared_ != nullptr ? *shared_ : digest_; }
  const gpipe::digest& digest() const { return shared_ != nullptr ? *shared_ : digest_; }

  /// Returns the rows that the layer's outputs are copied to from now on; null if it is no longer watched.
  GPIPE_COLD watched_rows* watch(int layer, bool watched) {
    auto& rows = watched_[index(layer)];
    rows.reset();
    if (!watched) return nullptr;
    rows = std::make_unique<watched_rows>();
    for (int o = 0; o < net_.layers[layer].writes; ++o) {
      const value& value = net_.values[net_.writes_value(layer, o)];
      rows->outputs.add(value.part, plan_.max_batch());
      rows->gradients.add(value.gradient ? value.part : edge_part{0, value.part.type}, plan_.max_batch());
    }
    return rows.get();
  }
  const watched_rows* watched(int layer) const { return watched_[index(layer)].get(); }

  /// A call that trains begins with its batch. If it fails, the next call begins instead of it.
  void open(const step_context& step) {
    drop_rows();
    if (!digest().full()) add_data(step);
  }
  /// The call has succeeded; `before` accumulated calls of the same step came before it.
  void close(const step_context& step, int before, const broadcast& processes) {
    keep_rows(step, processes);
    share_digest(processes);
    digest().close({step.step, before});
  }

  /// A call that only runs forward begins with `drop_rows`, and has succeeded with `keep_rows`.
  void drop_rows() {
    for (auto& rows : watched_)
      if (rows) rows->outputs.resize(0), rows->gradients.resize(0);
  }
  void keep_rows(const step_context& step, const broadcast& processes) {
    const int ran = step.predicts() ? net_.loss_layer() : net_.layer_count;
    for (int l = 0; l < ran; ++l) {
      watched_rows* const rows = watched_[index(l)].get();
      if (rows == nullptr || (step.predicts() && makes_columns(net_, l))) continue;
      rows->outputs.resize(step.rows.samples);
      share_rows(processes, plan_, step, plan_.cut().stage_of(l), rows->outputs, 0);
      if (!step.trains()) continue;
      rows->gradients.resize(step.rows.samples);
      share_rows(processes, plan_, step, plan_.cut().stage_of(l), rows->gradients, 0);
    }
  }

 private:
  GPIPE_COLD void add_data(const step_context& step) {
    digest().open();
    hash sum;
    const auto add = [&](const std::byte* rows, std::size_t size, dtype type) {
      if (rows != nullptr) sum.add(rows, size * bytes_of(type) * index(step.rows.samples));
    };
    add(step.rows.inputs, net_.values[0].part.size, net_.values[0].part.type);
    for (int f = 0; f < net_.field_count; ++f)
      add(step.rows.fields[index(f)], net_.fields[f].size, net_.fields[f].type);
    digest().put(action_kind::idle, -1, -1, sum.value());
  }
  GPIPE_COLD void share_digest(const broadcast& processes) {
    for (int s = 0; s < plan_.stages(); ++s) {
      const int first = plan_.first[index(s)], last = plan_.first[index(s) + 1];
      processes.merge(
          s, [&] { return digest().of_layers(first, last); },
          [&](const std::vector<std::uint64_t>& hashes) { digest().put_layers(first, last, hashes); });
    }
  }

  const network& net_;
  const step_plan& plan_;
  std::vector<std::unique_ptr<watched_rows>> watched_;  // [layer]
  gpipe::digest digest_, *shared_;                      // null: it has its own
};

}  // namespace gpipe::detail
