#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/numbers/dual.hpp>
#include <gpipe/layer/contract/elements.hpp>

namespace gpipe {

/// Whether a pointwise function has a formula for its derivative.
template <class Function, class T>
concept derives = requires(T x) {
  Function::derivative(x);
};

namespace broken {

template <class Function, bool Holds>
struct pointwise_has_value {
  static_assert(Holds, "gpipe: a pointwise function needs `template <class T> static T value(T x)`");
};

template <class Function, class T, bool Holds>
struct pointwise_value_takes_numbers {
  static_assert(Holds,
                "gpipe: the value of a pointwise function is called without an object, and for T, a float, a double or "
                "the math::dual that finds its derivative: `template <class T> static T value(T x)`");
};

}  // namespace broken

namespace detail {

/// Whether a template `value` is static, and whether a `value` that is no template takes a T.
template <class Function, class T>
constexpr bool value_takes() {
  if constexpr (requires { &Function::template value<T>; })
    return !std::is_member_pointer_v<decltype(&Function::template value<T>)>;
  else if constexpr (requires { &Function::value; }) return std::is_invocable_v<decltype(&Function::value), T>;
  else return true;
}

/// Whether a class has a member `value`, which makes the name ambiguous in `both`. (A call would compile the function
/// for numbers, too, and it may be one for `math::dual` alone.)
template <class Function>
class has_value {
  struct another {
    void value();
  };
  struct both : Function, another {};

 public:
  static constexpr bool holds = !requires { &both::value; };
};

}  // namespace detail

// change: a layer; of a function of one element
/// A layer that is a function of each element, in three lines:
///
///     struct softplus : gpipe::pointwise<softplus> {
///       template <class T> GPIPE_HOST_DEVICE static T value(T x) { return gpipe::math::log(1 + gpipe::math::exp(x)); }
///     };
///
/// The derivative is computed by the rules of `math::dual`, which T then is, so the function must call functions of
/// `gpipe::math`: exp, log, tanh, erf, sigmoid, sqrt, sin, cos, pow, abs, max, min. If you have a formula for the
/// derivative, add it, and T is then a float or a double:
///
///       template <class T> GPIPE_HOST_DEVICE static T derivative(T x) { return gpipe::math::sigmoid(x); }
///
/// The layer keeps its input and computes the derivative in backward. For bf16 the function's argument is a float.
template <class Function>
struct pointwise {
  template <class T>
  struct apply {
    using number = compute_type<T>;
    using dual = math::dual<number>;
    const T* x;
    T* y;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      if constexpr (derives<Function, number>) y[i] = Function::value(number(x[i]));
      else y[i] = dual(Function::value(dual(number(x[i])))).value;
    }
  };
  template <class T>
  struct chain {
    using number = compute_type<T>;
    using dual = math::dual<number>;
    const T *x, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      if constexpr (derives<Function, number>) dx[i] = dy[i] * Function::derivative(number(x[i]));
      else dx[i] = dy[i] * dual(Function::value(dual(number(x[i]), number(1)))).derivative;
    }
  };

  template <class T>
  using kind_for = detail::elements_kernels<pointwise, T, detail::kept_value::input>;

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 10, 10, 2> {
    static_assert(sizeof(broken::pointwise_has_value<Function, detail::has_value<Function>::holds>) > 0);
    using number = compute_type<typename In::value_type>;
    using argument = std::conditional_t<derives<Function, number>, number, math::dual<number>>;
    static_assert(
        sizeof(broken::pointwise_value_takes_numbers<Function, argument, detail::value_takes<Function, argument>()>) >
        0);
  };
};

namespace detail {

template <auto F>
struct called {
  template <class T>
  GPIPE_HOST_DEVICE static constexpr auto value(T x) {
    return F(x);
  }
};

}  // namespace detail

/// The same for an unnamed function object: `elementwise<[](auto x) { return x * gpipe::math::sigmoid(x); }>`. For
/// CUDA write a struct as above: a lambda's operator is not a device function.
template <auto F>
struct elementwise : pointwise<detail::called<F>> {};

/// A value and the derivative, for functions that share most of the work for both.
template <class T>
struct value_and_derivative {
  T value, derivative;
};

namespace detail {

/// The function in the types of kernels: a layer with a floating-point template argument names a type without one.
template <class Function>
struct function_of {
  using type = Function;
};
template <class Function>
requires requires { typename Function::as_function; }
struct function_of<Function> {
  using type = typename Function::as_function;
};

/// A function's value and its derivative, for a layer that applies a function among other things: `gated<silu>`.
template <class Function, class T>
GPIPE_HOST_DEVICE value_and_derivative<T> value_and_slope(T x) {
  if constexpr (requires { Function::both(x); }) {
    return Function::both(x);
  } else if constexpr (derives<Function, T>) {
    return {Function::value(x), Function::derivative(x)};
  } else {
    const math::dual<T> y(Function::value(math::dual<T>(x, T(1))));
    return {y.value, y.derivative};
  }
}

/// The same for a function whose derivative is known from its value y: `value(x)`, and `gradient(y, dy)` of x. Backward
/// reads the output. The costs are operations per element.
template <class Function, int Forward, int Backward>
struct pointwise_by_value {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    const T y = Function::value(x);
    return {y, Function::gradient(y, T(1))};
  }
  template <class T>
  struct apply {
    const T* x;
    T* y;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = Function::value(compute_type<T>(x[i])); }
  };
  template <class T>
  struct chain {
    const T *y, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      dx[i] = Function::gradient(compute_type<T>(y[i]), compute_type<T>(dy[i]));
    }
  };

  template <class T>
  using kind_for = elements_kernels<pointwise_by_value, T, kept_value::output>;

  template <class In>
  struct on;

  template <floating_tensor In>
  struct on<In> : layer_of_elements<on<In>, kind_for<typename In::value_type>, In, Forward, Backward, 2> {};
};

}  // namespace detail

/// The same for a function with `both(x)`: forward stores the derivative, and backward is one product per element.
template <class Function>
struct pointwise_stored {
  template <class T>
  struct apply {
    const T* x;
    T *y, *derivative;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      using number = compute_type<T>;
      const value_and_derivative<number> both = Function::both(number(x[i]));
      y[i] = both.value;
      derivative[i] = both.derivative;
    }
  };
  template <class T>
  struct chain {
    const T *derivative, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { dx[i] = dy[i] * derivative[i]; }
  };

  template <class T>
  using kind_for = detail::elements_kernels<pointwise_stored, T, detail::kept_value::derivative>;

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 20, 1, 3> {
    static constexpr buffer extras[] = {{"derivative", In::size, dtype_of<typename In::value_type>}};
  };
};

}  // namespace gpipe
