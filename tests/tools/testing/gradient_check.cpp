// optimize: kernels

#include <gpipe/tools/testing/gradient_check.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

namespace {

enum class fault {
  none,
  wrong_factor,       // in the input's gradient
  wrong_parameter,    // in the parameter's gradient
  assigns_parameter,  // instead of adding
  adds_to_input,      // instead of writing
  forgets_an_element,
  writes_beside,
  writes_other_samples,
  reads_other_samples,
  omits_an_output,
  needs_input_part,
  unsteady_forward,
  fused_differs,
};

/// y = w x^2, with a fault.
template <fault F>
struct square {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"gain", {N}, initializer::ones()}};
    static constexpr keep keeps{.input = true};

    static void forward(const auto&, const auto& a) {
      static int calls = 0;
      const T drift = F == fault::unsteady_forward ? T(1e-9) * T(++calls) : T(0);
      for (int i = F == fault::omits_an_output ? 1 : 0; i < a.samples() * N; ++i)
        a.out()[i] = a.template parameter<0>()[i % N] * a.in()[i] * a.in()[i] + drift;
      if (F == fault::reads_other_samples) a.out()[0] += 0 * a.in()[a.samples() * N];
      if (F == fault::writes_beside) a.out()[(a.samples() + 2) * N] = 0;
      if (F == fault::writes_other_samples) a.out()[a.samples() * N] = 0;
    }
    static void backward_input(const auto&, const auto& a) {
      T* into = a.in_gradient();
      if (!into) return;
      for (int i = 0; i < a.samples() * N - (F == fault::forgets_an_element ? 1 : 0); ++i) {
        const T factor = F == fault::wrong_factor ? T(2.0001) : T(2);
        const T g = factor * a.template parameter<0>()[i % N] * a.in()[i] * a.out_gradient()[i];
        into[i] = F == fault::adds_to_input ? into[i] + g : g;
      }
    }
    static void backward_parameters(const auto&, const auto& a) {
      if (F == fault::needs_input_part && !a.in_gradient()) return;
      if (F == fault::assigns_parameter)
        for (int j = 0; j < N; ++j) a.template gradient<0>()[j] = 0;
      for (int i = 0; i < a.samples() * N; ++i)
        a.template gradient<0>()[i % N] +=
            a.in()[i] * a.in()[i] * a.out_gradient()[i] * (F == fault::wrong_parameter && i == 1 ? T(0.999) : T(1));
    }
    static void backward(const auto& c, const auto& a) {
      backward_parameters(c, a);
      backward_input(c, a);
      if (F == fault::fused_differs) a.template gradient<0>()[0] *= T(1) + T(1e-15);
    }
  };
};

template <fault F>
gradient_report report() {
  return check_gradient<square<F>, tensor<double, 4>>();
}

bool names(const gradient_report& found, const std::string& text) {
  return found.where.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a correct layer passes") {
  const auto found = report<fault::none>();
  CHECK(found.passes());
  CHECK(found.worst < 1e-9);
}

TEST_CASE("each fault is detected and named") {
  const auto finds = [](const gradient_report& found, const std::string& text) {
    CAPTURE(text);
    CAPTURE(found.where);
    CHECK_FALSE(found.passes());
    CHECK(names(found, text));
  };
  finds(report<fault::wrong_factor>(), "input 0[");
  finds(report<fault::wrong_parameter>(), "gain[1]");
  finds(report<fault::assigns_parameter>(), "gain is overwritten instead of accumulated");
  finds(report<fault::adds_to_input>(), "input 0[0]");
  finds(report<fault::forgets_an_element>(), "input 0[11]");
  finds(report<fault::writes_beside>(), "outside of its buffer output 0");
  finds(report<fault::writes_other_samples>(), "samples beyond the micro-batch");
  finds(report<fault::reads_other_samples>(), "input 0[0]: ");
  finds(report<fault::omits_an_output>(), "a forward over other numbers gives different bits");
  finds(report<fault::needs_input_part>(), "the gradient of gain needs the input part of backward");
  finds(report<fault::unsteady_forward>(), "a second forward");
  finds(report<fault::fused_differs>(), "fused");
}

/// Two integers for each number, and two partials.
template <bool OmitsInteger, bool OmitsPartial>
struct count {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = bundle<tensor<T, N>, tensor<std::int32_t, N>>;
    static constexpr partial partials[] = {{"sum", 1}, {"largest", 1}};
    static void forward(const auto&, const auto& a) {
      for (int i = 0; i < a.samples() * N; ++i) {
        a.template out<0>()[i] = a.in()[i];
        if (!OmitsInteger || i > 0) a.template out<1>()[i] = 2 * i;
      }
      if (a.partials() == nullptr) return;
      a.partials()[0] = 1;
      if (!OmitsPartial) a.partials()[1] = 2;
    }
    static void backward_input(const auto&, const auto& a) {
      for (int i = 0; i < a.samples() * N; ++i) a.in_gradient()[i] = a.template out_gradient<0>()[i];
    }
  };
};

TEST_CASE("an integer or a partial that forward does not write is found") {
  CHECK(check_gradient<count<false, false>, tensor<double, 4>>().passes());
  const auto integer = check_gradient<count<true, false>, tensor<double, 4>>(),
             part = check_gradient<count<false, true>, tensor<double, 4>>();
  CHECK(integer.where == "a forward over other numbers gives different bits");
  CHECK(part.where == "a forward over other numbers, for partials, gives different bits");
}

TEST_CASE("a check of no samples is refused") {
  for (const int samples : {0, -1})
    CHECK_THROWS_WITH_AS((check_gradient<square<fault::none>, tensor<double, 4>>({.samples = samples})),
                         doctest::Contains("; choose at least 1"), error);
}

namespace {

/// y = w x, which reads copies of w: `Guarded`, refresh writes the one that is read next.
template <bool Guarded>
struct copied {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"gain", {N}, initializer::ones()}};
    static constexpr buffer derived[] = {buffer::for_forward("forward", N, dtype_of<T>),
                                         buffer::for_backward_input("backward", N, dtype_of<T>)};
    static constexpr keep keeps{.input = true};

    static void refresh(const auto&, const auto& a) noexcept {
      const T* w = a.template parameter<0>();
      for (int i = 0; i < N && (!Guarded || a.refreshes_for_backward_input()); ++i) a.template derived<1>()[i] = -w[i];
      for (int i = 0; i < N && (!Guarded || a.refreshes_for_forward()); ++i) a.template derived<0>()[i] = w[i];
    }
    static void forward(const auto&, const auto& a) {
      for (int i = 0; i < a.samples() * N; ++i) a.out()[i] = a.template derived<0>()[i % N] * a.in()[i];
    }
    static void backward_input(const auto&, const auto& a) {
      if (T* into = a.in_gradient())
        for (int i = 0; i < a.samples() * N; ++i) into[i] = -a.template derived<1>()[i % N] * a.out_gradient()[i];
    }
    static void backward_parameters(const auto&, const auto& a) {
      for (int i = 0; i < a.samples() * N; ++i) a.template gradient<0>()[i % N] += a.in()[i] * a.out_gradient()[i];
    }
  };
};

}  // namespace

TEST_CASE("refresh must not overwrite what another kernel reads in the same memory") {
  CHECK(check_gradient<copied<true>, tensor<double, 5>>().passes());
  CHECK(check_gradient<copied<false>, tensor<double, 5>>().where == "a kernel needs more than refresh writes for it");
}
