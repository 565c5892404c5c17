#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binder.hpp>
#include <gpipe/runtime/binding/kernel_call.hpp>
#include <gpipe/runtime/hooks/layer_hooks.hpp>
#include <gpipe/runtime/stage/layer_statistics.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>
#include <gpipe/runtime/step/predicted_columns.hpp>

namespace gpipe::detail {

/// Hears in the last backward of a stage which of its gradients are complete.
class gradient_listener {
 public:
  /// The gradients of `layer` and of all layers behind it are complete.
  virtual void complete(int layer) = 0;

 protected:
  ~gradient_listener() = default;
};

/// A stage that runs its layers forward and backward on one micro-batch. It knows neither channels nor threads: its
/// caller has received what the stage reads and may write its buffers. Stages share no cache line.
template <class Device>
class alignas(alignment) bound_stage : public stage_arena<Device> {
 public:
  using typename stage_arena<Device>::device_context;
  using stage_arena<Device>::add, stage_arena<Device>::at, stage_arena<Device>::flat_bytes;
  using marker = typename Device::marker;

  /// `longest`: the same stage of the longest length, whose memory this one uses; null: it has its own.
  GPIPE_COLD bound_stage(const network& net, const step_plan& plan, int stage, std::byte fill, int replica = 0,
                         const bound_stage* longest = nullptr)
      : stage_arena<Device>(net, plan, stage, fill, replica, longest),
        statistics_(plan, *this, longest != nullptr ? &longest->statistics_ : nullptr),
        hooks_(context_, net, plan, stage) {}

  /// Finds every address and sets up libraries, once all stages have their arenas.
  GPIPE_COLD void bind(const std::vector<const detail::arena_map*>& maps, const kernel_row<device_context>* kernels,
                       bool canary = false) {
    binding_ = detail::binder<device_context>(*net_, *plan_, maps, stage_, replica_).bind(kernels);
    if (canary) hooks_.use_canary(binding_.layers);
    statistics_.reserve();
    packed_for_.assign(binding_.layers.size(), reader::none);
    for (const auto& b : binding_.layers)
      if (b.kernels->prepare != nullptr) b.kernels->prepare(context_, plan_->options.micro_batch_size, b.layer->lists);
  }

  detail::layer_statistics<Device>& statistics() { return statistics_; }
  const detail::layer_statistics<Device>& statistics() const { return statistics_; }
  /// The stage's worker marks it when it has enqueued the work that other stages wait for.
  marker& done() { return done_; }
  /// The layer that ran last since `begin`, to be named when a kernel throws or does not return. Null before the first.
  /// From any thread: what the stage read before it, such as the batch, has been read, and may be freed.
  const detail::bound_layer<device_context>* current() const { return current_.load(std::memory_order_acquire); }
  int current_micro_batch() const { return current_micro_batch_.load(std::memory_order_relaxed); }
  void begin([[maybe_unused]] int m = -1) {
    current_.store(nullptr, std::memory_order_relaxed);
    if constexpr (requires { context_.set_operation(operation_tag{}); })
      context_.set_operation({.stage = stage_, .micro_batch = m});
  }
  /// Times every layer on full micro-batches from now on, or none.
  void time_layers(bool on) { hooks_.time_layers(on); }
  const layer_timer* timer() const { return hooks_.timer(); }

  /// These are called between steps. A frozen parameter does not change.
  GPIPE_COLD void freeze(int layer, int parameter, bool frozen) {
    auto& b = bound_at(layer);
    b.frozen_by_call[index(parameter)] = frozen;
    base::find_frozen(b);
    base::find_ranges();
  }
  GPIPE_COLD void watch(int layer, detail::watched_rows* into) {
    bound_at(layer).watched = into;
    hooks_.update_watched(binding_.layers);
  }
  void record_in(digest& into) { hooks_.record_in(into); }

  /// Uploads the rows of the batch that the stage reads, to a context or to a record of uploads.
  template <class Into>
  void feed(const Into& into, const step_context& step, int m) const {
    for (const auto& b : binding_.layers) detail::feed(into, *net_, b, step, m);
  }
  /// Whether a layer has drawn random numbers since `clear_drew`.
  bool drew() const { return drew_; }
  void clear_drew() { drew_ = false; }

  GPIPE_OUT_OF_LINE void forward(const step_context& step, int m) {
    feed(context_, step, m);
    if (step.predicts()) return predict(step, m);
    for (const auto& b : binding_.layers) run_forward(b, step, m, false);
  }

