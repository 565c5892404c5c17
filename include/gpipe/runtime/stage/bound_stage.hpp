#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binder.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/hooks/layer_hooks.hpp>
#include <gpipe/runtime/stage/layer_statistics.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>
#include <gpipe/runtime/step/predicted_columns.hpp>

namespace gpipe::detail {

/// Is notified, in the last backward of a stage, which of its gradients are complete.
class gradient_listener {
 public:
  /// The gradients of `layer` and of all layers after it are complete.
  virtual void complete(int layer) = 0;

 protected:
  ~gradient_listener() = default;
};

// assumes: one kind of device
/// A stage that runs its layers forward and backward on one micro-batch. It uses neither channels nor threads: its
/// caller has received the values that the stage reads, and has acquired the buffers that it writes. Stages share no
/// cache line.
class alignas(alignment) bound_stage : public stage_arena {
 public:
  using stage_arena::add, stage_arena::at, stage_arena::flat_bytes;

  /// `longest`: the same stage of the longest length, whose memory this one uses; null: it has its own.
  bound_stage(const device_functions& device, const network& net, const step_plan& plan, int stage, std::byte fill,
              int replica = 0, const bound_stage* longest = nullptr);

  /// Finds every address and sets up libraries, once all stages have their arenas.
  void bind(const std::vector<const detail::arena_map*>& maps, const kernel_row* kernels, bool canary = false);

  detail::layer_statistics& statistics() { return statistics_; }
  const detail::layer_statistics& statistics() const { return statistics_; }
  /// The stage's worker marks it when it has enqueued the work that other stages wait for.
  device_marker& done() { return done_; }
  /// The layer that ran last since `begin`, to be named when a kernel throws or does not return. Null before the first.
  /// May be called from any thread: everything that the stage read before this layer, such as the batch, has been read
  /// and may be freed.
  const detail::bound_layer* current() const { return current_.load(std::memory_order_acquire); }
  int current_micro_batch() const { return current_micro_batch_.load(std::memory_order_relaxed); }
  void begin(int m = -1) {
    current_.store(nullptr, std::memory_order_relaxed);
    if (takes_operations_) context_.set_operation({.stage = stage_, .micro_batch = m});
  }
  /// Times every layer on full micro-batches from now on, or none.
  void time_layers(bool enabled) { hooks_.time_layers(enabled); }
  const layer_timer* timer() const { return hooks_.timer(); }

  /// These are called between steps. A frozen parameter does not change.
  void freeze(int layer, int parameter, bool frozen);
  void watch(int layer, detail::watched_rows* rows);
  void record_in(digest& target) { hooks_.record_in(target); }

  /// Uploads the rows of the batch that the stage reads, to a context or to a record of uploads.
  template <class Into>
  void feed(const Into& target, const step_context& step, int m) const {
    for (const auto& b : binding_.layers) detail::feed(target, *net_, b, step, m);
  }
  /// Whether a layer has drawn random numbers since `clear_drew`.
  bool drew() const { return drew_; }
  void clear_drew() { drew_ = false; }

  void forward(const step_context& step, int m);

  /// After forward: copies values that several stages read, or also this one, to their readers' buffers.
  bool has_copies() const { return !binding_.copies.empty(); }
  // assumes: links in a process move no bytes
  void pass_on(const step_context& step, int m);

  /// Runs forward again before the gradient arrives: the whole micro-batch from the stash, as far as backward needs it,
  /// or of recomputed layers those that backward reads first.
  void recompute(const step_context& step, int m);

  /// `listener` is notified of complete gradients in the stage's last backward of a step; it may be null.
  void backward(const step_context& step, int m, gradient_listener* listener = nullptr);

  void backward_input(const step_context& step, int m);

  /// Runs the parameter parts of the micro-batches [first, m], at most `max_gradient_group`: together, or one after the
  /// other if a hook needs that. The sums are the same. Calls `alive()` between layers.
  template <class Alive>
  GPIPE_OUT_OF_LINE void backward_parameters(const step_context& step, int first, int m, const Alive& alive,
                                             gradient_listener* listener = nullptr) {
    const bool separately = hooks_.need_each_micro_batch(step);
    for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
      int next = first;
      for (; b->waits && separately && next < m; ++next) {
        run_parameter_part(*b, step, next, next, alive);
        hooks_.after_parameter_part(*b, step, next);
      }
      if (b->waits) run_parameter_part(*b, step, next, m, alive);
      hooks_.after_parameter_part(*b, step, m);
      if (listener != nullptr) report_complete(*listener, *b, m);
    }
  }

