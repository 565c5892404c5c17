#include <gpipe/cuda/kernels/vectors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/cuda/cuda.hpp>

#include "support/on_gpu.hpp"

using namespace gpipe;
using gpipe::detail::array_function;

namespace {

template <class T>
struct rows_of_arrays {
  using of_sum = compute_type<T>;
  const T* x;       ///< rows side by side
  const of_sum* w;  ///< a row
  T *sums, *doubled;
  of_sum *sum, *sum_of_both, *top;
  std::ptrdiff_t width;

  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const T* const from = x + row * width;
    T *const into = sums + row * width, *const in_place = doubled + row * width;
    const auto value = [](std::ptrdiff_t i, auto a) { return of_sum(a[i]); };
    const auto both = [](std::ptrdiff_t i, auto a, auto b) { return a[i] + b[i]; };
    const auto write = [](std::ptrdiff_t i, auto to, auto a, auto b) { to[i] = a[i] + b[i]; };
    const auto twice = [](std::ptrdiff_t i, auto to, auto a) { to[i] = 2 * of_sum(a[i]); };
    const of_sum of_value = team.sum(width, array_function{value, from});
    const of_sum of_both = team.sum(width, array_function{both, from, w});
    const of_sum again = team.sum(width, array_function{both, from, w});  // at once behind another one
    const of_sum largest = team.maximum(width, of_sum(-1000), array_function{value, from});
    team.each(width, array_function{write, into, from, w});
    team.each(width, array_function{twice, in_place, static_cast<const T*>(in_place)});
    team.each(1, [*this, row, of_value, of_both, again, largest](std::ptrdiff_t) {
      sum[row] = of_value, sum_of_both[row] = of_both < again || of_both > again ? of_sum(1e9) : of_both,
      top[row] = largest;
    });
  }
};
template <class T>
struct narrow_rows_of_arrays : rows_of_arrays<T> {
  std::ptrdiff_t row_width() const { return 1; }
};

struct rounding {
  const float* x;
  bf16* y;
  int width;
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t, const Team& team) const {
    const auto write = [](std::ptrdiff_t i, auto to, auto a) { to[i] = a[i]; };
    team.each(width, array_function{write, y, x});
  }
};

/// The order that vectors.hpp describes.
template <class Number, class G>
Number sum_in_order(int threads, int n, std::ptrdiff_t width, G g) {
  std::vector<Number> a(static_cast<std::size_t>(threads * n), Number(0));
  for (std::ptrdiff_t i = 0; i < width; ++i) a[static_cast<std::size_t>(i % (threads * n))] += g(i);
  const std::size_t of_warp = static_cast<std::size_t>(32 * n);
  for (std::size_t apart = 1; apart < of_warp; apart *= 2)
    for (std::size_t r = 0; r + apart < a.size(); r += 2 * apart) a[r] += a[r + apart];
  Number all = a[0];
  for (std::size_t w = of_warp; w < a.size(); w += of_warp) all += a[w];
  return all;
}

/// Numbers that no order adds up to the same.
template <class T>
std::vector<T> uneven(std::size_t size, int seed) {
  std::vector<T> found(size);
  for (std::size_t i = 0; i < size; ++i)
    found[i] = static_cast<compute_type<T>>(std::sin(0.7 * static_cast<double>(i) + seed) *
                                            std::exp2(static_cast<double>((i * 7919 + 13) % 17) - 8));
  return found;
}

