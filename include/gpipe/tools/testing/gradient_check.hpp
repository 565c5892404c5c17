#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

namespace gpipe {

/// The options of a gradient check.
struct gradient_check_options {
  int samples = 3;
  bool training = true;
  std::uint64_t seed = 1;
  int integers_below = 2;  ///< integer inputs are below it
  double step = 1e-5;      ///< of the central differences
};

/// The result: the worst error, in units of the largest gradient of the same tensor, and its position. Another broken
/// promise counts as an infinite error.
struct gradient_report {
  double worst = 0;
  std::string where{};

  bool passes(double tolerance = 1e-7) const { return worst <= tolerance; }
};

namespace detail {

/// The kernels of a layer_fixture, as function pointers.
struct fixture_kernels {
  using kernel = void (*)(host::layer_buffers&);
  kernel refresh, forward, backward_input, backward_parameters;
  kernel fused;  ///< null if the layer has none
};

template <class Fixture>
inline constexpr fixture_kernels kernels_of_fixture{
    .refresh = [](host::layer_buffers& buffers) { static_cast<Fixture&>(buffers).refresh(); },
    .forward = [](host::layer_buffers& buffers) { static_cast<Fixture&>(buffers).forward(); },
    .backward_input = [](host::layer_buffers& buffers) { static_cast<Fixture&>(buffers).backward_input(); },
    .backward_parameters = [](host::layer_buffers& buffers) { static_cast<Fixture&>(buffers).backward_parameters(); },
    .fused =
        [] {
          if constexpr (Fixture::has_fused)
            return +[](host::layer_buffers& buffers) { static_cast<Fixture&>(buffers).backward(); };
          else return fixture_kernels::kernel(nullptr);
        }()};

class gradient_check {
 public:
  gradient_check(const gradient_check_options& options, host::layer_buffers& fixture, const fixture_kernels& kernels)
      : options_(options), fixture_(fixture), kernels_(kernels) {
    fixture_.call().training = options.training;
    fixture_.randomize(options.seed, options.integers_below);
    for (auto* list : {&fixture_.in, &fixture_.out_gradient})  // a kernel that reads beyond the micro-batch finds NaN
      for (auto& b : *list)
        if (is_floating(b.type()))
          std::fill(b.data() + used(b) * bytes_of(b.type()), b.data() + b.bytes(), std::byte{0xff});
  }

  gradient_report operator()() {
    if (!declared_.view) {
      objective();
      require_same_bits("a second refresh", fixture_.derived, [this] { kernels_.refresh(fixture_); });
      require_same_bits("a second forward", fixture_.out, [this] { kernels_.forward(fixture_); });
      require_same_bits("a forward over other numbers", fixture_.out, [this] { forward_over_zeros(fixture_.out); });
      if (options_.training || declared_.state.empty())  // else no part of them counts
        require_same_bits("a forward over other numbers, for partials,", fixture_.partials,
                          [this] { forward_over_zeros(fixture_.partials); });
      require_same_bits("a recompute", fixture_.out, [this] { recompute(); });
      for (std::size_t i = 0; i < fixture_.partials[0].count(); ++i)
        fixture_.partials[0].set(i, 1 + fixture_.partials[0].get(i));
      require_same_bits("a recompute, for partials,", fixture_.partials, [this] { recompute(); });
      objective();
      differentiate();
      compare();
      promises();
      if (const std::string name = fixture_.overrun(); !name.empty())
        report_broken("writes outside of its buffer " + name);
    }
    return report_;
  }

 private:
  std::size_t used(const host::guarded_buffer& b) {
    return b.count() / static_cast<std::size_t>(fixture_.call().capacity) *
           static_cast<std::size_t>(fixture_.call().samples);
  }

  // Reports the first broken promise only: it may be the cause of others.
  void report_broken(const std::string& description) {
    if (!std::isinf(report_.worst)) report_ = {std::numeric_limits<double>::infinity(), description};
  }

  // The sum of the products of the outputs with random cotangents; the loss for a loss layer.
  double objective() {
    kernels_.refresh(fixture_);
    kernels_.forward(fixture_);
    double sum = 0;
    bool differentiable = false;
    for (std::size_t o = 0; o < fixture_.out.size(); ++o) {
      if (!is_floating(fixture_.out[o].type())) continue;
      differentiable = true;
      for (std::size_t i = 0; i < used(fixture_.out[o]); ++i)
        sum += fixture_.out[o].get(i) * fixture_.out_gradient[o].get(i);
    }
    return differentiable || declared_.partials.empty() ? sum : fixture_.partials[0].get(0);
  }

