#pragma once

#include <memory>
#include <optional>

#include <gpipe/layer/row_parts.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/bound_call.hpp>
#include <gpipe/runtime/canary.hpp>
#include <gpipe/runtime/examiner.hpp>
#include <gpipe/runtime/feed.hpp>
#include <gpipe/runtime/gradient_listener.hpp>
#include <gpipe/runtime/observer.hpp>
#include <gpipe/runtime/stage_arena.hpp>
#include <gpipe/runtime/stopwatch.hpp>
#include <gpipe/runtime/telling.hpp>

namespace gpipe {

/// A stage that runs its layers forward and backward on one micro-batch. It knows neither channels nor
/// threads: who calls it has received what it reads and owns what it writes. Stages share no cache line.
template <class Device>
class alignas(alignment) bound_stage : public stage_arena<Device> {
 public:
  using typename stage_arena<Device>::context;
  using stage_arena<Device>::add, stage_arena<Device>::at, stage_arena<Device>::flat_bytes;
  using marker = typename Device::marker;

  GPIPE_ONCE bound_stage(const network& net, const run_plan& plan, int stage, std::byte fill, int replica = 0)
      : stage_arena<Device>(net, plan, stage, fill, replica),
        told_(plan, *this),
        observer_(net, plan.options.moments) {}

  /// Resolves every address and makes what libraries need, once all stages have their arenas.
  GPIPE_ONCE void bind(const std::vector<const detail::arena_map*>& maps, const kernel_row<context>* kernels,
                       bool poisons = false) {
    binding_ = detail::binder<context>(*net_, *plan_, maps, stage_, replica_).bind(kernels);
    if (poisons)
      canary_.emplace(stage_view(*net_, plan_->cut(), stage_), plan_->terms[static_cast<std::size_t>(stage_)],
                      binding_.slots);
    told_.hold();
    for (const auto& b : binding_.slots)
      if (b.kernels->prepare != nullptr) b.kernels->prepare(context_, plan_->options.micro_batch_size);
  }

  detail::telling<Device>& told() { return told_; }
  const detail::telling<Device>& told() const { return told_; }
  /// Marked by the stage's worker when what other stages wait for has been asked for.
  marker& done() { return done_; }
  /// The layer that ran last since `begin`: the one to name when a kernel throws. Null before the first.
  const detail::bound_slot<context>* current() const { return current_; }
  int current_micro_batch() const { return current_micro_batch_; }
  void begin([[maybe_unused]] int m = -1) {
    current_ = nullptr;
    if constexpr (requires { context_.asks(asker{}); }) context_.asks({.stage = stage_, .micro_batch = m});
  }
  /// From now on every slot's calls on full micro-batches are timed, or none.
  GPIPE_ONCE void time_slots(bool on) {
    if (!on) watch_.reset();
    else if (!watch_) watch_ = std::make_unique<stopwatch>(static_cast<int>(binding_.slots.size()));
  }
  const stopwatch* watch() const { return watch_.get(); }

  /// Between steps: whether a slot's parameters stay as they are, and who looks at what its layers do.
  void freeze(int slot, bool frozen) { bound_at(slot).frozen = frozen; }
  GPIPE_ONCE void watch(int slot, detail::watched_rows* into) {
    bound_at(slot).watched = into;
    observe();
  }
  GPIPE_ONCE void note_in(digest& into) {
    observer_.note_in(into);
    observe();
  }

  /// Uploads what enters the stage from outside, by a context or by what remembers its uploads.
  template <class Into>
  void feed(const Into& into, const step_state& step, int m) const {
    for (const auto& b : binding_.slots) detail::feed(into, *net_, b, step, m);
  }
  /// Whether a layer has asked for random numbers since this was set.
  bool drew() const { return drew_; }
  void drew(bool it) { drew_ = it; }

  GPIPE_OUT_OF_LINE void forward(const step_state& step, int m) {
    feed(context_, step, m);
    if (step.predicted != nullptr) return predict(step, m);
    for (const auto& b : binding_.slots) run_forward(b, step, m, false);
  }

  /// After forward: copies what several stages read, or this one too, to where they read it.
  bool has_copies() const { return !binding_.copies.empty(); }
  GPIPE_OUT_OF_LINE void pass_on(const step_state& step, int m) {
    for (const auto& p : binding_.copies)
      if (step.predicted == nullptr || net_->values[p.value].writer < net_->loss_slot()) copy(p, step, m);
  }

  /// Forward once more from the stash, as far as backward needs it.
  GPIPE_OUT_OF_LINE void recompute(const step_state& step, int m) {
    for (const auto& b : binding_.slots)
      if (b.rerun) run_forward(b, step, m, true);
  }