  /// After forward: copies values that several stages read, or this one too, to where they read them.
  bool has_copies() const { return !binding_.copies.empty(); }
  GPIPE_OUT_OF_LINE void pass_on(const step_context& step, int m) {
    for (const auto& p : binding_.copies)
      if (!step.predicts() || net_->values[p.value].writer < net_->loss_layer()) copy(p, step, m);
  }

  /// Runs forward again before the gradient arrives: the whole micro-batch from the stash, as far as backward needs it,
  /// or of recomputed layers those that backward reads first.
  GPIPE_OUT_OF_LINE void recompute(const step_context& step, int m) {
    if (binding_.first_recomputed >= 0) return recompute_before(at(binding_.first_recomputed), step, m);
    for (const auto& b : binding_.layers)
      if (b.rerun) run_forward(b, step, m, true);
  }

  /// `listener` hears of complete gradients in the stage's last backward of a step; it may be null.
  GPIPE_OUT_OF_LINE void backward(const step_context& step, int m, gradient_listener* listener = nullptr) {
    begin_backward(step, m);
    for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
      if (b->layer_index != binding_.first_recomputed) recompute_before(*b, step, m);
      enter(*b, m);
      clear_unread(*b, step, m);
      hooks_.before_backward(*b, step, m);
      run_both_parts(*b, step, m);
      hooks_.after_both_parts(*b, step, m);
      if (listener != nullptr) report_complete(*listener, *b, m);
    }
    hooks_.after_backward(binding_.layers, m);
  }

