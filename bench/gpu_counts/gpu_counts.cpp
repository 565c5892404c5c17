// What bounds the time of each kernel on a GPU? Counted on an emulated one, and divided by the rates of two real ones.

#include "../result.hpp"

#if GPIPE_WITH_CUDA
#include "bounds.hpp"
#include "gpt2_step.hpp"

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/device/cuda/cuda.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/testing/layer_fixture.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gpipe;
using emulated::launch_counts;

constexpr int tokens = 1024, samples = 8, width = 768, heads = 12, vocabulary = 50257;
using rows = tensor<bf16, tokens, width>;

/// Zeros in a GPU's memory, as many as a kernel's operand has: each operand is an allocation of its own.
template <class T>
class zeros {
 public:
  explicit zeros(std::size_t count) { gpipe::cuda::check(cudaMalloc(&at_, count * sizeof(T) + 16), "cudaMalloc"); }
  zeros(zeros&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  zeros& operator=(zeros&&) = delete;
  ~zeros() { gpipe::cuda::ignore(cudaFree(at_)); }
  operator T*() const { return static_cast<T*>(at_); }

 private:
  void* at_ = nullptr;
};

/// "void gpipe::cuda::detail::attend<float>(...)" is "attend<float>".
std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                     std::free);
  std::string text = status == 0 ? plain.get() : mangled;
  text =
      std::regex_replace(text, std::regex("\\b(gpipe|cub|thrust|cuda|std|detail|for_each|[A-Z]+_\\w+)::|^void "), "");
  text = std::regex_replace(text, std::regex("\\(anonymous namespace\\)::|<unnamed>::"), "");
  if (const auto at = text.find("static_kernel<"); at == 0) {
    const auto f = text.find("op_wrapper_t<long, ");
    text = "each " + (f == text.npos ? text : text.substr(f + 19));
  }
  return text.substr(0, 44);
}

/// The bound times of a call's launches, added up, and what they move and wait for.
struct sums {
  double seconds[2]{}, tensor_seconds[2]{}, sectors = 0, needed = 0, wavefronts = 0, conflicts = 0;
  int launches = 0;
};

bench::register_table registers;

/// Seconds on each GPU.
std::array<double, 2> bounds_of(const launch_counts& c) {
  return {bench::bound_of(c, bench::models[0]).seconds, bench::bound_of(c, bench::models[1]).seconds};
}

sums print(const std::vector<launch_counts>& launches) {
  sums all;
  for (const launch_counts& c : launches) {
    ++all.launches;
    if (c.m != 0) std::printf("  %-44s", gpipe::detail::concat({"product ", c.m, " x ", c.n, " x ", c.k}).c_str());
    else {
      const double issued = static_cast<double>(c.issued),
                   per_block = static_cast<double>(c.rounds) / static_cast<double>(c.ran);
      std::printf("  %-44s %6llu x %4llu %8.0f %5.2f %5.2f %5.2f %5.0f", short_name(c.kernel).c_str(),
                  static_cast<unsigned long long>(c.blocks), static_cast<unsigned long long>(c.threads),
                  issued / static_cast<double>(c.ran),
                  static_cast<double>(c.sectors) / std::max(1.0, static_cast<double>(c.needed_sectors)),
                  static_cast<double>(c.conflicts) / std::max(1.0, static_cast<double>(c.wavefronts)),
                  static_cast<double>(c.divergent) / issued, per_block);
      all.sectors += c.scale() * static_cast<double>(c.sectors);
      all.needed += c.scale() * static_cast<double>(c.needed_sectors);
      all.wavefronts += c.scale() * static_cast<double>(c.wavefronts);
      all.conflicts += c.scale() * static_cast<double>(c.conflicts);
    }
    for (int m = 0; m < 2; ++m) {
      const bench::gpu_model& on = bench::models[m];
      const bench::bound b = bench::bound_of(c, on);
      all.seconds[m] += b.seconds, all.tensor_seconds[m] += b.tensor_seconds;
      const int held = c.m != 0 ? 0 : bench::occupancy(c, on, registers.of(c, on));
      if (c.m == 0) std::printf(" | %2d", held);
      std::printf(" %9.1f us %-7s", 1e6 * b.seconds, bench::resources[b.resource]);
    }
    std::printf("\n");
  }
  return all;
}