  /// Recomputes the buffers that are derived from parameters which this stage owns, or has them recomputed before the
  /// next kernel that reads them.
  void refresh();
  /// The same for the layers [layer] whose buffers differ for another length, whose stage has written to the memory.
  void refresh(const bool* layers);
  /// Layers that pack in turn pack anew before their next kernel. Call it if work that packs may not have run, or will
  /// run again.
  void forget_packed() { std::fill(packed_for_.begin(), packed_for_.end(), reader::none); }
  /// Copies the owner's values of a tied parameter.
  void copy_tied_values(const named_array& user, const std::byte* values);
  /// Recomputes the buffers that are derived from a layer's parameters, some of which are tied.
  void refresh_tied(int layer) { refresh(at(layer)); }
  // assumes: one parameter type
  /// Adds a tied use's gradients to the owner's, which this stage has, at the rows of the use.
  void add_tied_gradients(const tie& t, const std::byte* gradients);
  /// The stage has updated its parameters.
  void updated();

 private:
  using base = stage_arena;
  using base::net_, base::plan_, base::stage_, base::replica_, base::context_, base::handle_, base::takes_operations_,
      base::binding_;
  using typename base::bound;

  /// The kernels that read the buffer that a layer has packed in turn.
  enum class reader : std::uint8_t { none, forward, backward };

  void refresh(const bound& b);
  reader& packed_for(const bound& b) {
    return packed_for_[detail::index(b.layer_index - binding_.layers.front().layer_index)];
  }
  /// On the way, another layer has written to the memory of derived buffers since this one's last kernel.
  void refresh_before(const bound& b, detail::refresh_for kernel, const call& arguments) {
    if (b.packed == packed_weights::on_the_way) refresh_as(b, kernel, arguments);
  }
  /// If the layer packs in turn, packs the buffer that the kernel reads, unless it is packed already. A timer of
  /// kernels excludes it, because it would include only the first micro-batch's.
  void pack_before(const bound& b, detail::refresh_for kernel, const call& arguments) {
    if (b.packed != packed_weights::in_turn || kernel == detail::refresh_for::backward_parameters) return;
    const bool forward = kernel == detail::refresh_for::forward;
    const reader wanted = forward ? reader::forward : reader::backward;
    if (packed_for(b) == wanted) return;
    refresh_as(b, kernel, arguments);
    packed_for(b) = wanted;
  }
  void refresh_as(const bound& b, detail::refresh_for kernel, const call& arguments);
  static detail::refresh_for parameter_part(const bound& b) {
    return b.wants_input ? detail::refresh_for::backward_parameters : detail::refresh_for::backward_parameters_alone;
  }
  std::ptrdiff_t elements(int v, const step_context& step, int m) const {
    return static_cast<std::ptrdiff_t>(net_->values[v].part.size) * step.samples(m);
  }
  std::ptrdiff_t bytes(int v, const step_context& step, int m) const {
    return elements(v, step, m) * static_cast<std::ptrdiff_t>(bytes_of(type(v)));
  }
  dtype type(int v) const { return net_->values[v].part.type; }

  call call_of(const bound& b, const step_context& step, int m, bool backward) const {
    call c = detail::call_of(b, step, plan_->options.micro_batch_size, m, backward);
    c.used_random = &drew_;
    return c;
  }

  bound& bound_at(int layer) { return binding_.layers[detail::index(layer - binding_.layers.front().layer_index)]; }

  /// Runs the layers before the main loss but no other loss, and downloads the prediction: the input of the loss, the
  /// output of the loss's `predict`, or the columns that the layers make.
  void predict(const step_context& step, int m);

  /// Makes a layer's columns block by block, and brings each block into its rows.
  void predict_columns(const bound& b, const step_context& step, int m);

  // The listener may wait for other replicas, and no kernel runs meanwhile.
  void report_complete(gradient_listener& listener, const bound& b, int m) {
    current_.store(nullptr, std::memory_order_release);
    listener.complete(b.layer_index);
    enter(b, m);
  }
  // The operations that follow belong to this layer and this micro-batch.
  void enter(const bound& b, int m) {
    current_.store(&b, std::memory_order_release);
    current_micro_batch_.store(m, std::memory_order_relaxed);
    if (takes_operations_) context_.set_operation({b.layer->name, b.layer_index, stage_, m});
  }

  void run_forward(const bound& b, const step_context& step, int m, bool recompute) {
    enter(b, m);
    call c = call_of(b, step, m, recompute);
    c.recompute = recompute;
    hooks_.before_forward(b, step, m, recompute);
    pack_before(b, detail::refresh_for::forward, c);
    const auto run = [&] {
      refresh_before(b, detail::refresh_for::forward, c);
      b.kernels->forward(handle_, c);
    };
    if (recompute) run();
    else hooks_.time(b, timed::forward, step, m, run);
    hooks_.after_forward(b, c, step, m);
  }

  /// Runs forward again the layers whose values the backward of `b` is the first to read.
  void recompute_before(const bound& b, const step_context& step, int m) {
    for (const int l : b.recomputed) run_forward(at(l), step, m, true);
  }

