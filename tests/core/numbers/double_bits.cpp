#include <gpipe/core/numbers/double_bits.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <typeinfo>

#include <gpipe/layer.hpp>

using namespace gpipe;

namespace {

struct plain {
  double x;
};
template <plain>
struct of_plain {};

/// Returns true if a floating-point number is part of a type: the Itanium ABI writes L, f, d or e, and its bits.
template <class T>
bool holds_floating_point() {
  const std::string name = typeid(T).name();
  for (std::size_t i = 0; i + 10 < name.size(); ++i)
    if (name[i] == 'L' && (name[i + 1] == 'd' || name[i + 1] == 'f' || name[i + 1] == 'e') &&
        name.find_first_not_of("0123456789abcdef", i + 2) >= i + 10)
      return true;
  return false;
}

constexpr double far_from_its_text = 10 * 1e-6;  // its shortest text is that of the next double
static_assert(far_from_its_text != 1e-5);

}  // namespace

TEST_CASE("a double becomes bits and the same double again") {
  for (const double x : {0.0, -0.0, 1.0, far_from_its_text, std::numeric_limits<double>::infinity()}) {
    CHECK(static_cast<double>(double_bits(x)) == x);
    CHECK(double_bits(x).bits == double_bits(static_cast<double>(double_bits(x))).bits);
  }
  static_assert(batch_statistics{.epsilon = far_from_its_text}.epsilon == far_from_its_text);
}

TEST_CASE("no type of a layer holds a floating-point number") {
  CHECK(holds_floating_point<of_plain<plain{0.5}>>());
  CHECK(!holds_floating_point<batch_norm<>::on<tensor<float, 4>>>());
  CHECK(!holds_floating_point<batch_norm_with<batch_statistics{.epsilon = 3 * 1e-6, .momentum = 0.3}>>());
  CHECK(!holds_floating_point<rms_norm::on<tensor<float, 4>>>());
  CHECK(!holds_floating_point<rms_norm_with<root_mean_square{.epsilon = 3 * 1e-6}>>());
  CHECK(!holds_floating_point<softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1 + 0.2, .clip = 0.3}>>());
  CHECK(!holds_floating_point<attention<attention_options{.heads = 2, .rotary = 100.1}>>());
  CHECK(!holds_floating_point<initialized<linear<4>, initializer::deviation(0.02)>>());
}

using gpipe::detail::is_finite;
using gpipe::detail::is_nan;

TEST_CASE_TEMPLATE("a number's bits tell whether it is finite, infinite or NaN", T, float, double) {
  using limits = std::numeric_limits<T>;
  for (const T x : {T{0}, -T{0}, T{1}, limits::denorm_min(), limits::min(), limits::max(), limits::lowest()}) {
    CHECK(is_finite(x));
    CHECK_FALSE(is_nan(x));
  }
  for (const T x : {limits::infinity(), -limits::infinity()}) {
    CHECK_FALSE(is_finite(x));
    CHECK_FALSE(is_nan(x));
  }
  for (const T x : {limits::quiet_NaN(), -limits::quiet_NaN(), limits::signaling_NaN()}) {
    CHECK_FALSE(is_finite(x));
    CHECK(is_nan(x));
  }
  static_assert(is_finite(T{1}) && is_nan(limits::quiet_NaN()));
}
