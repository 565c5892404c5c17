// compiled: alone
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "support/celled.hpp"
#include "support/chains.hpp"
#include "support/nets.hpp"
#include "support/sanitized.hpp"

#include <gpipe/make_plan.hpp>

using namespace laws;

// Networks run with kernels that compute nothing: they mark what they write, and check that what they read still has
// its mark. They know the network and what its layers declare, but not the memory layout.

namespace {

using context = host::context;

const network* net = nullptr;  // of the run
int per_micro_batch = 0;

[[noreturn]] void lost(const char* what, int id) {
  throw std::runtime_error(std::string(what) + " " + std::to_string(id) + " was overwritten");
}

int mark_of(int kind, int id, int m) { return 1 + (131 * id + 17 * m + 463 * kind) % 997; }

template <class T>
void mark(void* at, std::size_t n, int x) {
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(at)[i] = static_cast<T>(x);
}
template <class T>
bool bears(const void* at, std::size_t n, int x) {
  for (std::size_t i = 0; i < n; ++i)
    if (static_cast<const T*>(at)[i] != static_cast<T>(x)) return false;
  return true;
}
void mark(void* at, const gpipe::detail::edge_part& part, int samples, int x) {
  const std::size_t n = part.size * static_cast<std::size_t>(samples);
  if (part.type == dtype::float32) mark<float>(at, n, x);
  else if (part.type == dtype::float64) mark<double>(at, n, x);
  else mark<std::int32_t>(at, n, x);
}
bool bears(const void* at, const gpipe::detail::edge_part& part, int samples, int x) {
  const std::size_t n = part.size * static_cast<std::size_t>(samples);
  if (part.type == dtype::float32) return bears<float>(at, n, x);
  if (part.type == dtype::float64) return bears<double>(at, n, x);
  return bears<std::int32_t>(at, n, x);
}

struct marks {
  const gpipe::detail::call& c;
  int l, m;
  const gpipe::detail::layer_type& r;
  explicit marks(const gpipe::detail::call& now)
      : c(now),
        l(static_cast<int>(now.random.layer_index)),
        m(static_cast<int>(now.random.first_sample) / per_micro_batch),
        r(net->type_of(l)) {}

  std::size_t extra_bytes() const { return r.extra_bytes(c.capacity); }
  /// Writes what no other buffer bears. Both before the kernel's checks and behind its marks: the workspace shares no
  /// byte with what the kernel reads or writes.
  void work() const { mark<unsigned char>(c.workspace, r.workspace_bytes(c.capacity), 251); }
  void work_forward() const { mark<unsigned char>(c.forward_workspace, r.forward_workspace_bytes(c.capacity), 251); }
  /// The input part leaves them to the parameter part.
  void leave() const {
    mark<unsigned char>(c.backward_extras, r.backward_extra_bytes(c.capacity), mark_of(3, l, m) % 251);
  }
  void left() const {
    if (!bears<unsigned char>(c.backward_extras, r.backward_extra_bytes(c.capacity), mark_of(3, l, m) % 251))
      lost("backward's extras of layer", l);
  }
  bool wants_input() const {
    bool wanted = false;
    for (int i = 0; i < r.inputs; ++i) wanted = wanted || c.in_gradient[i] != nullptr;
    return wanted;
  }

