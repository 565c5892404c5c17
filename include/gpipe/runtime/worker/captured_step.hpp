#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// All values on which the operations of a step until the commit depend, except the rows of its batch. If a layer draws
/// random numbers, they depend on the step's number too.
struct step_key {
  int samples = 0, per_micro_batch = 0, samples_before = 0, changes = 0;
  bool clears = false;
  std::uint64_t missing = 0;  ///< a bit for each optional field
  std::uint64_t step = 0;

  bool operator==(const step_key&) const = default;

  static step_key of(const step_context& s, bool draws) {
    step_key k{s.rows.samples, s.per_micro_batch, s.samples_before, s.changes, s.clears(), 0, draws ? s.step : 0};
    for (std::size_t f = 0; f < s.rows.fields.size(); ++f)
      if (s.rows.fields[f] == nullptr) k.missing |= std::uint64_t{1} << f % 64;
    return k;
  }
};

/// The operations of a step until the commit, recorded as a graph by the devices of a worker that has all stages. The
/// graph is launched again while only the rows of the batch differ. Otherwise the step is recorded again, which
/// enqueues every operation, and allocates.
///
/// The commit itself is enqueued in every step: a few operations, which depend on the step's number and on the norm.
template <class Device>
class captured_step {
 public:
  using stage = bound_stage<Device>;

  explicit captured_step(std::vector<stage*> stages) : stages_(std::move(stages)) {}

  bool matches(const step_context& step) const { return graph_ && key_ == step_key::of(step, draws_); }

  /// Records the operations that `enqueue()` enqueues.
  template <class Enqueue>
  GPIPE_COLD void record(const step_context& step, Enqueue&& enqueue) {
    graph_.reset();
    auto graph = std::make_unique<typename Device::graph>();
    const auto& first = stages_.front()->context();
    for (stage* s : stages_) s->context().begin(*graph), s->clear_drew();
    first.mark(begin_);
    for (std::size_t s = 1; s < stages_.size(); ++s) stages_[s]->context().await(begin_);
    enqueue();
    for (std::size_t s = stages_.size() - 1; s > 0; --s) {
      stages_[s]->context().mark(stages_[s]->done());
      first.await(stages_[s]->done());
      stages_[s]->context().end(*graph);
    }
    first.end(*graph);
    draws_ = false;
    for (const stage* s : stages_) draws_ = draws_ || s->drew();
    key_ = step_key::of(step, draws_);
    graph_ = std::move(graph);
  }

  /// Puts the rows of another batch into the graph, in the order in which `program` uploads them.
  void refill(const step_context& step, const std::vector<instruction>& program) {
    const refilling again{*graph_};
    for (const instruction& i : program)
      if (i.kind == action_kind::forward && step.samples(i.micro_batch) > 0)
        for (stage* s : stages_)
          if (s->stage() == i.stage) s->feed(again, step, i.micro_batch);
  }

  /// The queues of all stages go on behind the graph, which runs in that of the first.
  void launch() {
    const auto& first = stages_.front()->context();
    first.launch(*graph_);
    first.mark(launched_);
    for (std::size_t s = 1; s < stages_.size(); ++s) stages_[s]->context().await(launched_);
  }

 private:
  struct refilling {
    typename Device::graph& graph;
    mutable std::size_t next = 0;

    void upload(std::ptrdiff_t bytes, const std::byte* from, std::byte*) const { graph.refill(next++, bytes, from); }
    template <class T>
    void fill(std::ptrdiff_t, T, T*) const {}
  };

  std::vector<stage*> stages_;
  std::unique_ptr<typename Device::graph> graph_;
  step_key key_;
  bool draws_ = false;
  typename Device::marker begin_{}, launched_{};
};

}  // namespace gpipe::detail
