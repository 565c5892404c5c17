#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/core/text/type_name.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/runtime/binding/parameter_groups.hpp>

namespace gpipe {

struct host_device;

namespace detail {

/// The context in which an optimizer is tried before the training: the host's, whatever the device of the training.
/// This header needs no device: a trainer includes <gpipe/device/host/host.hpp>.
template <class Optimizer>
using trial_context = typename std::enable_if_t<(sizeof(Optimizer) > 0), host_device>::context;

/// A part of a stage's flat arrays that one call updates: adjacent parameters of one group, or one tensor for a tensor
/// rule.
struct update_range {
  std::size_t bytes = 0;
  std::byte *parameters = nullptr, *gradients = nullptr;
  std::byte* moments[max_moments]{};
  int group = 0;
  const shape* extents = nullptr;  ///< of the tensor
  std::byte* arrays = nullptr;
};

// assumes: one parameter type
/// An optimizer without its type, for contexts of one type, so that an executor is compiled once for all optimizers.
class optimizer_update {
 public:
  template <class Context, class Optimizer>
  GPIPE_COLD static optimizer_update of(const Optimizer& optimizer) {
    return {std::type_identity<Context>{}, optimizer};
  }

  /// The type of the contexts.
  context_id context() const { return context_; }

  // change: a parameter group setting
  /// Gives each group its own settings. Without this call there are no groups.
  GPIPE_COLD void use(const parameter_groups& groups) {
    const variant base = variants_.back();
    variants_.clear();
    for (const parameter_group& group : groups.all())
      variants_.push_back({group.weight_decay ? with_decay_(base.optimizer.get(), *group.weight_decay) : base.optimizer,
                           group.rate_factor});
    variants_.push_back(base);
  }

  /// The name of the optimizer's type.
  std::string_view name() const { return name_; }
  int moments() const { return moments_; }
  /// The first value of all elements of a moment.
  double first_moment(int i) const { return first_[index(i)]; }
  /// The arrays that it keeps per tensor; null: its rule updates single elements.
  const tensor_rule_memory* memory() const { return memory_; }
  /// The result of two updates of a small tensor: it differs between optimizers of one type with different constants.
  double trial() const { return trial_; }

  /// Throws unless every group's update of the parameter 1 by the gradients 0 and 1 gives numbers of this type that are
  /// finite: a rate, a decay or an epsilon may hold as a double and not as a float.
  GPIPE_COLD void require_finite(dtype type, const update_terms& terms) const {
    for (std::size_t g = 0; g < variants_.size(); ++g) {
      update_terms group_terms = terms;
      group_terms.rate *= variants_[g].rate_factor;
      if ((type == dtype::float64 ? finite_doubles_ : finite_floats_)(variants_[g].optimizer.get(), group_terms))
        continue;
      throw_error({"an update of the parameter 1 is not a finite ", type == dtype::float64 ? "double" : "float",
                   ": the learning rate is ", significant(group_terms.rate, 6),
                   g + 1 < variants_.size() ? concat({" in groups[", static_cast<int>(g), "]"}) : ""},
                  {"choose a smaller rate or weight decay, or a larger epsilon"});
    }
  }

  /// Updates parameters of one type. Cannot fail.
  void operator()(context_handle c, dtype type, const update_range& range, update_terms terms) const noexcept {
    const variant& v = variants_[index(range.group)];
    terms.rate *= v.rate_factor;
    (type == dtype::float64 ? doubles_ : floats_)(c, v.optimizer.get(), range, terms);
  }

 private:
  template <class Context, class Optimizer>
  GPIPE_COLD optimizer_update(std::type_identity<Context>, const Optimizer& optimizer)
      : context_(id_of_context<Context>),
        moments_(Optimizer::moments),
        memory_(tensor_memory<Optimizer>()),
        floats_(&apply<Context, Optimizer, float>),
        doubles_(&apply<Context, Optimizer, double>),
        with_decay_(&with_decay<Optimizer>),
        finite_floats_(&stays_finite<Optimizer, float>),
        finite_doubles_(&stays_finite<Optimizer, double>),
        variants_{{std::make_shared<const Optimizer>(optimizer), 1}},
        trial_(trial_of(optimizer)),
        name_(type_name<Optimizer>) {
    static_assert(Optimizer::moments <= max_moments, "gpipe: an optimizer has more moments than gpipe::max_moments");
    if constexpr (requires { optimizer.check(); }) optimizer.check();
    if constexpr (requires { Optimizer::first_moments[0]; })
      for (int i = 0; i < Optimizer::moments; ++i) first_[index(i)] = Optimizer::first_moments[i];
  }

  using function = void (*)(context_handle, const void*, const update_range&, const update_terms&);
  struct variant {
    std::shared_ptr<const void> optimizer;
    double rate_factor;
  };

  template <class Context, class Optimizer, class T>
  GPIPE_OUT_OF_LINE static void apply(context_handle handle, const void* optimizer, const update_range& range,
                                      const update_terms& terms) {
    const auto& rule = *static_cast<const Optimizer*>(optimizer);
    const Context& c = handle.as<Context>();
    if constexpr (tensor_rule<Optimizer>) {
      rule.update(c, tensor_at<Optimizer, T>(range), terms);
    } else {
      update_operands<T> operands{
          reinterpret_cast<T*>(range.parameters), reinterpret_cast<const T*>(range.gradients), {}};
      for (int i = 0; i < Optimizer::moments; ++i) operands.moment[i] = reinterpret_cast<T*>(range.moments[i]);
      each_parameter<Optimizer>(c, static_cast<std::ptrdiff_t>(range.bytes / sizeof(T)),
                                rule.template rule<T>(operands, terms));
    }
  }

