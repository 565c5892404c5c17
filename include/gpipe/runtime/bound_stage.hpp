#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <gpipe/device/executing_device.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/canary.hpp>
#include <gpipe/runtime/examiner.hpp>
#include <gpipe/runtime/feed.hpp>
#include <gpipe/runtime/observer.hpp>
#include <gpipe/runtime/step_state.hpp>
#include <gpipe/runtime/stopwatch.hpp>
#include <gpipe/runtime/told_earlier.hpp>

namespace gpipe {

namespace detail {

template <class T>
struct square_of {
  const T* x;
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

}  // namespace detail

/// One stage with its arena: runs its layers forward and backward on one micro-batch. It knows neither channels nor
/// threads: who calls it has received what it reads and owns what it writes. Stages share no cache line.
template <class Device>
class alignas(alignment) bound_stage {
 public:
  using context = typename Device::context;
  using marker = typename Device::marker;

  GPIPE_ONCE bound_stage(const network& net, const run_plan& plan, int stage, std::byte fill, int replica = 0)
      : net_(&net),
        plan_(&plan),
        stage_(stage),
        replica_(replica),
        memory_(plan.memory[static_cast<std::size_t>(stage)]),
        context_(Device::make_context(replica * plan.stages() + stage)),
        arena_(Device::make_arena(context_, static_cast<std::size_t>(memory_.total()), fill)),
        map_(arena_.data()),
        observer_(net, plan.options.moments) {
    for (const memory_block& b : plan.blocks[static_cast<std::size_t>(stage)]) map_.add(b);
    // Gaps between parameters are zero and stay so: whole arrays are updated at once.
    const auto flat = memory_.of(memory_kind::parameters) * (2 + plan.options.moments);
    context_.fill(static_cast<std::ptrdiff_t>(flat + memory_.of(memory_kind::tied)), std::byte{0}, arena_.data());
  }

  ~bound_stage() { settle(); }
  bound_stage(const bound_stage&) = delete;
  bound_stage& operator=(const bound_stage&) = delete;

  /// Waits until nothing is under way here, whatever became of it.
  GPIPE_ONCE void settle() const noexcept {
    try {
      context_.finish();
    } catch (...) {
    }
  }

  /// Resolves every address and makes what libraries need, once all stages have their arenas.
  GPIPE_ONCE void bind(const std::vector<const detail::arena_map*>& maps, const kernel_row<context>* kernels,
                       bool poisons = false) {
    binding_ = detail::binder<context>(*net_, *plan_, maps, stage_, replica_).bind(kernels);
    if (poisons)
      canary_.emplace(stage_view(*net_, plan_->cut(), stage_), plan_->terms[static_cast<std::size_t>(stage_)],
                      binding_.slots);
    for (const auto& b : binding_.slots)
      if (b.kernels->absorb != nullptr) earlier_.resize(binding_.slots.size());
    for (const auto& b : binding_.slots)
      if (b.kernels->prepare != nullptr) b.kernels->prepare(context_, plan_->options.micro_batch_size);
  }

  int stage() const { return stage_; }
  const stage_memory& memory() const { return memory_; }
  const detail::arena_map& map() const { return map_; }
  const auto& arena() const { return arena_; }
  const context& device() const { return context_; }
  /// Marked by the stage's worker when what other stages wait for has been asked for.
  marker& done() { return done_; }
  const std::vector<detail::bound_slot<context>>& slots() const { return binding_.slots; }
  /// The layer that ran last since `begin`: the one to name when a kernel throws. Null before the first.
  const detail::bound_slot<context>* current() const { return current_; }
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

  /// The stage's parameters, gradients and moments, each one flat array of `flat_bytes`.
  std::size_t flat_bytes() const { return static_cast<std::size_t>(memory_.of(memory_kind::parameters)); }
  std::byte* parameters() const { return arena_.data(); }
  std::byte* gradients() const { return arena_.data() + flat_bytes(); }
  std::byte* moments(int i) const { return arena_.data() + flat_bytes() * static_cast<std::size_t>(2 + i); }

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

  /// Calls `f(at, bytes)` for each range of the flat arrays that is trained: one, unless slots are frozen.
  template <class Call>
  void each_trained(Call&& f) const {
    std::size_t begin = 0;
    for (const auto& b : binding_.slots) {
      if (!b.frozen || !net_->owns(b.slot)) continue;
      const auto at = static_cast<std::size_t>(b.parameters - parameters());
      if (at > begin) f(begin, at - begin);
      begin = at + b.layer->parameter_bytes();
    }
    if (flat_bytes() > begin) f(begin, flat_bytes() - begin);
  }