  void inputs() const {
    for (int i = 0; i < r.inputs; ++i) {
      const int v = net->reads_value(l, i);
      if (v >= net->entering && !bears(c.in[i], r.in[i], c.samples, mark_of(0, v, m))) lost("value", v);
    }
  }
  void backward() const {
    if (r.keeps.input) inputs();
    for (int o = 0; o < r.outputs; ++o) {
      const int v = net->writes_value(l, o);
      if (r.keeps.output && !bears(c.out[o], r.out[o], c.samples, mark_of(0, v, m))) lost("kept value", v);
      // Each reader has added its mark.
      if (net->values[v].gradient &&
          !bears(c.out_gradient[o], r.out[o], c.samples, net->values[v].readers * mark_of(1, v, m)))
        lost("the gradient of value", v);
    }
    if (!bears<unsigned char>(c.extras, extra_bytes(), mark_of(2, l, m) % 251)) lost("extras of layer", l);
  }
};

void forward(gpipe::detail::context_handle, const gpipe::detail::call& c) {
  const marks k(c);
  k.work_forward();
  k.inputs();
  for (int o = 0; o < k.r.outputs; ++o)
    mark(c.out[o], k.r.out[o], c.samples, mark_of(0, net->writes_value(k.l, o), k.m));
  mark<unsigned char>(c.extras, k.extra_bytes(), mark_of(2, k.l, k.m) % 251);
  if (!c.recompute) mark<double>(c.partials, k.r.partial_elements(), c.samples);
  k.work_forward();
}
void backward_input(gpipe::detail::context_handle, const gpipe::detail::call& c) {
  const marks k(c);
  k.work();
  k.leave();
  k.backward();
  for (int i = 0; i < k.r.inputs; ++i)
    if (c.in_gradient[i] != nullptr)
      mark(c.in_gradient[i], k.r.in[i], c.samples, mark_of(1, net->reads_value(k.l, i), k.m));
  k.work();
  k.leave();
}
void backward_parameters(gpipe::detail::context_handle, const gpipe::detail::call& c) {
  const marks k(c);
  if (!k.wants_input()) k.work(), k.leave();
  k.left();
  k.backward();
}

/// An optimizer that keeps nothing and changes nothing.
struct unmoved {
  static constexpr int moments = 0;
  struct nothing {
    void operator()(std::ptrdiff_t) const {}
  };
  template <class T>
  nothing rule(const update_operands<T>&, const update_terms&) const {
    return {};
  }
};

template <class Net>
void run(const plan_options& options, const std::vector<int>& cut = {}) {
  net = &network_of<Net>;
  std::vector<gpipe::detail::kernel_row> kernels(static_cast<std::size_t>(net->type_count));
  for (int i = 0; i < net->type_count; ++i) {
    auto& k = kernels[static_cast<std::size_t>(i)];
    k.context = gpipe::detail::id_of_context<context>;
    k.forward = &forward;
    k.backward_input = &backward_input;
    if (net->types[i].parameter_count > 0) k.backward_parameters = &backward_parameters;
  }
  executor all(gpipe::detail::device_of<gpipe::host_device>, *net, kernels.data(), make_plan(*net, options, cut),
               gpipe::detail::optimizer_update::of<context>(unmoved{}));
  const int n = options.micro_batches * options.micro_batch_size - (options.micro_batches > 1);
  per_micro_batch = (n + options.micro_batches - 1) / options.micro_batches;
  const std::vector<std::byte> zeros(static_cast<std::size_t>(n) * 8 * 4096);
  batch data(n);
  const gpipe::detail::edge_part& in = net->values[0].part;
  data.with("inputs", zeros.data(), static_cast<std::size_t>(n) * in.size, in.type);
  for (int i = 0; i < net->field_count; ++i) {
    const field& f = net->fields[i];
    data.with(f.name, zeros.data(), static_cast<std::size_t>(n) * f.size, f.type);
  }
  for (int i = 0; i < 2; ++i) CHECK_NOTHROW(all.train(data, 0.1));
  CHECK_NOTHROW(all.evaluate(data));
  CHECK_NOTHROW(all.train(data, 0.1));
}

/// Has another width and keeps nothing.
template <int N>
struct resize {
  template <class In>
  struct on;
  template <class T, int K>
  struct on<tensor<T, K>> {
    using output = tensor<T, N>;
  };
};
/// Keeps its input, and has no parameters.
struct keeping {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr keep keeps{.input = true};
  };
};

/// Has a parameter, and workspaces of 4 times its input and of 3 times, and leaves 3 times its input to the parameter
/// part.
struct working {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}}};
    static constexpr buffer workspace[] = {{"larger", std::size_t{3} * N, dtype_of<T>}, {"rest", N, dtype_of<T>}};
    static constexpr buffer forward_workspace[] = {{"in forward", std::size_t{3} * N, dtype_of<T>}};
    static constexpr buffer backward_extras[] = {{"in backward", std::size_t{3} * N, dtype_of<T>}};
  };
};

/// Keeps its input and its output, and has a workspace of 40 times its input in forward alone.
struct drafting {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr keep keeps{.input = true, .output = true};
    static constexpr buffer forward_workspace[] = {{"draft", std::size_t{40} * N, dtype_of<T>}};
  };
};

/// Workspaces: with a gradient of the input, and without one. The latter is used in the parameter part, when gradients
/// of earlier layers have been born.
struct worked
    : model<input<float, 16>, working, linear<64>, linear<16>, stash<"x">, only<from<"side", tensor<float, 16>>>,
            working, working, pop<"x">, cross, join, linear<4>, softmax_cross_entropy> {};