  // A rule that is marked `elementwise` may be called with other arrays.
  template <class Optimizer, class Context, class Rule>
  static void each_parameter(const Context& c, std::ptrdiff_t n, const Rule& rule) {
    if constexpr (requires {
                    requires Rule::elementwise;
                    c.template each_parameter<Optimizer::moments>(n, rule);
                  })
      c.template each_parameter<Optimizer::moments>(n, rule);
    else c.each(n, rule);
  }

  template <class Optimizer, class T>
  static tensor_operands<T> tensor_at(const update_range& range) {
    tensor_operands<T> operands{*range.extents, reinterpret_cast<T*>(range.parameters),
                                reinterpret_cast<const T*>(range.gradients)};
    for (int i = 0; i < Optimizer::moments; ++i) operands.moment[i] = reinterpret_cast<T*>(range.moments[i]);
    std::byte* position = range.arrays;
    for (int k = 0; k < Optimizer::arrays; ++k) {
      const std::size_t size = Optimizer::array(operands.extents, k).extents.size();
      if (size > 0) operands.array[k] = reinterpret_cast<T*>(position);
      position += aligned(size * sizeof(T));
    }
    operands.sums = reinterpret_cast<double*>(position);
    return operands;
  }

  template <class Optimizer>
  GPIPE_COLD static std::shared_ptr<const void> with_decay(const void* optimizer, double decay) {
    Optimizer changed = *static_cast<const Optimizer*>(optimizer);
    if constexpr (requires { changed.weight_decay = decay; }) {
      changed.weight_decay = decay;
      return std::make_shared<const Optimizer>(changed);
    } else {
      throw_error({"a group's weight_decay is ", significant(decay, 6), ", but the optimizer has no weight decay"},
                  {"leave it out, or add a member `double weight_decay` to the optimizer"});
    }
  }

  template <class Optimizer>
  GPIPE_COLD static double trial_of(const Optimizer& optimizer) {
    double parameter[4] = {1, 0.5, -0.25, 2}, gradient[4] = {0.75, -0.5, 0.25, 1}, moments[max_moments][4]{};
    double result = 0;
    if constexpr (tensor_rule<Optimizer>) {
      const shape extents{2, 2};
      std::vector<double> arrays(tensor_memory_of<Optimizer>.bytes(extents, dtype::float64) / sizeof(double));
      update_range range{sizeof parameter, reinterpret_cast<std::byte*>(parameter),
                         reinterpret_cast<std::byte*>(gradient)};
      for (int i = 0; i < max_moments; ++i) range.moments[i] = reinterpret_cast<std::byte*>(moments[i]);
      range.extents = &extents;
      range.arrays = reinterpret_cast<std::byte*>(arrays.data());
      for (int step = 1; step <= 2; ++step, gradient[0] = -0.5)
        optimizer.update(trial_context<Optimizer>{}, tensor_at<Optimizer, double>(range), update_terms{step, 0.1, 1});
      for (const double x : arrays) result += x;
    } else {
      update_operands<double> operands{parameter, gradient, {}};
      for (int i = 0; i < Optimizer::moments; ++i) operands.moment[i] = moments[i];
      for (int step = 1; step <= 2; ++step, gradient[0] = -0.5)
        optimizer.template rule<double>(operands, {step, 0.1, 1})(0);
    }
    for (int i = 0; i < 4; ++i) {
      result += parameter[i];
      for (const auto& moment : moments) result += 3 * moment[i];
    }
    return result;
  }

  template <class Optimizer, class T>
  GPIPE_COLD static bool stays_finite(const void* optimizer, const update_terms& terms) {
    const auto& rule = *static_cast<const Optimizer*>(optimizer);
    T parameters[2] = {1, 1}, gradients[2] = {0, 1}, moments[max_moments][2]{};
    if constexpr (requires { Optimizer::first_moments[0]; })
      for (int i = 0; i < Optimizer::moments; ++i)
        for (T& x : moments[i]) x = static_cast<T>(Optimizer::first_moments[i]);
    if constexpr (tensor_rule<Optimizer>) {
      // A step allocates nothing.
      const shape extents{1, 2};
      alignas(alignment) std::byte arrays[64 * alignment]{};
      if (tensor_memory_of<Optimizer>.bytes(extents, dtype_of<T>) > sizeof arrays) return true;
      update_range range{sizeof parameters, reinterpret_cast<std::byte*>(parameters),
                         reinterpret_cast<std::byte*>(gradients)};
      for (int i = 0; i < max_moments; ++i) range.moments[i] = reinterpret_cast<std::byte*>(moments[i]);
      range.extents = &extents;
      range.arrays = arrays;
      rule.update(trial_context<Optimizer>{}, tensor_at<Optimizer, T>(range), terms);
    } else {
      update_operands<T> operands{parameters, gradients, {}};
      for (int i = 0; i < Optimizer::moments; ++i) operands.moment[i] = moments[i];
      const auto update = rule.template rule<T>(operands, terms);
      update(0);
      update(1);
    }
    return is_finite(parameters[0]) && is_finite(parameters[1]);
  }

  context_id context_;
  int moments_;
  const tensor_rule_memory* memory_;
  function floats_, doubles_;
  std::shared_ptr<const void> (*with_decay_)(const void*, double);
  bool (*finite_floats_)(const void*, const update_terms&);
  bool (*finite_doubles_)(const void*, const update_terms&);
  std::vector<variant> variants_;  // of each group, then of parameters in none
  std::array<double, std::size_t{max_moments}> first_{};
  double trial_;
  std::string_view name_;
};

}  // namespace detail

}  // namespace gpipe