  /// Calls `f(at, bytes)` for each range of the arena with gradients: one, and, if asked for, those of tied uses.
  template <class Call>
  void each_gradient(bool tied, Call&& f) const {
    f(flat_bytes(), flat_bytes());
    for (const auto& b : binding_.slots)
      if (tied && !net_->owns(b.slot))
        f(static_cast<std::size_t>(b.gradients - arena_.data()), b.layer->parameter_bytes());
  }
  void add(dtype type, std::ptrdiff_t n, const std::byte* from, std::byte* into) const {
    if (type == dtype::float64)
      context_.add(n, reinterpret_cast<const double*>(from), reinterpret_cast<double*>(into));
    else if (type == dtype::bf16)  // each sum of two is rounded
      context_.add(n, reinterpret_cast<const bf16*>(from), reinterpret_cast<bf16*>(into));
    else context_.add(n, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(into));
  }

  /// Calls `f(where)` for what each slot with partials tells of micro-batches.
  template <class Call>
  void each_told(Call&& f) const {
    for (const auto& b : binding_.slots)
      if (b.partials.base != nullptr) f(b.partials);
  }
  /// Copies what the stage's like of another replica has told in a step, beside its own.
  GPIPE_OUT_OF_LINE void hear(const bound_stage& other, const step_state& its) {
    for (std::size_t i = 0; i < binding_.slots.size(); ++i) {
      const detail::location &from = other.binding_.slots[i].partials, &into = binding_.slots[i].partials;
      if (from.base == nullptr) continue;
      const std::size_t before = from.stride * static_cast<std::size_t>(its.first_micro_batch);
      context_.copy(static_cast<std::ptrdiff_t>(from.stride) * its.filled(),
                    static_cast<const std::byte*>(from.base + before), into.base + before);
    }
  }
  /// Downloads what the kernels of a slot have told of each micro-batch with samples, to where each one's of all is.
  void download_partials(int slot, const step_state& step, double* into) const {
    const detail::location& from = at(slot).partials;
    const std::size_t before = from.stride * static_cast<std::size_t>(step.first_micro_batch);
    context_.download(static_cast<std::ptrdiff_t>(from.stride) * step.filled(), from.base + before,
                      reinterpret_cast<std::byte*>(into) + before);
  }
  /// Sums the squares of every slot's gradient, of tied ones where they are owned if the call commits, ...
  GPIPE_OUT_OF_LINE void sum_squares(bool commits) {
    for (const auto& b : binding_.slots) {
      const auto n = parameter_bytes(b) / static_cast<std::ptrdiff_t>(bytes_of(b.layer->type));
      if (b.frozen || (commits && !net_->owns(b.slot))) context_.fill(1, 0.0, b.sum_of_squares);
      else if (b.layer->type == dtype::float64)
        context_.sum(n, detail::square_of<double>{reinterpret_cast<const double*>(b.gradients)}, b.sum_of_squares);
      else context_.sum(n, detail::square_of<float>{reinterpret_cast<const float*>(b.gradients)}, b.sum_of_squares);
    }
  }
  /// ... and downloads them to where each slot's is.
  void download_squares(double* of_slots) const {
    const auto& first = binding_.slots.front();
    context_.download(static_cast<std::ptrdiff_t>(binding_.slots.size() * sizeof(double)),
                      reinterpret_cast<const std::byte*>(first.sum_of_squares),
                      reinterpret_cast<std::byte*>(of_slots + first.slot));
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

  GPIPE_OUT_OF_LINE void backward(const step_state& step, int m) {
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
        run_parameter_part(*b, step, m);
      }
      if (step.examining) examine().look_at_input_part(*b, step, m), examine().look_at_parameter_part(*b, step, m);
      if (canary_) canary_->after_input_part(context_, b->slot, m);
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

  GPIPE_OUT_OF_LINE void backward_parameters(const step_state& step, int m) {
    for (auto b = binding_.slots.rbegin(); b != binding_.slots.rend(); ++b) {
      run_parameter_part(*b, step, m);
      if (step.examining) examine().look_at_parameter_part(*b, step, m);
      if (canary_) canary_->after_parameter_part(context_, b->slot, m);
    }
  }

  /// Zeros, before the first micro-batch adds to them.
  void clear_gradients() {
    context_.fill(static_cast<std::ptrdiff_t>(flat_bytes()), std::byte{0}, gradients());
    for (const auto& b : binding_.slots)
      if (!net_->owns(b.slot)) context_.fill(parameter_bytes(b), std::byte{0}, b.gradients);
  }

  /// Moves the layers' state by what they have told of the mini-batch's micro-batches. Cannot fail.
  GPIPE_OUT_OF_LINE void absorb(const step_state& step) noexcept {
    for (std::size_t i = 0; i < binding_.slots.size(); ++i) {
      const bound& b = binding_.slots[i];
      if (b.kernels->absorb == nullptr) continue;
      call c = told_by_all(b, step);
      if (!earlier_.empty() && earlier_[i].count() > 0) {
        earlier_[i].append(context_, c.partials, c.partial_stride, c.micro_batches);
        c.partials = earlier_[i].all();
        c.micro_batches = earlier_[i].count();
      }
      b.kernels->absorb(context_, c);
    }
  }
  /// Keeps what they have told in an accumulated call for that, which may allocate; or forgets it.
  GPIPE_ONCE void keep_told(const step_state& step) {
    for (std::size_t i = 0; i < earlier_.size(); ++i)
      if (const bound& b = binding_.slots[i]; b.kernels->absorb != nullptr) {
        const call c = told_by_all(b, step);
        earlier_[i].keep(context_, c.partials, c.partial_stride, c.micro_batches, plan_->all_micro_batches());
      }
  }
  void forget_told() noexcept {
    for (auto& told : earlier_) told.forget();
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
  const detail::bound_slot<context>& at(int slot) const {
    return binding_.slots[static_cast<std::size_t>(slot - binding_.slots.front().slot)];
  }

  /// The stage has updated its parameters.
  void updated() {
    if (!observed_) return;
    for (const auto& b : binding_.slots) observer_.after_update(context_, b, flat_bytes());
  }

 private:
  using bound = detail::bound_slot<context>;

  static std::ptrdiff_t parameter_bytes(const bound& b) {
    return static_cast<std::ptrdiff_t>(b.layer->parameter_bytes());
  }
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

  GPIPE_OUT_OF_LINE call call_of(const bound& b, const step_state& step, int m, bool again) const {
    call c;
    c.samples = step.samples(m);
    c.capacity = plan_->options.micro_batch_size;
    c.training = step.training;
    for (int i = 0; i < b.inputs; ++i) {
      c.in[i] = b.in[i].at(m, again);
      c.in_gradient[i] = b.in_gradient[i].at(m, again);
    }
    for (int o = 0; o < b.outputs; ++o) {
      c.out[o] = b.out[o].at(m, again);
      c.out_gradient[o] = b.out_gradient[o].at(m, again);
    }
    for (int f = 0; f < b.layer->field_count; ++f) c.fields[f] = b.fields[f].at(m, again);
    c.parameters = b.parameters;
    c.state = b.state;
    c.derived = b.derived;
    c.gradients = b.gradients;
    c.extras = b.extras.at(m, again);
    c.partials = reinterpret_cast<double*>(b.partials.at(m, again));
    c.partial_stride = static_cast<std::ptrdiff_t>(b.partials.stride / sizeof(double));
    c.micro_batches = step.filled_of_all();
    c.random = {step.seed, step.step, static_cast<std::uint32_t>(b.slot),
                static_cast<std::uint32_t>(step.samples_before + step.first_sample(m))};
    c.drew = &drew_;
    return c;
  }

  /// A call for `absorb`, with what was told of all micro-batches of the step.
  call told_by_all(const bound& b, const step_state& step) const {
    call c = call_of(b, step, 0, false);
    c.partials = reinterpret_cast<double*>(b.partials.base);
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

  /// A layer's operations follow.
  void enter(const bound& b, [[maybe_unused]] int m) {
    current_ = &b;
    if constexpr (requires { context_.asks(asker{}); }) context_.asks({b.layer->name, b.slot, stage_, m});
  }

  detail::examiner<context> examine() const { return {context_, *net_, stage_}; }

  template <class Run>
  void time(const bound& b, timed part, const step_state& step, int m, Run&& run) {
    if (!watch_) return run();
    const auto begin = now_ns();
    run();
    if (step.samples(m) == plan_->options.micro_batch_size)
      watch_->take(b.slot - binding_.slots.front().slot, part, now_ns() - begin);
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

  void run_parameter_part(const bound& b, const step_state& step, int m) {
    if (b.kernels->backward_parameters == nullptr || b.frozen) return;
    enter(b, m);
    time(b, timed::backward_parameters, step, m,
         [&] { b.kernels->backward_parameters(context_, call_of(b, step, m, true)); });
    if (observed_) observer_.after_parameter_part(context_, b, step, m);
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

  const network* net_;
  const run_plan* plan_;
  int stage_, replica_;
  stage_memory memory_;
  context context_;
  typename Device::arena arena_;
  detail::arena_map map_;
  detail::binding<context> binding_;
  std::optional<detail::canary<context>> canary_;
  std::vector<detail::told_earlier<Device>> earlier_;  // [slot], where calls are accumulated
  detail::observer<context> observer_;
  mutable bool drew_ = false;
  bool observed_ = false;  ///< somebody looks at what the layers do
  const bound* current_ = nullptr;
  [[no_unique_address]] marker done_{};
  std::unique_ptr<stopwatch> watch_;
};

}  // namespace gpipe
