#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
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

}  // namespace gpipe::detail