  /// The kernels of both parts get the same call.
  void run_both_parts(const bound& b, const step_context& step, int m) {
    const bool together = b.kernels->backward != nullptr && b.wants_input && !b.frozen;
    if (!together && !has_input_part(b) && !has_parameter_part(b)) return;
    call c = call_of(b, step, m, true);
    if (!together) {
      if (has_input_part(b)) run_input_part(b, step, m, c);
      if (has_parameter_part(b)) run_parameter_part(b, step, m, c);
      return;
    }
    pack_before(b, detail::refresh_for::backward, c);
    hooks_.time(b, timed::backward, step, m, [&] {
      refresh_before(b, detail::refresh_for::backward, c);
      b.kernels->backward(handle_, c);
      hooks_.ran_input_part(b, step, m);
      clear_frozen(b);
      hooks_.ran_parameter_part(b, step, m);
      add_up(b, step, m);
    });
  }

  static bool has_input_part(const bound& b) { return b.wants_input && b.kernels->backward_input != nullptr; }
  static bool has_parameter_part(const bound& b) { return b.kernels->backward_parameters != nullptr && !b.frozen; }

  void run_input_part(const bound& b, const step_context& step, int m) {
    if (!has_input_part(b)) return;
    call c = call_of(b, step, m, true);
    run_input_part(b, step, m, c);
  }
  /// Leaves `c` as it was.
  void run_input_part(const bound& b, const step_context& step, int m, call& c) {
    enter(b, m);
    pack_before(b, detail::refresh_for::backward_input, c);
    hooks_.time(b, timed::backward_input, step, m, [&] {
      bool added = false;
      c.gradient_sum = b.inputs == 1 ? b.sum[0].at(m, true) : nullptr;
      c.added = &added;
      refresh_before(b, detail::refresh_for::backward_input, c);
      b.kernels->backward_input(handle_, c);
      hooks_.ran_input_part(b, step, m);
      if (!added) add_up(b, step, m);
    });
    c.gradient_sum = nullptr;
    c.added = nullptr;
  }

  template <class Alive>
  void run_parameter_part(const bound& b, const step_context& step, int first, int m, const Alive& alive) {
    if (!has_parameter_part(b)) return;
    if (first < m && b.kernels->backward_parameters_of_group != nullptr) {
      enter(b, first);
      const int count = m - first + 1;
      pack_before(b, parameter_part(b), call_of(b, step, first, true));
      const auto run = [&] {
        call calls[max_gradient_group];
        for (int i = 0; i < count; ++i) calls[i] = call_of(b, step, first + i, true);
        refresh_before(b, parameter_part(b), calls[0]);
        b.kernels->backward_parameters_of_group(handle_, calls, count);
        clear_frozen(b);
      };
      hooks_.time(b, timed::backward_parameters, step, first, run, count);
      return alive();
    }
    for (; first <= m; ++first, alive()) run_parameter_part(b, step, first, call_of(b, step, first, true));
  }
  void run_parameter_part(const bound& b, const step_context& step, int m, const call& c) {
    enter(b, m);
    pack_before(b, parameter_part(b), c);
    hooks_.time(b, timed::backward_parameters, step, m, [&] {
      refresh_before(b, parameter_part(b), c);
      b.kernels->backward_parameters(handle_, c);
    });
    clear_frozen(b);
    hooks_.ran_parameter_part(b, step, m);
  }

  /// In a layer that also has trained parameters, the gradients of frozen ones are cleared, so that no norm and no
  /// replica counts them.
  void clear_frozen(const bound& b) {
    if (b.has_frozen) clear_each_frozen(b);
  }
  void clear_each_frozen(const bound& b);

  /// Adds up the gradients from several readers before the layers run.
  void begin_backward(const step_context& step, int m) {
    for (const auto& p : binding_.folds) add(p.value, p.source, p.target, step, m);
  }

  void clear_unread(const bound& b, const step_context& step, int m) {
    for (int o = 0; o < b.outputs; ++o)
      if (b.unread[o]) context_.fill(bytes(b.value_out[o], step, m), std::byte{0}, b.out_gradient[o].at(m, true));
  }

  void add_up(const bound& b, const step_context& step, int m);

  void add(int v, const detail::block_address& source, const detail::block_address& target, const step_context& step,
           int m) {
    add(type(v), elements(v, step, m), source.at(m, true), target.at(m, true));
  }

  void copy(const detail::buffer_pair& p, const step_context& step, int m) {
    context_.copy(bytes(p.value, step, m), static_cast<const std::byte*>(p.source.at(m, false)), p.target.at(m, false));
  }

  detail::layer_statistics statistics_;
  detail::layer_hooks hooks_;
  std::vector<reader> packed_for_;  // of each layer
  mutable bool drew_ = false;
  std::atomic<const bound*> current_{nullptr};
  std::atomic<int> current_micro_batch_{-1};
  device_marker done_;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/stage/bound_stage-inl.hpp>
#endif
