#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/contract/kernels.hpp>
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe::host {

// assumes: one parameter type
/// Aligned memory of one dtype between two guards, which detect writes outside of it.
class guarded_buffer {
 public:
  guarded_buffer(std::string name, dtype type, std::size_t count)
      : name_(std::move(name)),
        type_(type),
        count_(count),
        memory_(static_cast<std::byte*>(
            ::operator new(gpipe::detail::aligned(bytes()) + 2 * gpipe::detail::alignment, at_boundary))) {
    std::memset(memory_, guard, gpipe::detail::aligned(bytes()) + 2 * gpipe::detail::alignment);
    poison();
  }
  guarded_buffer(guarded_buffer&& other) noexcept
      : name_(std::move(other.name_)),
        type_(other.type_),
        count_(other.count_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  guarded_buffer& operator=(guarded_buffer&&) = delete;
  ~guarded_buffer() { ::operator delete(memory_, at_boundary); }

  const std::string& name() const { return name_; }
  dtype type() const { return type_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * gpipe::detail::bytes_of(type_); }
  std::byte* data() const { return memory_ + gpipe::detail::alignment; }

  /// All ones: NaN as floating-point numbers, -1 as integers.
  void poison() { std::memset(data(), 0xff, bytes()); }
  void clear() { std::memset(data(), 0, bytes()); }
  bool intact() const {
    for (std::size_t i = 0; i < gpipe::detail::alignment; ++i)
      if (memory_[i] != std::byte{guard}) return false;
    for (std::size_t i = bytes(); i < gpipe::detail::aligned(bytes()) + gpipe::detail::alignment; ++i)
      if (data()[i] != std::byte{guard}) return false;
    return true;
  }
  std::vector<std::byte> bits() const { return {data(), data() + bytes()}; }

  double get(std::size_t i) const {
    return gpipe::detail::visit_dtype(type_, [&]<class T>() { return static_cast<double>(at<T>(i)); });
  }
  void set(std::size_t i, double value) {
    gpipe::detail::visit_dtype(type_, [&]<class T>() { at<T>(i) = static_cast<compute_type<T>>(value); });
  }

 private:
  static constexpr std::align_val_t at_boundary{gpipe::detail::alignment};
  static constexpr unsigned char guard = 0xa5;

  template <class T>
  T& at(std::size_t i) const {
    return reinterpret_cast<T*>(data())[i];
  }

  std::string name_;
  dtype type_;
  std::size_t count_;
  std::byte* memory_;
};

/// A layer's declarations, as values: `layer_buffers` is the same code for every layer.
struct layer_declaration {
  struct tensor_of_edge {
    dtype type = dtype::float32;
    std::size_t size = 0;  ///< elements per sample
  };
  std::span<const tensor_of_edge> in{}, out{};
  std::span<const parameter> parameters{}, state{};
  std::span<const buffer> derived{}, extras{}, backward_extras{}, forward_workspace{}, workspace{};
  std::span<const field> fields{};
  std::span<const partial> partials{};
  dtype value_type = dtype::float32;  ///< of parameters and state
  keep keeps{};
  bool view = false;

  /// The offset of parameter `index` in the blocks of parameters and of their gradients, in elements.
  std::size_t first_of(std::size_t index) const {
    return gpipe::detail::offset_in(parameters, index, gpipe::detail::bytes_of(value_type)) /
           gpipe::detail::bytes_of(value_type);
  }
  std::size_t first_of_state(std::size_t index) const {
    return gpipe::detail::offset_in(state, index, gpipe::detail::bytes_of(value_type)) /
           gpipe::detail::bytes_of(value_type);
  }
};

namespace detail {

template <class Edge>
inline constexpr auto tensors_of_edge = []<int... Indices>(std::integer_sequence<int, Indices...>) {
  return std::array<layer_declaration::tensor_of_edge, sizeof...(Indices)>{layer_declaration::tensor_of_edge{
      dtype_of<typename gpipe::detail::part<Edge, Indices>::value_type>, gpipe::detail::part<Edge, Indices>::size}...};
}
(std::make_integer_sequence<int, gpipe::detail::parts<Edge>>{});

template <class Bound>
inline constexpr layer_declaration declaration_of{.in = tensors_of_edge<typename Bound::input>,
                                                  .out = tensors_of_edge<typename Bound::output>,
                                                  .parameters = Bound::parameters,
                                                  .state = Bound::state,
                                                  .derived = Bound::derived,
                                                  .extras = Bound::extras,
                                                  .backward_extras = Bound::backward_extras,
                                                  .forward_workspace = Bound::forward_workspace,
                                                  .workspace = Bound::workspace,
                                                  .fields = Bound::fields,
                                                  .partials = Bound::partials,
                                                  .value_type = dtype_of<typename Bound::value_type>,
                                                  .keeps = Bound::keeps,
                                                  .view = Bound::view};

}  // namespace detail

/// All the buffers that a layer declares, and a call of its kernels with them.
class layer_buffers {
 public:
  layer_buffers(const layer_declaration& declared, int samples, int capacity) : declared_(declared) {
    call_.samples = samples;
    call_.capacity = capacity;
    call_.training = true;
    call_.random = {.seed = 1, .step = 2, .layer_index = 3, .first_sample = 4};
    const auto max_samples = static_cast<std::size_t>(capacity);
    add_edge("input", declared.in, max_samples, in, in_gradient);
    add_edge("output", declared.out, max_samples, out, out_gradient);
    for (std::size_t i = 0; i < in.size(); ++i) call_.in[i] = in[i].data();
    for (std::size_t i = 0; i < out.size(); ++i) call_.out[i] = out[i].data();
    connect_gradients();

    // Each block is one buffer, as in the executor: between its parts there is padding, but no guard.
    using gpipe::detail::offset_in;
    parameters.emplace_back("parameters", declared.value_type, declared.first_of(declared.parameters.size()));
    gradients.emplace_back("parameter gradients", declared.value_type, parameters[0].count());
    state.emplace_back("state", declared.value_type, declared.first_of_state(declared.state.size()));
    derived.emplace_back("derived", dtype::uint8, offset_in(declared.derived, declared.derived.size(), 1));
    const auto block = [&](const char* name, std::span<const buffer> list) {
      return guarded_buffer(name, dtype::uint8, offset_in(list, list.size(), max_samples));
    };
    extras.push_back(block("extras", declared.extras));
    backward_extras.push_back(block("backward extras", declared.backward_extras));
    forward_workspace.push_back(block("forward workspace", declared.forward_workspace));
    workspace.push_back(block("workspace", declared.workspace));
    std::size_t partial_count = 0;
    for (const partial& p : declared.partials) partial_count += p.size;
    partials.emplace_back("partials", dtype::float64, partial_count);
    gradients[0].clear();
    call_.parameters = parameters[0].data();
    call_.gradients = gradients[0].data();
    call_.state = state[0].data();
    call_.derived = derived[0].data();
    call_.extras = extras[0].data();
    call_.backward_extras = backward_extras[0].data();
    call_.forward_workspace = forward_workspace[0].data();
    call_.workspace = workspace[0].data();
    if (!declared.partials.empty()) call_.partials = reinterpret_cast<double*>(partials[0].data());
    call_.micro_batches = 1;
    for (std::size_t i = 0; i < declared.fields.size(); ++i) {
      const field& f = declared.fields[i];
      fields.emplace_back(f.name, f.type, f.size * max_samples);
      call_.fields[i] = fields[i].data();
    }
  }

  const layer_declaration& declared() const { return declared_; }

  /// Random numbers in everything that a layer reads: in [-1.5, 1.5) for its inputs and its outputs' gradients, below
  /// `integers_below` for integers, within their limits for labels (some ignored) and weights, around the initial
  /// values for parameters and state.
  void randomize(std::uint64_t seed, int integers_below = 2) {
    std::uint32_t stream = 0;
    const auto fill = [&](guarded_buffer& buffer, std::size_t first, std::size_t count, double middle, double spread) {
      ++stream;
      for (std::size_t i = 0; i < count; ++i) {
        const auto words = draw({.seed = seed, .layer_index = stream}, 0, static_cast<std::uint32_t>(i));
        const double unit = static_cast<double>(words.word[0]) * 0x1p-32 + static_cast<double>(words.word[1]) * 0x1p-64;
        buffer.set(first + i,
                   gpipe::detail::is_floating(buffer.type()) ? middle + spread * (2 * unit - 1) : unit * spread);
      }
    };
    for (auto* list : {&in, &out_gradient})
      for (auto& buffer : *list)
        fill(buffer, 0, buffer.count(), 0, gpipe::detail::is_floating(buffer.type()) ? 1.5 : integers_below);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto below = static_cast<double>(declared_.fields[i].below);
      const bool share = below > 0 && gpipe::detail::is_floating(fields[i].type());
      fill(fields[i], 0, fields[i].count(), share ? below / 2 : 1, share ? below / 2 : below > 0 ? below : 1);
      if (const auto ignored = static_cast<double>(declared_.fields[i].ignored); ignored != no_label)
        for (std::size_t label = 2; label < fields[i].count(); label += 4) fields[i].set(label, ignored);
    }
    const auto around = [&](guarded_buffer& block, const parameter& values, std::size_t first) {
      using enum initializer::kind;
      const double middle = values.first.drawn == ones       ? 1
                            : values.first.drawn == constant ? double{values.first.scale}
                                                             : 0;
      fill(block, first, values.extents.size(), middle, 0.5);
    };
    for (auto* block : {&parameters[0], &state[0]}) block->clear();
    for (std::size_t i = 0; i < declared_.parameters.size(); ++i)
      around(parameters[0], declared_.parameters[i], declared_.first_of(i));
    for (std::size_t i = 0; i < declared_.state.size(); ++i)
      around(state[0], declared_.state[i], declared_.first_of_state(i));
  }

  /// Connects the gradients that backward writes; the gradient of input `without` is not needed.
  void connect_gradients(int without = -1) {
    for (std::size_t i = 0; i < in_gradient.size(); ++i)
      call_.in_gradient[i] = gpipe::detail::is_floating(in_gradient[i].type()) && static_cast<int>(i) != without
                                 ? in_gradient[i].data()
                                 : nullptr;
    for (std::size_t i = 0; i < out_gradient.size(); ++i)
      call_.out_gradient[i] = gpipe::detail::is_floating(out_gradient[i].type()) ? out_gradient[i].data() : nullptr;
  }

  /// The name of the first buffer with a write outside of it, or empty.
  std::string overrun() const {
    for (const auto* list : {&in, &out, &in_gradient, &out_gradient, &parameters, &gradients, &state, &derived, &extras,
                             &backward_extras, &forward_workspace, &workspace, &partials, &fields})
      for (const auto& buffer : *list)
        if (!buffer.intact()) return buffer.name();
    return {};
  }

  gpipe::detail::call& call() { return call_; }

  std::vector<guarded_buffer> in, out, in_gradient, out_gradient;             ///< one per part of the edge
  std::vector<guarded_buffer> parameters, gradients, state, derived, extras;  ///< one block per list
  std::vector<guarded_buffer> backward_extras, forward_workspace, workspace, partials, fields;

 private:
  static void add_edge(const std::string& name, std::span<const layer_declaration::tensor_of_edge> edge,
                       std::size_t samples, std::vector<guarded_buffer>& values,
                       std::vector<guarded_buffer>& gradients) {
    for (std::size_t i = 0; i < edge.size(); ++i) {
      values.emplace_back(name + " " + std::to_string(i), edge[i].type, samples * edge[i].size);
      gradients.emplace_back(name + " " + std::to_string(i) + "'s gradient", edge[i].type, samples * edge[i].size);
    }
  }

  const layer_declaration& declared_;
  gpipe::detail::call call_;
};

/// One layer with all the buffers that it declares, for tests: fill the buffers, call the kernels, read the results.
template <class Layer, gpipe::detail::edge Input, class Context = context>
class layer_fixture : public layer_buffers {
 public:
  using bound = gpipe::detail::bound<Layer, Input>;
  using on = typename bound::on;
  using view = gpipe::detail::kernel_view<bound, Context>;
  using kernels = typename view::on;  ///< the kernels, of the layer or of its kind
  using backward_operands = operands<view, gpipe::detail::pass::backward>;
  using value_type = typename bound::value_type;
  static constexpr int inputs = gpipe::detail::parts<Input>, outputs = gpipe::detail::parts<typename bound::output>;

  explicit layer_fixture(int samples, int capacity) : layer_buffers(detail::declaration_of<bound>, samples, capacity) {
    call().lists = &bound::lists;
    if constexpr (requires { on::prepare(Context{}, 1); }) on::prepare(Context{}, capacity);
  }

  void refresh() {
    if constexpr (requires(const operands<view>& a) { kernels::refresh(Context{}, a); })
      kernels::refresh(Context{}, operands<view>(call()));
  }
  void update_state() {
    if constexpr (requires(const operands<view, gpipe::detail::pass::update_state>& a) {
                    kernels::update_state(Context{}, a);
                  })
      kernels::update_state(Context{}, operands<view, gpipe::detail::pass::update_state>(call()));
  }
  /// Forward finds a poisoned workspace, and backward none of its values. Backward's extras do not outlive backward.
  void forward() {
    forward_workspace[0].poison();
    if constexpr (!bound::view) kernels::forward(Context{}, operands<view>(call()));
    forward_workspace[0].poison();
    backward_extras[0].poison();
  }
  /// Each part of backward finds a poisoned workspace.
  void backward_input() {
    workspace[0].poison();
    if constexpr (requires(const backward_operands& a) { kernels::backward_input(Context{}, a); })
      kernels::backward_input(Context{}, backward_operands(call()));
  }
  void backward_parameters() {
    workspace[0].poison();
    if constexpr (requires(const backward_operands& a) { kernels::backward_parameters(Context{}, a); })
      kernels::backward_parameters(Context{}, backward_operands(call()));
  }
  /// The fused kernel, or both parts.
  void backward() {
    if constexpr (has_fused) {
      workspace[0].poison();
      kernels::backward(Context{}, backward_operands(call()));
    } else {
      backward_input();
      backward_parameters();
    }
  }
  static constexpr bool has_fused = requires(const backward_operands& a) { kernels::backward(Context{}, a); };

  static std::size_t first_of(std::size_t index) { return detail::declaration_of<bound>.first_of(index); }
  static std::size_t first_of_state(std::size_t index) { return detail::declaration_of<bound>.first_of_state(index); }
};

}  // namespace gpipe::host
