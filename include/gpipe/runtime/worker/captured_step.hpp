#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// What operations of a step depend on until the gate, beside the rows of its batch. Where a layer draws random numbers
/// that is the step, too.
struct step_key {
  int samples = 0, per_micro_batch = 0, samples_before = 0, looks = 0;
  bool clears = false;
  std::uint64_t absent = 0;  ///< a bit a field
  std::uint64_t step = 0;

  bool operator==(const step_key&) const = default;

  static step_key of(const step_state& s, bool draws) {
    step_key k{s.rows.samples, s.per_micro_batch, s.samples_before, s.looks, s.clears(), 0, draws ? s.step : 0};
    for (std::size_t f = 0; f < s.rows.fields.size(); ++f)
      if (s.rows.fields[f] == nullptr) k.absent |= std::uint64_t{1} << f % 64;
    return k;
  }
};

/// A step until the gate, of a worker that has all stages, written down by their devices: to be launched again while
/// nothing differs but the rows of the batch. One that differs is written anew; that is asking for all, and allocates.
///
/// What comes after the gate is asked for in every step: a few operations, which depend on its number and on the norm.
template <class Device>
class written_step {
 public:
  using stage = bound_stage<Device>;

  explicit written_step(std::vector<stage*> stages) : stages_(std::move(stages)) {}

  bool holds(const step_state& step) const { return graph_ && key_ == step_key::of(step, draws_); }

  /// Writes down what `ask()` asks for.
  template <class Ask>
  GPIPE_ONCE void write(const step_state& step, Ask&& ask) {
    graph_.reset();
    auto graph = std::make_unique<typename Device::graph>();
    const auto& first = stages_.front()->device();
    for (stage* s : stages_) s->device().begin(*graph), s->drew(false);
    first.mark(forth_);
    for (std::size_t s = 1; s < stages_.size(); ++s) stages_[s]->device().await(forth_);
    ask();
    for (std::size_t s = stages_.size() - 1; s > 0; --s) {
      stages_[s]->device().mark(stages_[s]->done());
      first.await(stages_[s]->done());
      stages_[s]->device().end(*graph);
    }
    first.end(*graph);
    draws_ = false;
    for (const stage* s : stages_) draws_ = draws_ || s->drew();
    key_ = step_key::of(step, draws_);
    graph_ = std::move(graph);
  }

  /// Gives it the rows of another batch, in the order in which `program` feeds them.
  void refill(const step_state& step, const std::vector<instruction>& program) {
    const refilling again{*graph_};
    for (const instruction& i : program)
      if (i.kind == act::forward && step.samples(i.micro_batch) > 0)
        for (stage* s : stages_)
          if (s->stage() == i.stage) s->feed(again, step, i.micro_batch);
  }

  void launch() { stages_.front()->device().launch(*graph_); }

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
  typename Device::marker forth_{};
};

}  // namespace gpipe::detail
