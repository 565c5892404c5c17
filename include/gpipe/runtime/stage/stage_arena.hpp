#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/plan/memory/gradient_buckets.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

namespace gpipe::detail {

struct exchange_words {  // of any type
  std::uint32_t *a, *b;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::uint32_t first = a[i];
    a[i] = b[i];
    b[i] = first;
  }
};
template <class T>
struct move_average {
  const T* x;
  T* average;
  T share;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    average[i] = multiply_add(share, x[i] - average[i], average[i]);
  }
};
template <class T>
struct square_of {
  const T* x;
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

template <class T>
struct square_of_both {
  square_of<T> first, second;
  std::ptrdiff_t elements;  // of the first
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const { return i < elements ? first(i) : second(i - elements); }
};

/// One stage's memory on its device, and the address of every buffer in it. Parameters, gradients and each moment are
/// one flat array each. A stage of a shorter length (see `lengths`) uses the memory of the longest's.
template <class Device>
class stage_arena {
 public:
  using device_context = typename Device::context;

  GPIPE_COLD stage_arena(const network& net, const step_plan& plan, int stage, std::byte fill, int replica,
                         const stage_arena* longest = nullptr)
      : net_(&net),
        plan_(&plan),
        stage_(stage),
        replica_(replica),
        memory_(plan.memory(stage)),
        share_(own_share(stage_view(net, plan.cut(), stage), plan.requirements(stage).shares, replica)),
        place_(longest != nullptr ? longest->place_
                                  : std::make_shared<place>(replica * plan.stages() + stage,
                                                            static_cast<std::size_t>(memory_.total()), fill)),
        context_(place_->context),
        arena_(place_->arena),
        map_(arena_.data()) {
    if (plan.options.tf32) {
      if constexpr (requires { context_.allow_tf32(); }) context_.allow_tf32();
      else
        detail::throw_error({"tf32 is true, and the plan's device computes no products in TF32"},
                            {"train on cuda_device, or leave tf32 out"});
    }
    for (const memory_block& b : plan.blocks[detail::index(stage)]) map_.add(b);
    if (longest != nullptr) return;
    // Gaps between parameters stay zero, because whole arrays are updated at once.
    context_.fill(memory_.before(static_cast<int>(memory_kind::tied) + 1), std::byte{0}, arena_.data());
  }
  ~stage_arena() { settle(); }
  stage_arena(const stage_arena&) = delete;
  stage_arena& operator=(const stage_arena&) = delete;

  /// Waits until the device has nothing to do for this stage, and ignores failures.
  GPIPE_COLD void settle() const noexcept {
    try {
      context_.finish();
    } catch (...) {
    }
  }

  int stage() const { return stage_; }
  const stage_memory& memory() const { return memory_; }
  const detail::arena_map& map() const { return map_; }
  const auto& arena() const { return arena_; }
  const device_context& context() const { return context_; }
  const std::vector<detail::bound_layer<device_context>>& layers() const { return binding_.layers; }
  const detail::bound_layer<device_context>& at(int layer) const {
    return binding_.layers[detail::index(layer - binding_.layers.front().layer_index)];
  }

  /// The part of the stage that this replica updates: all of it, if replicas keep no shares.
  const stage_share& share() const { return share_; }
  bool is_shared_out() const { return shares() > 1; }
  bool gradients_leave() const { return plan_->requirements(stage_).gradients_leave; }
  /// The layers whose gradients this replica has summed over all.
  layer_range reported(bool commits) const {
    return reported_layers(stage_view(*net_, plan_->cut(), stage_), shares(), replica_, commits);
  }

  /// The stage's parameters and gradients, each one flat array of `flat_bytes`; moments and averages are of the share.
  std::size_t flat_bytes() const { return static_cast<std::size_t>(memory_.of(memory_kind::parameters)); }
  std::byte* parameters() const { return arena_.data(); }
  std::byte* gradients() const { return begin_of(memory_kind::gradients); }
  std::byte* moments(int i) const { return begin_of(memory_kind::moments) + memory_.share * i; }
  std::byte* averages() const { return begin_of(memory_kind::averages); }

