#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// assumes: replicas keep all parameters
/// Gathers the values of a commit's decision from all processes at the end of a call, so that every process makes the
/// same decision. Each process contributes, stage by stage:
///
///     squares of the gradients that the replica reports | partials of the stage's losses
class decision_exchange {
 public:
  GPIPE_COLD decision_exchange(process_group& job, const network& net, const step_plan& plan)
      : job_(job), plan_(plan), ranks_(plan, &job) {
    for (int r = 0; r < plan.replicas(); ++r)
      for (int s = 0; s < plan.stages(); ++s)
        for (const bool commits : {false, true})
          reported_[commits ? 1 : 0].push_back(
              reported_layers(stage_view(net, plan.cut(), s), plan.requirements(s).shares, r, commits));
    losses_ = locations_of_losses(net, plan.all_micro_batches());
    std::vector<std::size_t> sizes(detail::index(job.ranks()));
    for (int r = 0; r < plan.replicas(); ++r)
      for (int s = 0; s < plan.stages(); ++s)
        sizes[detail::index(ranks_.rank_of_stage(r, s))] += max_square_bytes(r, s) + partial_bytes(s);
    gather_ = job.make_all_gather(sizes);
  }

  /// `settled`: senders of this call; the memory from which they sent is free when all processes have contributed.
  GPIPE_OUT_OF_LINE void exchange(gathered_values& values, bool commits, const std::vector<sending_end*>& settled) {
    each_block([&](int r, int s, std::size_t offset) {
      if (ranks_.rank_of_stage(r, s) != job_.rank()) return;
      std::byte* target = gather_->mine() + offset;
      const layer_range layers = reported(r, s, commits);
      copy(target, values.squares.data() + layers.first, square_bytes(layers));
      target += max_square_bytes(r, s);
      each_loss(s, [&](const loss_location& loss, std::size_t bytes) {
        copy(target, partials(values, loss, r), bytes);
        target += bytes;
      });
    });
    gather_->gather({.action = "gather"}, settled);
    each_block([&](int r, int s, std::size_t offset) {
      if (ranks_.rank_of_stage(r, s) == job_.rank()) return;
      const std::byte* source = gather_->of(ranks_.rank_of_stage(r, s)) + offset;
      const layer_range layers = reported(r, s, commits);
      copy(values.squares.data() + layers.first, source, square_bytes(layers));
      source += max_square_bytes(r, s);
      each_loss(s, [&](const loss_location& loss, std::size_t bytes) {
        copy(partials(values, loss, r), source, bytes);
        source += bytes;
      });
    });
  }

 private:
  // A process without values has a null pointer for them.
  static void copy(void* target, const void* source, std::size_t bytes) {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }
  const layer_range& reported(int r, int s, bool commits) const {
    return reported_[commits ? 1 : 0][index(r * plan_.stages() + s)];
  }
  static std::size_t square_bytes(const layer_range& layers) {
    return detail::index(layers.last - layers.first) * sizeof(double);
  }
  std::size_t max_square_bytes(int r, int s) const {
    return (std::max)(square_bytes(reported(r, s, true)), square_bytes(reported(r, s, false)));
  }
  std::size_t partial_bytes(int s) const {
    std::size_t sum = 0;
    each_loss(s, [&](const loss_location&, std::size_t bytes) { sum += bytes; });
    return sum;
  }
  /// Calls `f(loss, bytes of its partials in one replica)` for each loss of a stage.
  template <class F>
  void each_loss(int s, F&& f) const {
    for (const loss_location& loss : losses_)
      if (plan_.cut().stage_of(loss.layer_index) == s) f(loss, loss.bytes(plan_.micro_batches()));
  }
  std::byte* partials(gathered_values& values, const loss_location& loss, int r) const {
    return reinterpret_cast<std::byte*>(values.partials.data() + loss.first) +
           detail::index(r) * loss.bytes(plan_.micro_batches());
  }
  /// Calls `f(replica, stage, offset)` for each stage's part of its process's contribution.
  template <class F>
  void each_block(F&& f) const {
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      std::size_t offset = 0;
      for (int r = 0; r < plan_.replicas(); ++r)
        for (int s = 0; s < plan_.stages(); ++s) {
          if (ranks_.rank_of_stage(r, s) != rank) continue;
          f(r, s, offset);
          offset += max_square_bytes(r, s) + partial_bytes(s);
        }
    }
  }

  process_group& job_;
  const step_plan& plan_;
  rank_layout ranks_;
  std::vector<loss_location> losses_;
  std::vector<layer_range> reported_[2];  // [whether it commits][replica][stage]
  std::unique_ptr<all_gather> gather_;
};

/// The workers' view of the other processes of their job, which have other workers of the same plan. If there is only
/// one process, every call does nothing, so that a worker makes the same calls in both cases.
class other_processes {
 public:
  /// There are none.
  other_processes() = default;

  /// Makes the ends of channels between stages of this process and other processes.
  /// `maps[s]` holds the blocks of stage s, or is null if another process has it; `queues[s]` is the queue of its
  /// device. `channels`: of each link.
  GPIPE_COLD void connect(process_group& job, const network& net, const step_plan& plan,
                          const std::vector<const arena_map*>& maps, std::vector<const void*> queues,
                          std::vector<link_channels>& channels) {
    queues_ = std::move(queues);
    ties_ = remote_tied_parameters(job, net, plan, maps, queues_);
    decision_ = std::make_unique<decision_exchange>(job, net, plan);
    remote_links(job, net, plan, maps, queues_).connect(channels);
    job_ = &job;
  }

  bool joined() const { return job_ != nullptr; }
  /// This process begins `work`. Throws if another process has failed.
  void begin(wait_context work) const {
    if (job_ != nullptr) job_->begin(work);
  }
  /// Waits on the host for the device of a stage of this process, and for failures of other processes.
  void wait(int stage, wait_context wait) const {
    if (job_ == nullptr) return;
    if (const void* queue = queues_[detail::index(stage)]) job_->wait(queue, wait);
  }
  /// Every process contributes the values of its stages, and gets the values of all stages. One worker per process
  /// calls it.
  void exchange(gathered_values& values, bool commits) const {
    if (decision_) decision_->exchange(values, commits, ties_.senders());
  }
  remote_tied_parameters& ties() { return ties_; }

 private:
  process_group* job_ = nullptr;     // null: there is one process
  std::vector<const void*> queues_;  // [stage]
  remote_tied_parameters ties_;
  std::unique_ptr<decision_exchange> decision_;
};

class all_reduce;
class replica;

/// How an executor becomes part of a job. The options of a training refer to it if they have a job, and to nothing
/// else.
struct job_set_up {
  /// Plans again, for processes: they share no memory.
  plan_maker plan;
  /// Checks that the plan has workers for each process of the job, and that all have the same plan. `carries`: the
  /// job transfers the device's memory. `rule`: the result of the optimizer's trial.
  void (*agree)(const network& net, const step_plan& plan, double rule, const training_options& options, bool carries);
  /// Makes all channel ends, which every process makes in the same order. Returns the sum over replicas; null if there
  /// is one replica.
  std::unique_ptr<all_reduce> (*connect)(process_group& job, const network& net, const step_plan& plan,
                                         replica& own_replica, other_processes& processes);
};

}  // namespace gpipe::detail
