#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/hooks/layer_hooks.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/step/predicted_columns.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe::detail {

/// The records of a run: each stage's times, replica after replica, and each worker's events. The records of other
/// processes date from the last call of `share_stages` or `share_workers`.
class run_report {
 public:
  /// `workers` are in this process; `events` are kept for each worker; 0: none.
  GPIPE_COLD run_report(const network& net, const step_plan& plan, int workers, std::size_t events,
                        host_cores host = {})
      : workers_per_replica_(plan.workers()) {
    const int R = plan.replicas(), S = plan.stages(), K = plan.workers();
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s) add_stage(net, plan, r, s);
    const unsigned allowed = cores::allowed();
    for (stage_report& r : stages_) {  // `share_stages` replaces the entries of other processes
      r.process_workers = workers;
      if (allowed < cores::of_machine()) r.bound_to = static_cast<int>(allowed);
      r.host_processes = host.processes, r.host_workers = host.workers;
      if (host.cores < static_cast<int>(cores::of_machine())) r.host_bound_to = host.cores;
    }
    for (int w = 0; w < R * K && events > 0; ++w)
      workers_.emplace_back(events, detail::concat({R > 1 ? "replica " + std::to_string(w / K) + ", " : "",
                                                    K < S ? "worker " : "stage ", w % K}));
  }

  std::vector<stage_report>& stages() { return stages_; }
  const std::vector<recorder>& workers() const { return workers_; }
  /// The events of a replica's worker; null if none are kept.
  recorder* of_worker(int replica, int worker) {
    return workers_.empty() ? nullptr : &workers_[detail::index(replica * workers_per_replica_ + worker)];
  }

  GPIPE_COLD void share_stages(const broadcast& processes) {
    for (stage_report& r : stages_) processes.from_stage(r.replica, r.stage, &r, sizeof r);
  }
  GPIPE_COLD void share_workers(const broadcast& processes) {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      workers_[i].share([&](void* bytes, std::size_t size) {
        processes.from_worker(static_cast<int>(i) / workers_per_replica_, static_cast<int>(i) % workers_per_replica_,
                              bytes, size);
      });
  }
  GPIPE_COLD void reset() {
    for (stage_report& r : stages_) r.busy_ns = {}, r.wait_ns = r.link_ns = r.step_ns = 0, r.steps = 0;
    reset_events();
  }
  void reset_events() {
    for (recorder& r : workers_) r.clear();
  }

 private:
  GPIPE_COLD void add_stage(const network& net, const step_plan& plan, int r, int s) {
    stage_report added;
    added.stage = s, added.first = plan.cut().first[s], added.last = plan.cut().first[s + 1];
    added.predicted_share = plan.share(s);
    added.bytes = static_cast<std::size_t>(plan.memory(s).total());
    for (int l = added.first; l < added.last; ++l) added.parameters += net.own_elements(l);
    added.replica = r, added.worker = r * plan.workers() + plan.worker_of(s);
    stages_.push_back(added);
  }

  std::vector<stage_report> stages_;  // [replica][stage]
  std::vector<recorder> workers_;     // [replica][worker]
  int workers_per_replica_;
};

/// Appends the median times of each layer of a stage for a full micro-batch; -1 for a layer that was not timed.
template <class Stage>
GPIPE_COLD void append_measured(const step_plan& plan, const Stage& stage, measured_profile& profile) {
  for (const auto& b : stage.layers()) {
    const auto median = [&](timed part) {
      return stage.timer() == nullptr ? -1
                                      : stage.timer()->median(b.layer_index - stage.layers().front().layer_index, part);
    };
    const auto known = [](std::int64_t ns) { return (std::max)(std::int64_t{0}, ns); };
    measured_layer line{b.layer_index, b.layer->name, median(timed::forward), known(median(timed::backward_input)),
                        known(median(timed::backward_parameters))};
    if (const std::int64_t both = median(timed::backward); both >= 0) {
      // The time of both parts is split in proportion to their costs.
      const layer_cost& costs = plan.costs().of(stage.stage())[b.layer_index];
      const double total = static_cast<double>(costs.backward_input) + static_cast<double>(costs.backward_parameters);
      const double part = total > 0 ? static_cast<double>(costs.backward_input) / total : 1;
      line.backward_input_ns = static_cast<std::int64_t>(static_cast<double>(both) * part);
      line.backward_parameters_ns = both - line.backward_input_ns;
    }
    profile.layers.push_back(line);
  }
}

/// Copies the times of a stage in the first replica to all processes. Called for each stage in order.
GPIPE_COLD inline void share_measured(const network& net, const step_plan& plan, const broadcast& processes, int stage,
                                      measured_profile& found) {
  for (int l = plan.first[index(stage)]; l < plan.first[index(stage) + 1]; ++l) {
    measured_layer& line = found.layers.size() > index(l) ? found.layers[index(l)] : found.layers.emplace_back();
    std::int64_t ns[] = {line.forward_ns, line.backward_input_ns, line.backward_parameters_ns};
    processes.from_stage(0, stage, ns, sizeof ns);
    line = {l, net.type_of(l).name, ns[0], ns[1], ns[2]};
  }
}

/// Throws `error` if a layer was not timed.
GPIPE_COLD inline void require_measured(const step_plan& plan, const measured_profile& found) {
  for (const measured_layer& line : found.layers)
    if (line.forward_ns < 0)
      throw_error({"no full micro-batch was timed"}, {"run steps of ", plan.max_batch(), " samples with layer_times"},
                  {.layer_index = line.position});
}

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
