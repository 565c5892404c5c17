#pragma once

#include <memory>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe::detail {

/// An optimizer without its type, so that an executor is compiled once for all optimizers.
template <class Context>
class optimizer_update {
 public:
  template <class Optimizer>
  GPIPE_COLD explicit optimizer_update(const Optimizer& optimizer)
      : moments_(Optimizer::moments),
        optimizer_(std::make_shared<const Optimizer>(optimizer)),
        floats_(&apply<Optimizer, float>),
        doubles_(&apply<Optimizer, double>),
        trial_(trial_of(optimizer)) {
    static_assert(Optimizer::moments <= max_moments,
                  "gpipe: an optimizer has more moments than gpipe::max_moments");
  }

  int moments() const { return moments_; }
  /// The result of two updates of a number: it differs between optimizers of one type with different constants.
  double trial() const { return trial_; }

  /// Updates `bytes` of parameters of one type. Cannot fail.
  void operator()(const Context& c, dtype type, std::size_t bytes, std::byte* parameters, const std::byte* gradients,
                  std::byte* const* moments, const update_terms& now) const noexcept {
    (type == dtype::float64 ? doubles_ : floats_)(c, optimizer_.get(), bytes, parameters, gradients, moments, now);
  }

 private:
  using function = void (*)(const Context&, const void*, std::size_t, std::byte*, const std::byte*, std::byte* const*,
                            const update_terms&);

  template <class Optimizer, class T>
  GPIPE_OUT_OF_LINE static void apply(const Context& c, const void* optimizer, std::size_t bytes, std::byte* parameters,
                                      const std::byte* gradients, std::byte* const* moments, const update_terms& now) {
    update_operands<T> of{reinterpret_cast<T*>(parameters), reinterpret_cast<const T*>(gradients), {}};
    for (int i = 0; i < Optimizer::moments; ++i) of.moment[i] = reinterpret_cast<T*>(moments[i]);
    c.each(static_cast<std::ptrdiff_t>(bytes / sizeof(T)),
           static_cast<const Optimizer*>(optimizer)->template rule<T>(of, now));
  }

  template <class Optimizer>
  GPIPE_COLD static double trial_of(const Optimizer& optimizer) {
    double parameter = 1, gradient = 0.75, moments[max_moments]{};
    for (int step = 1; step <= 2; ++step, gradient = -0.5) {
      update_operands<double> of{&parameter, &gradient, {}};
      for (int i = 0; i < Optimizer::moments; ++i) of.moment[i] = &moments[i];
      optimizer.template rule<double>(of, {step, 0.1, 1})(0);
    }
    return parameter;
  }

  int moments_;
  std::shared_ptr<const void> optimizer_;
  function floats_, doubles_;
  double trial_;
};

}  // namespace gpipe::detail