  /// `last`: who is told of complete gradients, in the stage's last backward of a step; null: nobody.
  GPIPE_OUT_OF_LINE void backward(const step_state& step, int m, gradient_listener* last = nullptr) {
    begin_backward(step, m);
    for (auto b = binding_.slots.rbegin(); b != binding_.slots.rend(); ++b) {
      enter(*b, m);
      clear_unread(*b, step, m);
      if (observed_) observer_.before_backward(context_, *b, step, m);
      if (b->kernels->backward != nullptr && b->wants_input && !b->frozen) {
        time(*b, timed::backward, step, m, [&] {
          b->kernels->backward(context_, call_of(*b, step, m, true));
          if (observed_)
            observer_.after_input_part(context_, *b, step, m), observer_.after_parameter_part(context_, *b, step, m);
          add_up(*b, step, m);
        });
      } else {
        run_input_part(*b, step, m);
        run_parameter_part(*b, step, m, m, [] {});
      }
      if (step.examining) examine().look_at_input_part(*b, step, m), examine().look_at_parameter_part(*b, step, m);
      if (canary_) canary_->after_input_part(context_, b->slot, m);
      if (last != nullptr) last->complete(b->slot);
    }
    // Where the parameter part may come after all input parts, a slot before may still read what this one held for it.
    if (canary_)
      for (const auto& b : binding_.slots) canary_->after_parameter_part(context_, b.slot, m);
  }

  GPIPE_OUT_OF_LINE void backward_input(const step_state& step, int m) {
    begin_backward(step, m);
    for (auto b = binding_.slots.rbegin(); b != binding_.slots.rend(); ++b) {
      enter(*b, m);
      clear_unread(*b, step, m);
      if (observed_) observer_.before_backward(context_, *b, step, m);
      run_input_part(*b, step, m);
      if (step.examining) examine().look_at_input_part(*b, step, m);
      if (canary_) canary_->after_input_part(context_, b->slot, m);
    }
  }

  /// Of the micro-batches [first, m], at most `most_together`. The sums are the same in either order; who looks sees one
  /// after the other. Calls `alive()` between layers.
  template <class Alive>
  GPIPE_OUT_OF_LINE void backward_parameters(const step_state& step, int first, int m, const Alive& alive,
                                             gradient_listener* last = nullptr) {
    const bool looked_at = observed_ || step.examining || canary_;
    for (; looked_at && first < m; ++first) backward_parameters(step, first, first, alive);
    for (auto b = binding_.slots.rbegin(); b != binding_.slots.rend(); ++b) {
      run_parameter_part(*b, step, first, m, alive);
      if (step.examining) examine().look_at_parameter_part(*b, step, m);
      if (canary_) canary_->after_parameter_part(context_, b->slot, m);
      if (last != nullptr) last->complete(b->slot);
    }
  }

  /// Makes what is derived from the stage's own parameters anew.
  GPIPE_OUT_OF_LINE void refresh() {
    for (const auto& b : binding_.slots)
      if (net_->owns(b.slot)) refresh(b);
  }
  /// The same for tied parameters, whose values are the owner's.
  GPIPE_OUT_OF_LINE void borrow(int slot, const std::byte* owners) {
    const bound& b = at(slot);
    if (owners != b.parameters) context_.copy(parameter_bytes(b), owners, b.parameters);
    refresh(b);
  }
  /// Adds a tied use's gradients to the owner's, which is in this stage.
  GPIPE_OUT_OF_LINE void lend(int slot, const std::byte* gradients) {
    const bound& b = at(slot);
    const auto n = parameter_bytes(b) / static_cast<std::ptrdiff_t>(bytes_of(b.layer->type));
    add(b.layer->type, n, gradients, b.gradients);
  }
  /// The stage has updated its parameters.
  void updated() {
    if (!observed_) return;
    for (const auto& b : binding_.slots) observer_.after_update(context_, b, flat_bytes());
  }

 private:
  using base = stage_arena<Device>;
  using typename base::bound;
  using base::parameter_bytes;
  using base::net_, base::plan_, base::stage_, base::replica_, base::context_, base::binding_;

  void refresh(const bound& b) {
    if (b.kernels->refresh != nullptr) b.kernels->refresh(context_, call_of(b, step_state{}, 0, false));
  }
  std::ptrdiff_t elements(int v, const step_state& step, int m) const {
    return static_cast<std::ptrdiff_t>(net_->values[v].part.size) * step.samples(m);
  }
  std::ptrdiff_t bytes(int v, const step_state& step, int m) const {
    return elements(v, step, m) * static_cast<std::ptrdiff_t>(bytes_of(type(v)));
  }
  dtype type(int v) const { return net_->values[v].part.type; }

  call call_of(const bound& b, const step_state& step, int m, bool again) const {
    call c = detail::call_of(b, step, plan_->options.micro_batch_size, m, again);
    c.drew = &drew_;
    return c;
  }

  bound& bound_at(int slot) { return binding_.slots[static_cast<std::size_t>(slot - binding_.slots.front().slot)]; }

  void observe() {
    observed_ = observer_.notes();
    for (const auto& b : binding_.slots) observed_ = observed_ || b.watched != nullptr;
  }