  // An element that forward does not write keeps its zero, in place of the poison before the first forward.
  void forward_over_zeros(std::vector<host::guarded_buffer>& written) {
    for (auto& b : written)
      std::fill_n(b.data(), &written == &fixture_.out ? used(b) * bytes_of(b.type()) : b.bytes(), std::byte{});
    kernels_.forward(fixture_);
  }

  void recompute() {
    fixture_.call().recompute = true;
    kernels_.forward(fixture_);
    fixture_.call().recompute = false;
  }

  using image = std::vector<std::vector<std::byte>>;
  static image image_of(const std::vector<host::guarded_buffer>& list) {
    image bits;
    for (const auto& buffer : list) bits.push_back(buffer.bits());
    return bits;
  }

  template <class Rerun>
  void require_same_bits(const std::string& action, const std::vector<host::guarded_buffer>& list, Rerun rerun) {
    const image before = image_of(list);
    rerun();
    if (image_of(list) != before) report_broken(action + " gives different bits");
  }

  // Backward must neither read values that are not kept nor depend on the previous content of its output.
  void differentiate() {
    for (auto& g : fixture_.in_gradient) g.poison();
    fixture_.gradients[0].clear();
    const image in = image_of(fixture_.in);
    if (!declared_.keeps.input)
      for (auto& b : fixture_.in) b.poison();
    if (!declared_.keeps.output)
      for (auto& b : fixture_.out) b.poison();
    kernels_.backward_input(fixture_);
    kernels_.backward_parameters(fixture_);
    for (std::size_t i = 0; i < in.size(); ++i) std::copy(in[i].begin(), in[i].end(), fixture_.in[i].data());
  }

  void compare() {
    for (std::size_t p = 0; p < fixture_.in.size(); ++p)
      if (is_floating(fixture_.in[p].type()))
        against_differences(fixture_.in[p], fixture_.in_gradient[p], 0, used(fixture_.in[p]), fixture_.in[p].name());
    for (std::size_t p = 0; p < declared_.parameters.size(); ++p)
      against_differences(fixture_.parameters[0], fixture_.gradients[0], declared_.first_of(p),
                          declared_.parameters[p].extents.size(), declared_.parameters[p].name);
  }