/// Neighbours whose parameter parts wait at one time, and a workspace larger than all that backward has.
struct drafted : model<input<float, 16>, linear<16>, working, working, drafting, working, drafting, linear<4>,
                       softmax_cross_entropy> {};
/// A value kept for two readers: one needs it no more before the other's parameter part, and a wide gradient follows.
struct kept_twice : model<input<float, 16>, linear<16>, linear<256>, linear<16>, stash<"x">, keeping, pop<"x">, cross,
                          join, linear<4>, softmax_cross_entropy> {};
/// A value kept for a distant layer, while many values pass that only forward reads, without a gradient.
struct kept_early : model<input<std::int32_t, 16>, resize<16>, stash<"x">, resize<256>, resize<256>, resize<16>,
                          lookup<float, 6, 1>, pop<"x">, scale, linear<4>, softmax_cross_entropy> {};

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never};

template <class Net>
void holds_for_stages(std::initializer_list<int> stages) {
  for (const int S : stages)
    for (const int M : {1, 2, 5})
      for (const recompute_mode mode : modes) {
        CAPTURE(S);
        CAPTURE(M);
        CAPTURE(static_cast<int>(mode));
        run<Net>({.stages = S, .micro_batches = M, .micro_batch_size = 2, .recompute = mode, .optimizer_moments = 0});
      }
}

/// The same if parameter parts wait, one by one or in groups, and if layers run again.
template <class Net>
void holds_in_split_backwards(std::initializer_list<layer_patterns> lists) {
  for (const int S : {1, 2, 3, 5})
    for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
      for (const int group : {0, 3})
        for (const layer_patterns& list : lists) {
          if (group > 0 && schedule != schedule_kind::fill_drain) continue;
          CAPTURE(S);
          CAPTURE(std::string(name_of(schedule)));
          CAPTURE(group);
          CAPTURE(list.count);
          run<Net>({.stages = S,
                    .micro_batches = 6,
                    .micro_batch_size = 2,
                    .recompute = recompute_mode::never,
                    .recompute_layers = list,
                    .schedule = schedule,
                    .group_gradients = group,
                    .optimizer_moments = 0});
        }
}

template <class Net>
void holds_for_every_cut() {
  constexpr int L = layers_of<Net>;
  for (unsigned mask = 0; mask < 1u << (L - 1); mask += cut_step) {
    std::vector<int> cut;
    for (int l = 1; l < L; ++l)
      if (mask >> (l - 1) & 1u) cut.push_back(l);
    CAPTURE(cut);
    run<Net>({.stages = static_cast<int>(cut.size()) + 1,
              .micro_batches = 3,
              .micro_batch_size = 2,
              .recompute = modes[mask % 3],
              .optimizer_moments = 0},
             cut);
  }
}

}  // namespace

TEST_CASE("every read finds what was written: no two buffers that are live together share memory") {
  holds_for_stages<residual_net<float>>({1, 2, 3, 5, 18});
  holds_for_stages<transformer<3, 4, 16, 12>>({1, 2, 3, 4, 7, 13});
  holds_for_stages<u_net<64>>({1, 2, 3, 5, 8});
  holds_for_stages<uneven<32>>({1, 2, 3, 4, 7});
  holds_for_stages<worked>({1, 2, 3, 5, layers_of<worked>});
  holds_for_stages<celled_net<double>>({1, 2, 3, 11, layers_of<celled_net<double>>});
}

TEST_CASE("no two live buffers share memory if parameter parts wait, or layers run again") {
  holds_in_split_backwards<worked>({{}, {"5"}, {"0", "5", "6"}, {"6", "linear", "8"}, {"0", "5", "6", "linear"}});
  holds_in_split_backwards<drafted>({{}, {"3"}, {"5"}, {"1", "3", "4", "5"}});
}

TEST_CASE("no two live buffers share memory, for any cut") {
  holds_for_every_cut<skip_net<float>>();
  holds_for_every_cut<pair_net<double>>();
  holds_for_every_cut<integer_net<float>>();
  holds_for_every_cut<kept_twice>();
  holds_for_every_cut<kept_early>();
  holds_for_every_cut<worked>();
  holds_for_every_cut<drafted>();
}
