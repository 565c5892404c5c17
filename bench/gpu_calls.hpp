#pragma once

// The calls that gpu_counts counts and gpu_times times: kernels of a GPT-2, of an embedding and of image networks.

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/cuda/cuda.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using namespace gpipe;

constexpr int tokens = 1024, samples = 8, width = 768, heads = 12, vocabulary = 50257;
using rows = tensor<bf16, tokens, width>;

/// Fills operands of a GPU's memory, where their values matter: random numbers of bf16, which are also such of float,
/// or zeros.
inline void (*fill_operand)(void* at, std::size_t bytes, bool numbers) = nullptr;

/// As many elements as a kernel's operand has in a GPU's memory: each operand is an allocation of its own.
template <class T>
class operand {
 public:
  explicit operand(std::size_t count, bool numbers = true) {
    const std::size_t bytes = count * sizeof(T) + 16;
    gpipe::cuda::check(cudaMalloc(&at_, bytes), "cudaMalloc");
    if (fill_operand != nullptr) fill_operand(at_, bytes, numbers);
  }
  operand(operand&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  operand& operator=(operand&&) = delete;
  ~operand() { gpipe::cuda::ignore(cudaFree(at_)); }
  operator T*() const { return static_cast<T*>(at_); }

 private:
  void* at_ = nullptr;
};

template <class T, class Measure>
void measure_attention(const Measure& measure, const gpipe::cuda::context& c, const std::string& name) {
  if (!measure.wanted(name)) return;
  constexpr std::ptrdiff_t row = width, head = width / heads;
  constexpr std::size_t size = std::size_t{samples} * tokens * width;
  const attention_shape::strides of{std::ptrdiff_t{tokens} * row, head, row};
  const attention_shape shape{samples, heads, heads, tokens, tokens, int{head}, true, 0.125, of, of, of, of};
  const operand<T> q(size), k(size), v(size), o(size), d_o(size), d_q(size), d_k(size), d_v(size);
  const operand<compute_type<T>> log_sums(std::size_t{samples} * heads * tokens);
  c.prepare_attention<T>(shape);
  const std::int32_t* all = nullptr;
  measure(name + "forward", 24, c, [&] { c.attention<T>(shape, q, k, v, all, o, log_sums); });
  measure(name + "backward", 24, c,
          [&] { c.attention_backward<T>(shape, q, k, v, all, o, log_sums, d_o, d_q, d_k, d_v); });
}

/// The shapes of bench/conv, for 8 images.
template <class T, class Measure>
void measure_convolutions(const Measure& measure, const gpipe::cuda::context& c, const std::string& of) {
  const struct {
    const char* name;
    convolution_shape shape;
  } layers[] = {{"3x3_64_56", {8, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1}},
                {"3x3_stride2_64_56", {8, 64, 56, 56, 64, 3, 3, 2, 2, 1, 1}},
                {"1x1_256_28", {8, 256, 28, 28, 256, 1, 1}},
                {"1x1_64_256_56", {8, 64, 56, 56, 256, 1, 1}},
                {"1x7_64_28", {8, 64, 28, 28, 64, 1, 7, 1, 1, 0, 3}},
                {"7x1_64_28", {8, 64, 28, 28, 64, 7, 1, 1, 1, 3, 0}},
                {"1x1_52_28", {8, 52, 28, 28, 52, 1, 1}},
                {"3x3_32_14", {8, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1}}};
  for (const auto& [name, s] : layers) {
    const auto maps = [&](int height, int columns, int channels) {
      return static_cast<std::size_t>(s.samples) * static_cast<std::size_t>(height * columns) *
             static_cast<std::size_t>(channels);
    };
    if (!measure.wanted(of + name)) continue;
    const std::size_t in = maps(s.in_height, s.in_width, s.in_channels),
                      out = maps(s.out_height(), s.out_width(), s.out_channels);
    const operand<T> x(in), dx(in), y(out), dy(out), weight(s.weight_size());
    const operand<compute_type<T>> dw(s.weight_size());
    const compute_type<T>* none = nullptr;
    const std::string prefix = of + name;
    measure(prefix + ".forward", 16, c, [&] { c.convolve<T>(s, x, weight, none, y); });
    measure(prefix + ".input", 16, c, [&] { c.convolve_backward_input<T>(s, dy, weight, dx); });
    measure(prefix + ".weight", 4, c, [&] { c.convolve_backward_weight<T>(s, x, dy, dw); });
  }
}

/// A layer with operands in a GPU's memory.
template <class Layer, class Input>
class layer_on_gpu {
 public:
  using bound = gpipe::detail::bound<Layer, Input>;