std::string first_part;  // of the names of figures that are wanted; empty for all

/// Whether a figure, or one of a group of figures, is wanted: "softmax" and "softmax.forward" are both of "softmax".
bool wanted(const std::string& name) {
  const std::size_t common = std::min(name.size(), first_part.size());
  return name.compare(0, common, first_part, 0, common) == 0;
}

/// Counts what a call launches, and prints and records it under a name.
template <class Call>
void count(const std::string& name, std::uint64_t most, const gpipe::cuda::context& c, Call&& call) {
  if (!wanted(name)) return;
  emulated::most_blocks = most;
  emulated::take_counts();
  call();
  c.finish();
  std::printf("%s\n", name.c_str());
  const sums found = print(emulated::take_counts());
  for (int m = 0; m < 2; ++m)
    bench::result("gpu_counts." + name + "." + bench::models[m].name, 1e6 * found.seconds[m], "us, a bound");
  for (int m = 0; m < 2; ++m)
    if (found.tensor_seconds[m] > 0)
      bench::result("gpu_counts." + name + ".tensor." + bench::models[m].name,
                    found.tensor_seconds[m] / found.seconds[m], "of the bound");
  if (found.needed > 0)
    bench::result("gpu_counts." + name + ".sectors", found.sectors / found.needed, "of those needed");
  if (found.wavefronts > 0)
    bench::result("gpu_counts." + name + ".conflicts", found.conflicts / found.wavefronts, "of all wavefronts");
}

template <class T>
void count_attention(const gpipe::cuda::context& c, const std::string& name) {
  if (!wanted(name)) return;
  constexpr std::ptrdiff_t row = width, head = width / heads;
  constexpr std::size_t size = std::size_t{samples} * tokens * width;
  const attention_shape::strides of{std::ptrdiff_t{tokens} * row, head, row};
  const attention_shape shape{samples, heads, heads, tokens, tokens, int{head}, true, 0.125, of, of, of, of};
  const zeros<T> q(size), k(size), v(size), o(size), d_o(size), d_q(size), d_k(size), d_v(size);
  const zeros<compute_type<T>> log_sums(std::size_t{samples} * heads * tokens);
  c.prepare_attention<T>(shape);
  const std::int32_t* all = nullptr;
  count(name + "forward", 24, c, [&] { c.attention<T>(shape, q, k, v, all, o, log_sums); });
  count(name + "backward", 24, c,
        [&] { c.attention_backward<T>(shape, q, k, v, all, o, log_sums, d_o, d_q, d_k, d_v); });
}

