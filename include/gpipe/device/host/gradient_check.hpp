#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/device/host/layer_fixture.hpp>

namespace gpipe {

/// What a gradient check shall try.
struct gradient_trial {
  int samples = 3;
  bool training = true;
  std::uint64_t seed = 1;
  int integers_below = 2;  ///< bound of integer inputs
  double step = 1e-5;      ///< of the central differences
};

/// What it found: the worst error, in units of the largest gradient of the same tensor, and where. A broken promise of
/// another kind counts as an infinite error.
struct gradient_report {
  double worst = 0;
  std::string where{};

  bool passes(double tolerance = 1e-7) const { return worst <= tolerance; }
};

namespace detail {

template <class Trial>
class gradient_check {
 public:
  explicit gradient_check(const gradient_trial& wanted) : wanted_(wanted), t_(wanted.samples, wanted.samples + 2) {
    t_.call().training = wanted.training;
    t_.randomise(wanted.seed, wanted.integers_below);
  }

  gradient_report operator()() {
    if constexpr (!bound::view) {
      objective();
      same("a second refresh", t_.derived, [this] { t_.refresh(); });
      same("a second forward", t_.out, [this] { t_.forward(); });
      same("a recompute", t_.out, [this] { recompute(); });
      for (std::size_t i = 0; i < t_.partials[0].count(); ++i) t_.partials[0].set(i, 1 + t_.partials[0].get(i));
      same("for partials a recompute", t_.partials, [this] { recompute(); });
      objective();
      differentiate();
      compare();
      promises();
      if (const std::string name = t_.overrun(); !name.empty()) broken("writes beside its " + name);
    }
    return report_;
  }

 private:
  using bound = typename Trial::bound;
  static constexpr auto samples_of = [](const host::guarded_buffer& b, int samples, int capacity) {
    return b.count() / static_cast<std::size_t>(capacity) * static_cast<std::size_t>(samples);
  };

  std::size_t used(const host::guarded_buffer& b) { return samples_of(b, t_.call().samples, t_.call().capacity); }

  // The first broken promise is the one told: it may be the cause of others.
  void broken(const std::string& what) {
    if (!std::isinf(report_.worst)) report_ = {std::numeric_limits<double>::infinity(), what};
  }

  // The products of the outputs with random cotangents, summed; of a loss, the loss.
  double objective() {
    t_.refresh();
    t_.forward();
    double sum = 0;
    bool differentiable = false;
    for (std::size_t o = 0; o < t_.out.size(); ++o) {
      if (!is_floating(t_.out[o].type())) continue;
      differentiable = true;
      for (std::size_t i = 0; i < used(t_.out[o]); ++i) sum += t_.out[o].get(i) * t_.out_gradient[o].get(i);
    }
    return differentiable || bound::partials.empty() ? sum : t_.partials[0].get(0);
  }

  void recompute() {
    t_.call().recompute = true;
    t_.forward();
    t_.call().recompute = false;
  }

  using image = std::vector<std::vector<std::byte>>;
  static image image_of(const std::vector<host::guarded_buffer>& list) {
    image bits;
    for (const auto& buffer : list) bits.push_back(buffer.bits());
    return bits;
  }

  template <class Again>
  void same(const std::string& what, const std::vector<host::guarded_buffer>& list, Again again) {
    const image before = image_of(list);
    again();
    if (image_of(list) != before) broken(what + " gives other bits");
  }

  // Backward must neither read what it does not keep nor rely on what its output held before.
  void differentiate() {
    for (auto& g : t_.in_gradient) g.poison();
    t_.gradients[0].clear();
    const image in = image_of(t_.in);
    if (!bound::keeps.input)
      for (auto& b : t_.in) b.poison();
    if (!bound::keeps.output)
      for (auto& b : t_.out) b.poison();
    t_.backward_input();
    t_.backward_parameters();
    for (std::size_t i = 0; i < in.size(); ++i) std::copy(in[i].begin(), in[i].end(), t_.in[i].data());
  }

  void compare() {
    for (std::size_t p = 0; p < t_.in.size(); ++p)
      if (is_floating(t_.in[p].type()))
        against_differences(t_.in[p], t_.in_gradient[p], 0, used(t_.in[p]), t_.in[p].name());
    for (std::size_t p = 0; p < bound::parameters.size(); ++p)
      against_differences(t_.parameters[0], t_.gradients[0], t_.first_of(p), bound::parameters[p].extents.size(),
                          bound::parameters[p].name);
  }

