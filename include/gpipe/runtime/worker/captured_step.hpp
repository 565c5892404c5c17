#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// The values that determine the operations of a step until the commit, except the rows of its batch. Two steps with
/// the same key can share graphs.
struct step_key {
  int samples = 0, per_micro_batch = 0, samples_before = 0, changes = 0;
  bool clears = false;
  std::uint64_t missing = 0;  ///< a bit for each optional field
  std::uint64_t step = 0;     ///< 0 if no layer draws random numbers

  bool operator==(const step_key&) const = default;

  static step_key of(const step_context& s, bool draws) {
    step_key key{s.rows.samples, s.per_micro_batch, s.samples_before, s.changes, s.clears(), 0, draws ? s.step : 0};
    for (std::size_t f = 0; f < s.rows.fields.size(); ++f)
      if (s.rows.fields[f] == nullptr) key.missing |= std::uint64_t{1} << f % 64;
    return key;
  }
};

/// The operations of a worker's step until the commit, recorded as graphs by the devices of its stages. They are
/// launched again while only the rows of the batch differ. Otherwise the step is recorded again, which enqueues every
/// operation, and allocates.
///
///     one worker    [ all operations ]
///     several       await  [ forward ]  mark   await  [ forward ]  mark ...   await  [ backward ]  mark   [ sums ]
///
/// A graph cannot await the marker of another worker: it may be launched before the marker is recorded, and then it
/// does not wait. A graph therefore ends before each `mark` and `await` for another worker, and these few calls are
/// made in every step. The commit is not recorded either, because it depends on the step's number and on the norm.
class captured_step {
 public:
  using stage = bound_stage;

  explicit captured_step(std::vector<stage*> stages) : stages_(std::move(stages)) {
    for (const stage* s : stages_) last_.emplace_back(s->context().device());
  }

  bool matches(const step_context& step) const { return complete_ && key_ == step_key::of(step, draws_); }

  /// Starts to record the operations that follow. The devices must be idle.
  GPIPE_COLD void record() {
    graphs_.clear();
    graph_of_forward_.clear();
    for (stage* s : stages_) s->clear_drew();
    complete_ = open_ = false;
    records_ = true;
  }
  /// Starts to launch the recorded graphs, with the rows of another batch. `program` is the recorded one.
  void repeat(const step_context& step, const std::vector<instruction>& program) {
    refill(step, program);
    open_ = records_ = false;
    next_ = 0;
  }

  /// While recording, adds the operations that `enqueue()` enqueues to the open graph. Otherwise launches the graph
  /// that contains them, unless an earlier call has.
  template <class Enqueue>
  GPIPE_OUT_OF_LINE void run(Enqueue&& enqueue) {
    if (!std::exchange(open_, true)) records_ ? begin() : launch(graphs_.at(next_++));
    if (records_) enqueue();
  }
  /// Called in `run`, before the operations of a forward: notes which graph has its uploads.
  GPIPE_OUT_OF_LINE void forward() {
    if (records_) graph_of_forward_.push_back(graphs_.size() - 1);
  }
  /// Ends the open graph, if there is one. Operations that are enqueued before the next `run` are in no graph.
  GPIPE_OUT_OF_LINE void end() {
    if (std::exchange(open_, false) && records_) end_recorded();
  }
  /// Called after the last `end` of a step: completes a recording.
  void complete(const step_context& step) {
    if (!records_) return;
    draws_ = false;
    for (const stage* s : stages_) draws_ = draws_ || s->drew();
    key_ = step_key::of(step, draws_);
    complete_ = true;
  }

 private:
  // A target of `bound_stage::feed`: replaces the source of each upload in a graph.
  struct upload_replacer {
    const device_functions& device;
    const device_object& graph;
    std::size_t& number;  // of the next upload in the graph

    void upload(std::ptrdiff_t bytes, const std::byte* source, std::byte*) const {
      device.refill(graph.get(), number++, bytes, source);
    }
    template <class T>
    void fill(std::ptrdiff_t, T, T*) const {}
  };
  void refill(const step_context& step, const std::vector<instruction>& program) {
    auto graph = graph_of_forward_.begin();
    std::size_t upload = 0, previous_graph = 0;
    for (const instruction& action : program) {
      if (action.kind != action_kind::forward || step.samples(action.micro_batch) == 0) continue;
      if (std::exchange(previous_graph, *graph) != *graph) upload = 0;
      const upload_replacer uploads{device(), graphs_[*graph++], upload};
      for (stage* s : stages_)
        if (s->stage() == action.stage) s->feed(uploads, step, action.micro_batch);
    }
  }

  const device_functions& device() const { return stages_.front()->context().device(); }

  GPIPE_COLD void begin() {
    graphs_.emplace_back(device().make_graph(), device().free_graph);
    for (stage* s : stages_) s->context().begin(graphs_.back().get());
    fork();
  }
  GPIPE_COLD void end_recorded() {
    join();
    for (std::size_t s = stages_.size(); s > 0; --s) stages_[s - 1]->context().end(graphs_.back().get());
    launch(graphs_.back());
  }
  // A graph runs in the queue of the first stage, after the earlier work of all queues and before their later work.
  void launch(const device_object& graph) {
    join();
    stages_.front()->context().launch(graph.get());
    fork();
  }
  void join() {
    for (std::size_t s = 1; s < stages_.size(); ++s) {
      stages_[s]->context().mark(last_[s]);
      stages_.front()->context().await(last_[s]);
    }
  }
  void fork() {
    if (stages_.size() == 1) return;
    stages_.front()->context().mark(last_[0]);
    for (std::size_t s = 1; s < stages_.size(); ++s) stages_[s]->context().await(last_[0]);
  }

  std::vector<stage*> stages_;
  std::vector<device_object> graphs_;
  std::vector<std::size_t> graph_of_forward_;  ///< [forward of the program]: index in `graphs_`
  std::vector<device_marker> last_;            ///< [stage]: after the last work of its queue
  step_key key_;
  std::size_t next_ = 0;  ///< index in `graphs_`, of the next one to launch
  bool records_ = false, open_ = false, complete_ = false, draws_ = false;
};

}  // namespace gpipe::detail