/// The shapes of bench/conv, for 8 images.
template <class T>
void count_convolutions(const gpipe::cuda::context& c, const std::string& of) {
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
    if (!wanted(of + name)) continue;
    const std::size_t in = maps(s.in_height, s.in_width, s.in_channels),
                      out = maps(s.out_height(), s.out_width(), s.out_channels);
    const zeros<T> x(in), dx(in), y(out), dy(out), weight(s.weight_size());
    const zeros<compute_type<T>> dw(s.weight_size());
    const compute_type<T>* none = nullptr;
    const std::string prefix = of + name;
    count(prefix + ".forward", 16, c, [&] { c.convolve<T>(s, x, weight, none, y); });
    count(prefix + ".input", 16, c, [&] { c.convolve_backward_input<T>(s, dy, weight, dx); });
    count(prefix + ".weight", 4, c, [&] { c.convolve_backward_weight<T>(s, x, dy, dw); });
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
    call_.workspace = take(offset_in(d.workspace, d.workspace.size(), samples));
    std::size_t partials = 0;
    for (const partial& p : d.partials) partials += p.size;
    if (partials > 0) call_.partials = reinterpret_cast<double*>(take(sizeof(double) * partials));
    for (std::size_t i = 0; i < d.fields.size(); ++i)
      call_.fields[i] = take(samples * d.fields[i].size * gpipe::detail::bytes_of(d.fields[i].type));
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

  void forward(const std::string& name, std::uint64_t most) const {
    count(name + ".forward", most, c_, [&] { run(row().forward); });
  }
  void backward(const std::string& name, std::uint64_t most) const {
    count(name + ".backward", most, c_, [&] {
      if (row().backward != nullptr) return run(row().backward);
      run(row().backward_input), run(row().backward_parameters);
    });
  }

 private:
  using kernel_row = gpipe::detail::kernel_row<gpipe::cuda::context>;
  static kernel_row row() { return gpipe::detail::entry_points<bound, gpipe::cuda::context>::row(); }
  void run(typename kernel_row::kernel k) const {
    if (k != nullptr) k(c_, call_);
  }
  std::byte* take(std::size_t bytes) { return memory_.emplace_back(bytes); }

  const gpipe::cuda::context& c_;
  std::vector<zeros<std::byte>> memory_;
  gpipe::detail::call call_;
};

/// A layer, forward and backward.
template <class Layer, class Input>
void count_layer(const gpipe::cuda::context& c, const std::string& name, std::uint64_t most = 16) {
  if (!wanted(name)) return;
  const layer_on_gpu<Layer, Input> layer(c);
  layer.forward(name, most), layer.backward(name, most);
}

/// An update of as many parameters as a block's feed-forward has in a matrix.
template <class Optimizer>
void count_update(const gpipe::cuda::context& c, const std::string& name) {
  if (!wanted(name)) return;
  constexpr std::size_t size = std::size_t{4} * width * width;
  const zeros<std::byte> parameters(size * sizeof(float)), gradients(size * sizeof(float));
  gpipe::detail::update_range all{size * sizeof(float), parameters, gradients};
  std::vector<zeros<std::byte>> moments;
  for (int i = 0; i < Optimizer::moments; ++i) all.moments[i] = moments.emplace_back(size * sizeof(float));
  const gpipe::detail::optimizer_update<gpipe::cuda::context> update{Optimizer{}};
  count(name, 16, c, [&] { update(c, dtype::float32, all, {}); });
}

/// The launches from one launch of a kernel to the next, for its third one: those of a block, which repeats. Prints
/// them in their order.
int launches_of_block(const std::vector<launch_counts>& step, const std::string& kernel) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < step.size(); ++i)
    if (step[i].kernel.find(kernel) != std::string::npos) found.push_back(i);
  if (found.size() < 4) return 0;
  const std::vector<launch_counts> block(step.begin() + static_cast<std::ptrdiff_t>(found[2]),
                                         step.begin() + static_cast<std::ptrdiff_t>(found[3]));
  std::printf("a block, from %s on\n", kernel.c_str());
  print(block);
  return static_cast<int>(block.size());
}