  /// The groups of the parameters. `groups` outlives the stage.
  GPIPE_COLD void begin_updates(const parameter_groups& groups) {
    groups_ = &groups;
    for (auto& b : binding_.layers) find_frozen(b);
    find_ranges();
  }
  /// Sets the first values of what the optimizer keeps.
  GPIPE_COLD void begin_moments(const optimizer_update<device_context>& rule) {
    context_.fill(memory_.of(memory_kind::arrays), std::byte{0}, begin_of(memory_kind::arrays));
    for (int i = 0; i < plan_->options.optimizer_moments && memory_.of(memory_kind::moments) > 0; ++i)
      visit_dtype<double, float>(net_->type, [&]<class T>() {
        context_.fill(elements(), static_cast<T>(rule.first_moment(i)), reinterpret_cast<T*>(moments(i)));
      });
  }
  /// What this replica's updates of a step cover: all parameters of its share that are not frozen.
  const std::vector<update_range>& ranges() const { return ranges_; }

  /// average <- average + share (parameter - average). The averages begin as a copy.
  GPIPE_OUT_OF_LINE void move_averages(double share) {
    visit_dtype<double, float>(net_->type, [&]<class T>() {
      context_.each(elements(), move_average<T>{reinterpret_cast<const T*>(updated_parameters()),
                                                reinterpret_cast<T*>(averages()), static_cast<T>(share)});
    });
  }
  GPIPE_COLD void copy_to_averages() {
    context_.copy(share_.bytes, static_cast<const std::byte*>(updated_parameters()), averages());
  }
  GPIPE_COLD void exchange_averages() {
    context_.each(share_.bytes / static_cast<std::ptrdiff_t>(sizeof(std::uint32_t)),
                  exchange_words{reinterpret_cast<std::uint32_t*>(updated_parameters()),
                                 reinterpret_cast<std::uint32_t*>(averages())});
  }

  /// Calls `f(at, bytes)` for each range of the arena with gradients: one range, and with `tied` those of tied uses.
  template <class Call>
  void each_gradient(bool tied, Call&& f) const {
    f(flat_bytes(), flat_bytes());
    for (const auto& b : binding_.layers)
      if (tied && !net_->owns(b.layer_index))
        f(static_cast<std::size_t>(b.tied.gradients - arena_.data()), b.tied.bytes);
  }
  /// Each sum of two is rounded.
  void add(dtype type, std::ptrdiff_t n, const std::byte* from, std::byte* into) const {
    visit_dtype<double, bf16, float>(
        type, [&]<class T>() { context_.add(n, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(into)); });
  }

  /// Sets gradients to zero, before the first micro-batch adds to them.
  void clear_gradients() {
    context_.fill(memory_.of(memory_kind::gradients), std::byte{0}, gradients());
    for (const auto& b : binding_.layers)
      if (!net_->owns(b.layer_index))
        context_.fill(static_cast<std::ptrdiff_t>(b.tied.bytes), std::byte{0}, b.tied.gradients);
  }

  /// Of a bucket that has left: another one needs its window.
  void clear_gradients(const bucket& b) {
    context_.fill(static_cast<std::ptrdiff_t>(b.bytes), std::byte{0}, at(b.first).own.gradients);
  }

  /// Sums the squares of the gradient of every layer that is reported. If the pass commits, tied gradients count at
  /// their owner only.
  GPIPE_OUT_OF_LINE void sum_squares(bool commits) {
    const layer_range layers = reported(commits);
    for (int l = layers.first; l < layers.last; ++l) {
      const auto& b = at(l);
      if (b.frozen || (commits && b.own.bytes == 0)) context_.fill(1, 0.0, b.sum_of_squares);
      else visit_dtype<double, float>(b.layer->type, [&]<class T>() { this->template sum_squares<T>(b, commits); });
    }
  }
  /// Downloads the sums to `squares[layer]`.
  void download_squares(bool commits, double* squares) const {
    const layer_range layers = reported(commits);
    if (layers.empty()) return;
    context_.download(static_cast<std::ptrdiff_t>(detail::index(layers.last - layers.first) * sizeof(double)),
                      reinterpret_cast<const std::byte*>(at(layers.first).sum_of_squares),
                      reinterpret_cast<std::byte*>(squares + layers.first));
  }