  explicit layer_on_gpu(const gpipe::cuda::context& c) : c_(c) {
    const host::layer_declaration& d = host::detail::declaration_of<bound>;
    call_.samples = call_.capacity = samples;
    call_.training = true, call_.micro_batches = 1, call_.lists = &bound::lists;
    const auto edge = [&](auto tensors, auto& values, auto& gradients) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::size_t bytes = samples * tensors[i].size * gpipe::detail::bytes_of(tensors[i].type);
        values[i] = take(bytes);
        if (gpipe::detail::is_floating(tensors[i].type)) gradients[i] = take(bytes);
      }
    };
    edge(d.in, call_.in, call_.in_gradient), edge(d.out, call_.out, call_.out_gradient);
    using gpipe::detail::offset_in;
    const std::size_t bytes = gpipe::detail::bytes_of(d.value_type);
    call_.parameters = take(bytes * d.first_of(d.parameters.size()));
    call_.gradients = take(bytes * d.first_of(d.parameters.size()));
    call_.state = take(bytes * d.first_of_state(d.state.size()));
    call_.derived = take(offset_in(d.derived, d.derived.size(), 1));
    call_.extras = take(offset_in(d.extras, d.extras.size(), samples));
    call_.backward_extras = take(offset_in(d.backward_extras, d.backward_extras.size(), samples));
    call_.forward_workspace = take(offset_in(d.forward_workspace, d.forward_workspace.size(), samples));
    call_.workspace = take(offset_in(d.workspace, d.workspace.size(), samples));
    std::size_t partials = 0;
    for (const partial& p : d.partials) partials += p.size;
    if (partials > 0) call_.partials = reinterpret_cast<double*>(take(sizeof(double) * partials));
    for (std::size_t i = 0; i < d.fields.size(); ++i)
      call_.fields[i] = take(samples * d.fields[i].size * gpipe::detail::bytes_of(d.fields[i].type), false);
    if (row().prepare != nullptr) row().prepare(c, samples, &bound::lists);
    if (!gpipe::detail::is_floating(d.in[0].type)) {  // random tokens
      std::vector<std::int32_t> drawn(samples * d.in[0].size);
      for (std::size_t i = 0; i < drawn.size(); ++i)
        drawn[i] = static_cast<std::int32_t>(draw({}, 0, static_cast<std::uint32_t>(i)).word[0] % vocabulary);
      c.upload(static_cast<std::ptrdiff_t>(4 * drawn.size()), reinterpret_cast<const std::byte*>(drawn.data()),
               const_cast<std::byte*>(reinterpret_cast<const std::byte*>(call_.in[0])));
      c.finish();
    }
  }

  template <class Measure>
  void forward(const Measure& measure, const std::string& name, std::uint64_t most) const {
    measure(name + ".forward", most, c_, [&] { run(row().forward); });
  }
  template <class Measure>
  void backward(const Measure& measure, const std::string& name, std::uint64_t most) const {
    measure(name + ".backward", most, c_, [&] {
      if (row().backward != nullptr) return run(row().backward);
      run(row().backward_input), run(row().backward_parameters);
    });
  }

 private:
  using kernel_row = gpipe::detail::kernel_row;
  static kernel_row row() { return gpipe::detail::entry_points<bound, gpipe::cuda::context>::row(); }
  void run(typename kernel_row::kernel k) const {
    if (k != nullptr) k(c_, call_);
  }
  std::byte* take(std::size_t bytes, bool numbers = true) { return memory_.emplace_back(bytes, numbers); }

  const gpipe::cuda::context& c_;
  std::vector<operand<std::byte>> memory_;
  gpipe::detail::call call_;
};

/// A layer, forward and backward.
template <class Layer, class Input, class Measure>
void measure_layer(const Measure& measure, const gpipe::cuda::context& c, const std::string& name,
                   std::uint64_t most = 16) {
  if (!measure.wanted(name)) return;
  const layer_on_gpu<Layer, Input> layer(c);
  layer.forward(measure, name, most), layer.backward(measure, name, most);
}

/// An update of as many parameters as a block's feed-forward has in a matrix.
template <class Optimizer, class Measure>
void measure_update(const Measure& measure, const gpipe::cuda::context& c, const std::string& name) {
  if (!measure.wanted(name)) return;
  constexpr std::size_t size = std::size_t{4} * width * width;
  const operand<std::byte> parameters(size * sizeof(float)), gradients(size * sizeof(float));
  gpipe::detail::update_range all{size * sizeof(float), parameters, gradients};
  std::vector<operand<std::byte>> moments;
  for (int i = 0; i < Optimizer::moments; ++i) all.moments[i] = moments.emplace_back(size * sizeof(float));
  const gpipe::detail::optimizer_update update = gpipe::detail::optimizer_update::of<gpipe::cuda::context>(Optimizer{});
  measure(name, 16, c, [&] { update(c, dtype::float32, all, {}); });
}

/// measure(name, most, c, call) for each call whose name measure.wanted(name) accepts. An emulated GPU runs `most`
/// blocks of a launch, which then count as all.
template <class Measure>
void measure_calls(const Measure& measure, const gpipe::cuda::context& c) {
  measure_attention<bf16>(measure, c, "attention.");
  measure_attention<float>(measure, c, "attention.float.");
  {
    const operand<bf16> values(std::size_t{samples} * tokens * width);
    const operand<float> sums_of(width);
    measure("columns", 32, c, [&] {
      c.columns(samples * tokens, width, gpipe::cuda::detail::entries<bf16>{values, width},
                static_cast<float*>(sums_of));
    });
  }
  measure_layer<layer_norm, rows>(measure, c, "layer_norm");
  measure_layer<rms_norm, rows>(measure, c, "rms_norm");
  measure_layer<gelu, rows>(measure, c, "pointwise");
  measure_layer<embedding<vocabulary, width, bf16>, tensor<std::int32_t, tokens>>(measure, c, "embedding",
                                                                                  128);  // all of the sort
  measure_layer<softmax_cross_entropy, tensor<bf16, tokens, vocabulary>>(measure, c, "softmax", 8);
  measure_layer<softmax_cross_entropy, tensor<bf16, tokens, 32000>>(measure, c, "softmax_32000", 8);
  measure_layer<softmax_cross_entropy, tensor<float, tokens, vocabulary>>(measure, c, "softmax_float", 8);
  measure_update<adamw>(measure, c, "update.adamw");
  measure_update<sgd>(measure, c, "update.sgd");
  measure_convolutions<bf16>(measure, c, "conv.");
  measure_convolutions<float>(measure, c, "conv.float.");
}

}  // namespace bench