  void against_differences(host::guarded_buffer& buffer, const host::guarded_buffer& analytic, std::size_t first,
                           std::size_t count, const std::string& name) {
    std::vector<double> numeric(count);
    double scale = 1e-3;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = buffer.get(first + i);
      buffer.set(first + i, x + options_.step);
      const double above = objective();
      buffer.set(first + i, x - options_.step);
      const double below = objective();
      buffer.set(first + i, x);
      numeric[i] = (above - below) / (2 * options_.step);
      scale = (std::max)(scale, std::fabs(numeric[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double off = std::fabs(analytic.get(first + i) - numeric[i]) / scale;
      const std::string where = name + "[" + std::to_string(i) + "]: " + std::to_string(analytic.get(first + i)) +
                                ", by central difference " + std::to_string(numeric[i]);
      if (!is_finite(off)) report_broken(where);
      else if (off > report_.worst) report_ = {off, where};
    }
  }

  void agrees_with(const std::vector<double>& once, int times, const char* otherwise) {
    for (std::size_t p = 0; p < declared_.parameters.size(); ++p)
      for (std::size_t i = declared_.first_of(p), end = i + declared_.parameters[p].extents.size(); i < end; ++i)
        if (!(std::fabs(fixture_.gradients[0].get(i) - times * once[i]) <= 1e-12 * (1 + std::fabs(once[i]))))
          report_broken(std::string("the gradient of ") + declared_.parameters[p].name + otherwise);
  }

  // Before a kernel, `refresh` writes all that the kernel reads, also if the derived buffers for forward and for
  // backward are in the same memory.
  void packs_before_each_kernel(const image& inputs, const image& parameters, const std::vector<double>& once) {
    const auto pack_for = [&](refresh_for kernel) {
      fixture_.derived[0].poison();
      fixture_.call().refreshed = kernel;
      kernels_.refresh(fixture_);
    };
    fixture_.call().in_turn = true;
    for (const bool alone : {false, true}) {
      pack_for(refresh_for::forward);
      kernels_.forward(fixture_);
      fixture_.gradients[0].clear();
      for (auto& g : fixture_.in_gradient) g.poison();
      if (alone) {
        for (std::size_t i = 0; i < fixture_.in_gradient.size(); ++i) fixture_.call().in_gradient[i] = nullptr;
      } else {
        pack_for(refresh_for::backward_input);
        kernels_.backward_input(fixture_);
      }
      pack_for(alone ? refresh_for::backward_parameters_alone : refresh_for::backward_parameters);
      kernels_.backward_parameters(fixture_);
      fixture_.connect_gradients();
      if (alone) agrees_with(once, 1, " needs more than refresh writes for it");
      else if (image_of(fixture_.in_gradient) != inputs || image_of(fixture_.gradients) != parameters)
        report_broken("a kernel needs more than refresh writes for it");
    }
    fixture_.call().in_turn = false;
    fixture_.call().refreshed = refresh_for::all;
  }

  void promises() {
    objective();
    fixture_.gradients[0].clear();
    kernels_.backward_input(fixture_);
    kernels_.backward_parameters(fixture_);
    const image inputs = image_of(fixture_.in_gradient), parameters = image_of(fixture_.gradients);
    // Each backward has a forward before it, because it may overwrite the extras.
    if (kernels_.fused != nullptr) {
      objective();
      fixture_.gradients[0].clear();
      for (auto& g : fixture_.in_gradient) g.poison();
      kernels_.fused(fixture_);
      if (image_of(fixture_.in_gradient) != inputs || image_of(fixture_.gradients) != parameters)
        report_broken("the fused backward gives different bits than its parts");
    }
    // The first layer of a model runs without backward_input.
    std::vector<double> once(fixture_.gradients[0].count());
    for (std::size_t i = 0; i < once.size(); ++i) once[i] = fixture_.gradients[0].get(i);
    objective();
    fixture_.gradients[0].clear();
    for (std::size_t i = 0; i < fixture_.in_gradient.size(); ++i) fixture_.call().in_gradient[i] = nullptr;
    kernels_.backward_parameters(fixture_);
    fixture_.connect_gradients();
    agrees_with(once, 1, " needs the input part of backward");
    if (!declared_.derived.empty()) packs_before_each_kernel(inputs, parameters, once);
    // backward_input runs if at least one input needs a gradient: a single input always does.
    const int inputs_of_layer = static_cast<int>(declared_.in.size());
    for (int without = 0; inputs_of_layer > 1 && without < inputs_of_layer; ++without) {
      objective();
      for (auto& g : fixture_.in_gradient) g.poison();
      fixture_.connect_gradients(without);
      kernels_.backward_input(fixture_);
      fixture_.connect_gradients();
      image seen = image_of(fixture_.in_gradient);
      const auto w = static_cast<std::size_t>(without);
      seen[w] = inputs[w];
      if (seen != inputs)
        report_broken("omitting the gradient of " + fixture_.in[w].name() + " changes another gradient");
    }
    fixture_.gradients[0].clear();
    for (int part = 0; part < 2; ++part) {
      objective();
      kernels_.backward_input(fixture_);
      kernels_.backward_parameters(fixture_);
    }
    agrees_with(once, 2, " is overwritten instead of accumulated");
    for (const auto* list : {&fixture_.out, &fixture_.in_gradient})
      for (const auto& b : *list)
        for (std::size_t i = used(b) * bytes_of(b.type()); i < b.bytes(); ++i)
          if (b.data()[i] != std::byte{0xff}) return report_broken("writes samples beyond the micro-batch");
  }

  gradient_check_options options_;
  host::layer_buffers& fixture_;
  const fixture_kernels& kernels_;
  const host::layer_declaration& declared_ = fixture_.declared();
  gradient_report report_;
};

}  // namespace detail

/// Checks the backward of a layer against central differences of its forward, in double, and the promises of a layer's
/// kernels: parameter gradients are accumulated; input gradients are overwritten, and omitted if not needed; backward
/// reads nothing that the layer does not keep; its parameter part runs without its input part, as in a model's first
/// layer; a fused backward has the same bits as its parts; a second forward gives the same bits whatever was in its
/// outputs, and a recompute leaves the partials unchanged; `refresh` writes everything that a kernel reads of its
/// output; nothing is read or written beyond the given samples, or written outside of a block of buffers. Throws
/// `error` for fewer samples than 1.
///
///     const auto report = gpipe::check_gradient<my_layer, gpipe::tensor<double, 8>>();
///     REQUIRE_MESSAGE(report.passes(), report.where);
template <class Layer, detail::edge Input, class Context = host::context>
gradient_report check_gradient(const gradient_check_options& options = {}) {
  using fixture = host::layer_fixture<Layer, Input, Context>;
  static_assert(std::is_same_v<typename fixture::value_type, double>,
                "gpipe: central differences need double: check the layer on tensor<double, ...>");
  if (options.samples < 1) detail::throw_error({"samples is ", options.samples}, {"choose at least 1"});
  fixture checked(options.samples, options.samples + 2);
  return detail::gradient_check(options, checked, detail::kernels_of_fixture<fixture>)();
}

}  // namespace gpipe