 protected:
  static stage_share own_share(const stage_view& stage, int shares, int replica) {
    return share_of_replica(stage, shares, shares > 1 ? replica : 0);
  }
  int shares() const { return plan_->requirements(stage_).shares; }
  std::byte* begin_of(memory_kind kind) const { return arena_.data() + memory_.before(static_cast<int>(kind)); }
  std::byte* updated_parameters() const { return parameters() + share_.begin; }

  using bound = detail::bound_layer<device_context>;

  /// The context and the memory, which the stages of several lengths share.
  struct place {
    device_context context;
    typename Device::arena arena;
    place(int number, std::size_t bytes, std::byte fill)
        : context(Device::make_context(number)), arena(Device::make_arena(context, bytes, fill)) {}
  };

  GPIPE_COLD void find_frozen(bound& b) {
    b.frozen = !b.frozen_parameters.empty();
    for (std::size_t p = 0; p < b.frozen_parameters.size(); ++p) {
      const bool in_group = groups_ != nullptr && groups_->frozen(b.layer_index, static_cast<int>(p));
      b.frozen_parameters[p] = b.frozen_by_call[p] || in_group;
      b.frozen = b.frozen && b.frozen_parameters[p];
    }
  }
  // A range ends where the group changes or a frozen parameter begins. A tensor rule has a range for each tensor.
  GPIPE_COLD void find_ranges() {
    ranges_.clear();
    if (groups_ == nullptr || memory_.of(memory_kind::gradients) == 0) return;
    const tensor_rule_memory* const rule = plan_->options.tensor_rule;
    for (const auto& b : binding_.layers)
      for (int p = 0; share_.has(b.layer_index) && p < b.layer->parameter_count; ++p) {
        if (!net_->owns(b.layer_index, p) || b.frozen_parameters[index(p)]) continue;
        update_range next{net_->own_bytes(b.layer_index, p + 1) - net_->own_bytes(b.layer_index, p),
                          b.parameter_at[index(p)],
                          b.gradient_at[index(p)],
                          {},
                          groups_->of(b.layer_index, p)};
        for (int i = 0; i < plan_->options.optimizer_moments; ++i)
          next.moments[i] = moments(i) + (next.parameters - updated_parameters());
        if (rule != nullptr) {
          next.extents = &b.layer->parameters[p].extents;
          next.arrays =
              map_.find(memory_kind::arrays, b.layer_index, -1).base + arrays_before(*net_, b.layer_index, *rule, p);
        } else if (!ranges_.empty() && ranges_.back().group == next.group &&
                   ranges_.back().parameters + ranges_.back().bytes == next.parameters) {
          ranges_.back().bytes += next.bytes;
          continue;
        }
        ranges_.push_back(next);
      }
  }
  // Those of the share.
  std::ptrdiff_t elements() const { return share_.bytes / static_cast<std::ptrdiff_t>(bytes_of(net_->type)); }

  template <class T>
  void sum_squares(const bound& b, bool commits) {
    const auto own = static_cast<std::ptrdiff_t>(b.own.bytes / sizeof(T)),
               tied = static_cast<std::ptrdiff_t>(commits ? 0 : b.tied.bytes / sizeof(T));
    const square_of<T> first{reinterpret_cast<const T*>(b.own.gradients)},
        second{reinterpret_cast<const T*>(b.tied.gradients)};
    if (tied == 0) context_.sum(own, first, b.sum_of_squares);
    else if (own == 0) context_.sum(tied, second, b.sum_of_squares);
    else context_.sum(own + tied, square_of_both<T>{first, second, own}, b.sum_of_squares);
  }

  const network* net_;
  const step_plan* plan_;
  int stage_, replica_;
  stage_memory memory_;
  stage_share share_;
  std::shared_ptr<place> place_;
  device_context& context_;
  typename Device::arena& arena_;
  detail::arena_map map_;
  detail::binding<device_context> binding_;
  const parameter_groups* groups_ = nullptr;
  std::vector<update_range> ranges_;
};

}  // namespace gpipe::detail