/// GPT-2's step of 8 samples in 4 micro-batches. Only those of 1 and of 2 run: each further one adds the difference.
void count_step() {
  if (!wanted("gpt2_")) return;
  struct share {
    double seconds[2]{}, launches = 0;
    void add(const launch_counts& c, double times) {
      const auto found = bounds_of(c);
      for (int m = 0; m < 2; ++m) seconds[m] += times * found[m];
      launches += times;
    }
  };
  const auto one = bench::launches_of_gpt2_step(1, 2), two = bench::launches_of_gpt2_step(2, 2);
  share all;
  std::map<std::string, share> of_kernel;
  const auto add = [&](const std::vector<launch_counts>& step, double times) {
    for (const launch_counts& c : step) {
      all.add(c, times);
      of_kernel[c.m != 0 ? "products by cuBLASLt" : short_name(c.kernel)].add(c, times);
    }
  };
  add(one, -2), add(two, 3);
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, part] : of_kernel) order.emplace_back(-part.seconds[0], name);
  std::sort(order.begin(), order.end());
  std::printf("gpt2_124m.step, 4 micro-batches of 2 x 1024 tokens: launches, A100 and H100\n");
  for (const auto& [time, name] : order) {
    const share& part = of_kernel[name];
    std::printf("  %-44s %6.0f %9.2f ms %9.2f ms\n", name.c_str(), part.launches, 1e3 * part.seconds[0],
                1e3 * part.seconds[1]);
  }
  for (int m = 0; m < 2; ++m)
    bench::result(std::string("gpu_counts.gpt2_124m.step.") + bench::models[m].name, 1e3 * all.seconds[m],
                  "ms, a bound");
  for (int m = 0; m < 2; ++m) {
    double counted = 0;
    for (const launch_counts& c : one) counted -= bounds_of(c)[m];
    for (const launch_counts& c : two) counted += bounds_of(c)[m];
    bench::result(std::string("gpu_counts.gpt2_124m.predicted.") + bench::models[m].name,
                  bench::predicted_of_gpt2(bench::models[m].name, 2) / counted, "of a micro-batch's counts");
  }
  bench::result("gpu_counts.gpt2_124m.micro_batch", static_cast<double>(two.size() - one.size()), "launches");
  bench::result("gpu_counts.gpt2_block.forward", launches_of_block(one, "attend"), "launches");
  bench::result("gpu_counts.gpt2_block.backward", launches_of_block(one, "differentiate_keys"), "launches");
}

void run() {
  const gpipe::cuda::context c;
  std::printf(
      "A launch's kernel, blocks x threads; instructions of a block; sectors over needed; conflicts over "
      "wavefronts; share without all lanes;\nrounds of a block that load; then for A100 and H100 the blocks that "
      "a multiprocessor holds, the bound, and what sets it.\nProducts by cuBLASLt count as %.1f of the tensor "
      "cores' rate.\n\n",
      bench::product_share);
  count_attention<bf16>(c, "attention.");
  count_attention<float>(c, "attention.float.");
  {
    const zeros<bf16> values(std::size_t{samples} * tokens * width);
    const zeros<float> sums_of(width);
    count("columns", 32, c, [&] {
      c.columns(samples * tokens, width, gpipe::cuda::detail::entries<bf16>{values, width},
                static_cast<float*>(sums_of));
    });
  }
  count_layer<layer_norm, rows>(c, "layer_norm");
  count_layer<rms_norm, rows>(c, "rms_norm");
  count_layer<gelu, rows>(c, "pointwise");
  count_layer<embedding<vocabulary, width, bf16>, tensor<std::int32_t, tokens>>(c, "embedding",
                                                                                128);  // all of the sort
  count_layer<softmax_cross_entropy, tensor<bf16, tokens, vocabulary>>(c, "softmax", 8);
  count_layer<softmax_cross_entropy, tensor<bf16, tokens, 32000>>(c, "softmax_32000", 8);
  count_layer<softmax_cross_entropy, tensor<float, tokens, vocabulary>>(c, "softmax_float", 8);
  count_update<adamw>(c, "update.adamw");
  count_update<sgd>(c, "update.sgd");
  count_convolutions<bf16>(c, "conv.");
  count_convolutions<float>(c, "conv.float.");
  count_step();
}

}  // namespace

int main(int number, char** words) {
  setenv("EMULATED_COUNTS", "1", 1);  // before the first kernel
  if (number > 1) first_part = words[1];
  try {
    run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gpu_counts: %s\n", failure.what());
    return 1;
  }
}
#else
int main() { std::printf("this did not run: it needs nvcc, python3, the tests and a processor of x86-64\n"); }
#endif