  void against_differences(host::guarded_buffer& at, const host::guarded_buffer& analytic, std::size_t first,
                           std::size_t count, const std::string& name) {
    std::vector<double> numeric(count);
    double scale = 1e-3;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = at.get(first + i);
      at.set(first + i, x + wanted_.step);
      const double above = objective();
      at.set(first + i, x - wanted_.step);
      const double below = objective();
      at.set(first + i, x);
      numeric[i] = (above - below) / (2 * wanted_.step);
      scale = (std::max)(scale, std::fabs(numeric[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double off = std::fabs(analytic.get(first + i) - numeric[i]) / scale;
      const std::string where = name + "[" + std::to_string(i) + "]: " + std::to_string(analytic.get(first + i)) +
                                " against " + std::to_string(numeric[i]);
      if (!std::isfinite(off)) broken(where);
      else if (off > report_.worst) report_ = {off, where};
    }
  }

  void promises() {
    objective();
    t_.gradients[0].clear();
    t_.backward_input();
    t_.backward_parameters();
    const image inputs = image_of(t_.in_gradient), parameters = image_of(t_.gradients);
    if (Trial::has_fused) {
      t_.gradients[0].clear();
      for (auto& g : t_.in_gradient) g.poison();
      t_.backward();
      if (image_of(t_.in_gradient) != inputs || image_of(t_.gradients) != parameters)
        broken("the fused backward gives other bits than its parts");
    }
    // backward_input is called where some input wants a gradient: of one input, always that.
    for (int without = 0; Trial::inputs > 1 && without < Trial::inputs; ++without) {
      for (auto& g : t_.in_gradient) g.poison();
      t_.connect_gradients(without);
      t_.backward_input();
      t_.connect_gradients();
      image seen = image_of(t_.in_gradient);
      const auto w = static_cast<std::size_t>(without);
      seen[w] = inputs[w];
      if (seen != inputs) broken("leaving out the gradient of " + t_.in[w].name() + " changes another");
    }
    std::vector<double> once(t_.gradients[0].count());
    for (std::size_t i = 0; i < once.size(); ++i) once[i] = t_.gradients[0].get(i);
    t_.backward_parameters();
    for (std::size_t p = 0; p < bound::parameters.size(); ++p)
      for (std::size_t i = t_.first_of(p), end = i + bound::parameters[p].extents.size(); i < end; ++i)
        if (std::fabs(t_.gradients[0].get(i) - 2 * once[i]) > 1e-12 * (1 + std::fabs(once[i])))
          broken(std::string("the gradient of ") + bound::parameters[p].name + " is not added to");
    for (const auto* list : {&t_.out, &t_.in_gradient})
      for (const auto& b : *list)
        for (std::size_t i = used(b) * bytes_of(b.type()); i < b.bytes(); ++i)
          if (b.data()[i] != std::byte{0xff}) return broken("writes samples that the micro-batch does not have");
  }

  gradient_trial wanted_;
  Trial t_;
  gradient_report report_;
};

}  // namespace detail

/// Checks the backward of a layer against central differences of its forward, in double, and with it the promises of
/// a layer's kernels: the gradients of the parameters are added to, those of the inputs written over and left out where
/// nobody wants them; backward reads nothing that the layer does not keep; a fused backward has the same bits as its
/// parts; forward twice gives the same bits, and a recompute leaves the partials alone; nothing is written beside a
/// buffer or beyond the samples given.
///
///     const auto report = gpipe::check_gradient<my_layer, gpipe::tensor<double, 8>>();
///     REQUIRE_MESSAGE(report.passes(), report.where);
template <class Layer, edge Input, class Context = host::context>
gradient_report check_gradient(const gradient_trial& wanted = {}) {
  using layer_fixture = host::layer_fixture<Layer, Input, Context>;
  static_assert(std::is_same_v<typename layer_fixture::value_type, double>,
                "differences need double: check the layer on tensor<double, ...>");
  return detail::gradient_check<layer_fixture>(wanted)();
}

}  // namespace gpipe