  /// Forward of the layers before the loss.
  GPIPE_OUT_OF_LINE void predict(const step_state& step, int m) {
    const int loss = net_->loss_slot();
    for (const auto& b : binding_.slots) {
      if (b.slot < loss) run_forward(b, step, m, false);
      if (b.slot != loss) continue;
      for (int i = 0; i < b.inputs; ++i)
        context_.download(bytes(b.value_in[i], step, m), b.in[i].at(m, false),
                          step.predicted->at(i, step.samples_before + step.first_sample(m)));
    }
  }

  /// A layer's operations on a micro-batch follow.
  void enter(const bound& b, int m) {
    current_ = &b;
    current_micro_batch_ = m;
    if constexpr (requires { context_.asks(asker{}); }) context_.asks({b.layer->name, b.slot, stage_, m});
  }

  detail::examiner<context> examine() const { return {context_, *net_, stage_}; }

  /// ... of `together` micro-batches in turn, the first of them m: what each took in the mean.
  template <class Run>
  void time(const bound& b, timed part, const step_state& step, int m, Run&& run, int together = 1) {
    if (!watch_) return run();
    context_.finish();  // such a step waits for its device wherever it times one
    const auto begin = now_ns();
    run();
    context_.finish();
    if (step.samples(m + together - 1) == plan_->options.micro_batch_size)
      watch_->take(b.slot - binding_.slots.front().slot, part, (now_ns() - begin) / together);
  }

  void run_forward(const bound& b, const step_state& step, int m, bool again) {
    enter(b, m);
    call c = call_of(b, step, m, again);
    c.again = again;
    if (step.examining) examine().look_at_inputs(b, step, m, again);
    if (again) b.kernels->forward(context_, c);
    else time(b, timed::forward, step, m, [&] { b.kernels->forward(context_, c); });
    if (step.examining) examine().look_at_outputs(b, step, m, c);
    if (observed_ && !again) observer_.after_forward(context_, b, c, step, m);
    if (canary_) canary_->after_forward(context_, b.slot, m, again);
  }

  void run_input_part(const bound& b, const step_state& step, int m) {
    if (!b.wants_input || b.kernels->backward_input == nullptr) return;
    enter(b, m);
    time(b, timed::backward_input, step, m, [&] {
      b.kernels->backward_input(context_, call_of(b, step, m, true));
      if (observed_) observer_.after_input_part(context_, b, step, m);
      add_up(b, step, m);
    });
  }

  template <class Alive>
  void run_parameter_part(const bound& b, const step_state& step, int first, int m, const Alive& alive) {
    if (b.kernels->backward_parameters == nullptr || b.frozen) return;
    if (first < m && b.kernels->backward_parameters_together != nullptr) {
      enter(b, first);
      const int count = m - first + 1;
      const auto run = [&] {
        call each[most_together];
        for (int i = 0; i < count; ++i) each[i] = call_of(b, step, first + i, true);
        b.kernels->backward_parameters_together(context_, each, count);
      };
      time(b, timed::backward_parameters, step, first, run, count);
      return alive();
    }
    for (; first <= m; ++first, alive()) {
      enter(b, first);
      time(b, timed::backward_parameters, step, first,
           [&] { b.kernels->backward_parameters(context_, call_of(b, step, first, true)); });
      if (observed_) observer_.after_parameter_part(context_, b, step, first);
    }
  }

  /// Gradients from several readers become one before the layers run.
  void begin_backward(const step_state& step, int m) {
    for (const auto& p : binding_.folds) add(p.value, p.from, p.into, step, m);
  }

  void clear_unread(const bound& b, const step_state& step, int m) {
    for (int o = 0; o < b.outputs; ++o)
      if (b.unread[o]) context_.fill(bytes(b.value_out[o], step, m), std::byte{0}, b.out_gradient[o].at(m, true));
  }

  GPIPE_OUT_OF_LINE void add_up(const bound& b, const step_state& step, int m) {
    for (int i = 0; i < b.inputs; ++i)
      if (b.sum[i].base != nullptr) add(b.value_in[i], b.in_gradient[i], b.sum[i], step, m);
  }

  void add(int v, const detail::location& from, const detail::location& into, const step_state& step, int m) {
    add(type(v), elements(v, step, m), from.at(m, true), into.at(m, true));
  }

  void copy(const detail::passage& p, const step_state& step, int m) {
    context_.copy(bytes(p.value, step, m), static_cast<const std::byte*>(p.from.at(m, false)), p.into.at(m, false));
  }

  detail::telling<Device> told_;
  std::optional<detail::canary<context>> canary_;
  detail::observer<context> observer_;
  mutable bool drew_ = false;
  bool observed_ = false;  ///< somebody looks at what the layers do
  const bound* current_ = nullptr;
  int current_micro_batch_ = -1;
  [[no_unique_address]] marker done_{};
  std::unique_ptr<stopwatch> watch_;
};

}  // namespace gpipe