  GPIPE_OUT_OF_LINE void backward_input(const step_context& step, int m) {
    begin_backward(step, m);
    for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
      if (b->layer_index != binding_.first_recomputed) recompute_before(*b, step, m);
      enter(*b, m);
      clear_unread(*b, step, m);
      hooks_.before_backward(*b, step, m);
      if (b->waits) run_input_part(*b, step, m);
      else run_both_parts(*b, step, m);
      hooks_.after_input_part(*b, step, m);
    }
  }

  /// Runs the parameter parts of the micro-batches [first, m], at most `max_gradient_group`: together, or one after the
  /// other if a hook needs that. The sums are the same. Calls `alive()` between layers.
  template <class Alive>
  GPIPE_OUT_OF_LINE void backward_parameters(const step_context& step, int first, int m, const Alive& alive,
                                             gradient_listener* listener = nullptr) {
    const bool apart = hooks_.need_each_micro_batch(step);
    for (auto b = binding_.layers.rbegin(); b != binding_.layers.rend(); ++b) {
      int next = first;
      for (; b->waits && apart && next < m; ++next) {
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
  GPIPE_OUT_OF_LINE void refresh() {
    for (const auto& b : binding_.layers)
      if (net_->owns(b.layer_index)) refresh(b);
  }
  /// The same for the layers [layer] that make other buffers for another length, whose stage has written to the memory.
  GPIPE_COLD void refresh(const bool* layers) {
    forget_packed();
    for (const auto& b : binding_.layers)
      if (layers[b.layer_index] && net_->owns(b.layer_index)) refresh(b);
  }
  /// Layers that pack in turn pack anew before their next kernel. Call it if work that packs may not have run, or will
  /// run again.
  void forget_packed() { std::fill(packed_for_.begin(), packed_for_.end(), reader::none); }
  /// Copies the owner's values of a tied parameter.
  GPIPE_OUT_OF_LINE void copy_tied_values(const named_array& user, const std::byte* values) {
    const bound& b = at(user.layer_index);
    std::byte* const into = b.parameter_at[index(user.index)];
    const std::size_t bytes = size_of(b, user) * bytes_of(b.layer->type);
    if (values != into) context_.copy(static_cast<std::ptrdiff_t>(bytes), values, into);
  }
  /// Recomputes the buffers that are derived from a layer's parameters, some of which are tied.
  void refresh_tied(int layer) { refresh(at(layer)); }
  /// Adds a tied use's gradients to the owner's, which this stage has, at the rows that the use has.
  GPIPE_OUT_OF_LINE void add_tied_gradients(const tie& t, const std::byte* gradients) {
    const bound& b = at(t.owner.layer_index);
    const shape& extents = description_of(*net_, t.user).extents;
    add(b.layer->type, static_cast<std::ptrdiff_t>(extents.size()), gradients,
        b.gradient_at[index(t.owner.index)] + t.before);
  }
  /// The stage has updated its parameters.
  void updated() {
    const stage_share& its = base::share();
    for (int l = its.first; l < its.last; ++l)
      hooks_.after_update(at(l), base::moments(0) + (at(l).own.parameters - base::updated_parameters()),
                          static_cast<std::size_t>(base::memory().share));
  }

 private:
  using base = stage_arena<Device>;
  using base::net_, base::plan_, base::stage_, base::replica_, base::context_, base::binding_;
  using typename base::bound;

  /// The kernels that read what a layer has packed in turn.
  enum class reader : std::uint8_t { none, forward, backward };

  void refresh(const bound& b) {
    packed_for(b) = reader::none;
    if (b.packed != packed_weights::kept || b.kernels->refresh == nullptr) return;
    enter(b, -1);
    b.kernels->refresh(context_, call_of(b, step_context{}, 0, false));
  }
  static std::size_t size_of(const bound& b, const named_array& which) {
    return b.layer->parameters[which.index].extents.size();
  }
  reader& packed_for(const bound& b) {
    return packed_for_[detail::index(b.layer_index - binding_.layers.front().layer_index)];
  }
  /// On the way, another layer has written to the memory of derived buffers since this one's last kernel.
  void refresh_before(const bound& b, detail::refresh_for kernel, const call& as) {
    if (b.packed == packed_weights::on_the_way) refresh_as(b, kernel, as);
  }
  /// In turn, what the kernel reads is packed, unless it is there. A timer of kernels does not see it, as it would see
  /// only that of the first micro-batch.
  void pack_before(const bound& b, detail::refresh_for kernel, const call& as) {
    if (b.packed != packed_weights::in_turn || kernel == detail::refresh_for::backward_parameters) return;
    const bool forward = kernel == detail::refresh_for::forward;
    const reader wanted = forward ? reader::forward : reader::backward;
    if (packed_for(b) == wanted) return;
    refresh_as(b, kernel, as);
    packed_for(b) = wanted;
  }
  void refresh_as(const bound& b, detail::refresh_for kernel, const call& as) {
    if (b.kernels->refresh == nullptr) return;
    call c = as;
    c.refreshed = kernel;
    b.kernels->refresh(context_, c);
  }
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

  call call_of(const bound& b, const step_context& step, int m, bool again) const {
    call c = detail::call_of(b, step, plan_->options.micro_batch_size, m, again);
    c.used_random = &drew_;
    return c;
  }

  bound& bound_at(int layer) { return binding_.layers[detail::index(layer - binding_.layers.front().layer_index)]; }

  /// Runs the layers before the main loss but no other loss, and downloads the input of the loss; of a loss that makes
  /// its own inputs, those; of layers that make their columns, what each makes.
  GPIPE_OUT_OF_LINE void predict(const step_context& step, int m) {
    const int loss = net_->loss_layer();
    for (const auto& b : binding_.layers) {
      if (detail::makes_columns(*net_, b.layer_index)) predict_columns(b, step, m);
      else if (b.layer_index < loss && !b.layer->auxiliary_loss()) run_forward(b, step, m, false);
      if (b.layer_index != loss || detail::is_in_columns(*b.layer)) continue;
      const int first = step.samples_before + step.first_sample(m);
      if (const int extra = b.layer->predicted; extra >= 0) {
        enter(b, m);
        const call c = call_of(b, step, m, false);
        pack_before(b, detail::refresh_for::forward, c);
        refresh_before(b, detail::refresh_for::forward, c);
        b.kernels->predict(context_, c);
        const edge_part made{b.layer->extras[extra].size, b.layer->extras[extra].type};
        context_.download(static_cast<std::ptrdiff_t>(made.size * bytes_of(made.type)) * step.samples(m),
                          c.extras + b.layer->extra_offset(extra, c.capacity), step.predicted->at(0, first));
        continue;
      }
      for (int i = 0; i < b.inputs; ++i)
        context_.download(bytes(b.value_in[i], step, m), b.in[i].at(m, false), step.predicted->at(i, first));
    }
  }

  /// Makes a layer's columns block by block, and brings each block into its rows.
  GPIPE_OUT_OF_LINE void predict_columns(const bound& b, const step_context& step, int m) {
    enter(b, m);
    const detail::column_range range = detail::columns_in_row(*net_, b.layer_index);
    const row_blocks& of = b.layer->lists->predicted;
    call c = call_of(b, step, m, false);
    std::byte* const into = step.predicted->at(0, step.samples_before + step.first_sample(m)) + range.first;
    pack_before(b, detail::refresh_for::forward, c);
    refresh_before(b, detail::refresh_for::forward, c);
    for (int first = 0; first < c.samples * of.rows; first += c.samples * of.block, ++c.block) {
      b.kernels->predict(context_, c);
      const int rows = (std::min)(c.samples * of.block, c.samples * of.rows - first);
      download_rows(rows, range, c.extras + b.layer->extra_offset(b.layer->predicted, c.capacity),
                    into + detail::index(first) * range.of_row);
    }
  }
  void download_rows(int rows, const detail::column_range& range, const std::byte* from, std::byte* into) {
    const auto bytes = static_cast<std::ptrdiff_t>(range.bytes), stride = static_cast<std::ptrdiff_t>(range.of_row);
    if constexpr (requires { context_.download_rows(rows, bytes, from, into, stride); })
      context_.download_rows(rows, bytes, from, into, stride);
    else
      for (int r = 0; r < rows; ++r) context_.download(bytes, from + r * bytes, into + r * stride);
  }

  /// The operations that follow are those of this layer on this micro-batch.
  // It may wait for other replicas, and no kernel runs meanwhile.
  void report_complete(gradient_listener& to, const bound& b, int m) {
    current_.store(nullptr, std::memory_order_release);
    to.complete(b.layer_index);
    enter(b, m);
  }
  void enter(const bound& b, int m) {
    current_.store(&b, std::memory_order_release);
    current_micro_batch_.store(m, std::memory_order_relaxed);
    if constexpr (requires { context_.set_operation(operation_tag{}); })
      context_.set_operation({b.layer->name, b.layer_index, stage_, m});
  }

  void run_forward(const bound& b, const step_context& step, int m, bool again) {
    enter(b, m);
    call c = call_of(b, step, m, again);
    c.recompute = again;
    hooks_.before_forward(b, step, m, again);
    pack_before(b, detail::refresh_for::forward, c);
    const auto run = [&] {
      refresh_before(b, detail::refresh_for::forward, c);
      b.kernels->forward(context_, c);
    };
    if (again) run();
    else hooks_.time(b, timed::forward, step, m, run);
    hooks_.after_forward(b, c, step, m);
  }

  /// Runs the layers forward again whose values the backward of `b` is the first to read.
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
      b.kernels->backward(context_, c);
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
      b.kernels->backward_input(context_, c);
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
        call each[max_gradient_group];
        for (int i = 0; i < count; ++i) each[i] = call_of(b, step, first + i, true);
        refresh_before(b, parameter_part(b), each[0]);
        b.kernels->backward_parameters_of_group(context_, each, count);
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
      b.kernels->backward_parameters(context_, c);
    });
    clear_frozen(b);
    hooks_.ran_parameter_part(b, step, m);
  }

  /// Frozen parameters of a layer that trains others have no gradient, so no norm and no replica counts it.
  void clear_frozen(const bound& b) {
    for (std::size_t p = 0; p < b.frozen_parameters.size(); ++p)
      if (b.frozen_parameters[p])
        context_.fill(static_cast<std::ptrdiff_t>(b.layer->parameters[p].extents.size() * bytes_of(b.layer->type)),
                      std::byte{0}, b.gradient_at[p]);
  }

  /// Adds up the gradients from several readers before the layers run.
  void begin_backward(const step_context& step, int m) {
    for (const auto& p : binding_.folds) add(p.value, p.from, p.into, step, m);
  }

  void clear_unread(const bound& b, const step_context& step, int m) {
    for (int o = 0; o < b.outputs; ++o)
      if (b.unread[o]) context_.fill(bytes(b.value_out[o], step, m), std::byte{0}, b.out_gradient[o].at(m, true));
  }

  GPIPE_OUT_OF_LINE void add_up(const bound& b, const step_context& step, int m) {
    for (int i = 0; i < b.inputs; ++i)
      if (b.sum[i].base != nullptr) add(b.value_in[i], b.in_gradient[i], b.sum[i], step, m);
  }

  void add(int v, const detail::block_address& from, const detail::block_address& into, const step_context& step,
           int m) {
    add(type(v), elements(v, step, m), from.at(m, true), into.at(m, true));
  }

  void copy(const detail::buffer_pair& p, const step_context& step, int m) {
    context_.copy(bytes(p.value, step, m), static_cast<const std::byte*>(p.from.at(m, false)), p.into.at(m, false));
  }

  detail::layer_statistics<Device> statistics_;
  detail::layer_hooks<device_context> hooks_;
  std::vector<reader> packed_for_;  // of each layer
  mutable bool drew_ = false;
  std::atomic<const bound*> current_{nullptr};
  std::atomic<int> current_micro_batch_{-1};
  [[no_unique_address]] marker done_{};
};

}  // namespace gpipe::detail