template <class T, template <class> class Rows>
void check_rows(int threads, const std::vector<int>& widths) {
  using of_sum = compute_type<T>;
  constexpr int rows = 3, alone = 16 / sizeof(T), beside = 16 / sizeof(of_sum);  // elements of a vector
  const gpipe::cuda::context there;
  for (const int width : widths)
    for (const int of_x : {0, 1, 3, 8})
      for (const int of_w : {0, 1}) {  // elements before the arrays; 8 are aligned, and 1 is not
        CAPTURE(width);
        CAPTURE(of_x);
        CAPTURE(of_w);
        const auto size = static_cast<std::size_t>(rows * width);
        auto x = uneven<T>(size + of_x, 1);
        auto w = uneven<of_sum>(static_cast<std::size_t>(width + of_w), 2);
        if (size > 5) x[static_cast<std::size_t>(of_x) + 5] = std::numeric_limits<of_sum>::quiet_NaN();
        const on_gpu<T> x_(there, x), y(there, uneven<T>(size + of_x, 3)), z(there, uneven<T>(size + of_x, 4));
        const on_gpu<of_sum> w_(there, w), sum(there, std::vector<of_sum>(rows)),
            both(there, std::vector<of_sum>(rows)), top(there, std::vector<of_sum>(rows));
        there.rows(rows, Rows<T>{rows_of_arrays<T>{x_ + of_x, w_ + of_w, y + of_x, z + of_x, sum, both, top, width}});
        const auto sums = sum.back(), sums_of_both = both.back(), tops = top.back();
        auto written = uneven<T>(size + of_x, 3), doubled = uneven<T>(size + of_x, 4);
        int wrong = 0;
        for (int row = 0; row < rows; ++row) {
          const T* const from = x.data() + of_x + std::ptrdiff_t{row} * width;
          const of_sum* const by = w.data() + of_w;
          const auto differs = [](of_sum a, of_sum b) { return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : 1; };
          const auto r = static_cast<std::size_t>(row);
          wrong +=
              differs(sums[r], sum_in_order<of_sum>(threads, alone, width, [&](auto i) { return of_sum(from[i]); }));
          wrong += differs(sums_of_both[r], sum_in_order<of_sum>(threads, beside, width,
                                                                 [&](auto i) { return of_sum(from[i]) + by[i]; }));
          of_sum largest = -1000;
          for (int i = 0; i < width; ++i) {
            const std::size_t at =
                static_cast<std::size_t>(of_x) + r * static_cast<std::size_t>(width) + static_cast<std::size_t>(i);
            if (from[i] > largest) largest = from[i];
            written[at] = of_sum(from[i]) + by[i];
            doubled[at] = 2 * of_sum(doubled[at]);
          }
          wrong += differs(tops[r], largest);
        }
        CHECK(wrong == 0);
        const auto same = [](const std::vector<T>& got, const std::vector<T>& want) {
          int others = 0;
          for (std::size_t i = 0; i < want.size(); ++i)
            others += of_sum(got[i]) == of_sum(want[i]) || std::isnan(of_sum(want[i])) ? 0 : 1;
          return others == 0 && got.size() == want.size();
        };
        CHECK(same(y.back(), written));
        CHECK(same(z.back(), doubled));
      }
}

}  // namespace

TEST_CASE_TEMPLATE("a row of arrays gives the same bits wherever it begins", T, float, double, bf16) {
  check_rows<T, rows_of_arrays>(256, short_settings
                                         ? std::vector{1, 7, 9, 2049, 4099}
                                         : std::vector{1, 7, 8, 9, 255, 256, 257, 2047, 2048, 2049, 4099, 50257});
  check_rows<T, narrow_rows_of_arrays>(32, short_settings
                                               ? std::vector{1, 7, 8, 9, 257}
                                               : std::vector{1, 2, 7, 8, 9, 31, 33, 255, 256, 257, 1000, 1023, 1024});
}

TEST_CASE("numbers are rounded to bf16 as on the host") {
  const gpipe::cuda::context there;
  std::vector<float> from;
  for (const float x : {0.0F, -0.0F, 1.0F, 1.00390625F, 1.01171875F, 3.4e38F, -3.4e38F, 1e-40F, 1e-45F, 0x1.01p-130F,
                        0x1.03p-130F, 1.0F / 3})
    from.push_back(x), from.push_back(-x), from.push_back(std::nextafter(x, 2.0F));
  for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (int i = 0; i < 6; ++i) from.push_back(x);
  const auto width = static_cast<int>(from.size());
  REQUIRE(width % 8 == 0);
  const on_gpu<float> x(there, from);
  const on_gpu<bf16> y(there, std::vector<bf16>(from.size()));
  there.rows(1, rounding{x, y, width});
  const auto got = y.back();
  for (std::size_t i = 0; i < from.size(); ++i) {
    CAPTURE(from[i]);
    if (std::isnan(from[i])) CHECK(std::isnan(float(got[i])));
    else CHECK(got[i].bits == bf16(from[i]).bits);
  }
}
