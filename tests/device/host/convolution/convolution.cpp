// optimize: kernels

#include <gpipe/device/host/convolution/convolution.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/larger_error.hpp"
#include "support/plain_convolution.hpp"
#include "support/sanitized.hpp"

using namespace gpipe;

namespace {

// Shapes in the order samples, channels, height, width, out channels, kernel, stride, padding, dilation, groups.
const convolution_shape shapes[] = {
    {2, 3, 7, 9, 5, 3, 3},                           // no padding
    {2, 4, 8, 8, 6, 3, 3, 1, 1, 1, 1},               // the same size
    {1, 16, 14, 15, 70, 3, 3, 1, 1, 1, 1},           // more than a strip of channels
    {2, 70, 5, 6, 13, 3, 3, 1, 1, 1, 1},             // backward has more than a strip
    {3, 5, 9, 8, 7, 3, 3, 2, 2, 1, 1},               // every second pixel
    {1, 3, 11, 11, 8, 7, 7, 2, 2, 3, 3},             // a first layer
    {2, 6, 9, 7, 5, 3, 3, 3, 3, 0, 0},               // windows side by side
    {2, 8, 6, 6, 12, 1, 1},                          // products of pixels
    {1, 8, 20, 30, 40, 1, 1},                        // more pixels than a call has
    {2, 8, 7, 6, 12, 1, 1, 2, 2},                    // some pixels are not read
    {2, 4, 6, 10, 9, 1, 7, 1, 1, 0, 3},              // 1 x 7
    {2, 4, 10, 6, 9, 7, 1, 1, 1, 3, 0},              // 7 x 1
    {2, 4, 10, 6, 9, 7, 1, 2, 1, 3, 0},              //
    {1, 3, 12, 11, 4, 3, 3, 1, 1, 2, 2, 2, 2},       // dilated
    {1, 3, 13, 11, 4, 3, 3, 2, 2, 4, 3, 3, 2},       //
    {2, 6, 7, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1, 2},      // groups
    {1, 140, 4, 5, 160, 3, 3, 1, 1, 1, 1, 1, 1, 2},  //
    {2, 6, 7, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 6},      // a group for each channel
    {1, 45, 9, 8, 45, 3, 3, 2, 2, 1, 1, 1, 1, 45},   //
    {2, 3, 6, 5, 12, 3, 3, 1, 1, 1, 1, 1, 1, 3},     // several outputs of each channel
    {3, 5, 1, 1, 4, 3, 3, 1, 1, 1, 1},               // most taps see nothing
    {1, 2, 2, 2, 3, 3, 3, 1, 1, 3, 3},               // some pixels see nothing at all
    {1, 1, 5, 5, 1, 2, 2, 2, 2},                     // an edge that no window reaches
    {1, 2, 40, 5, 3, 3, 3, 1, 1, 1, 1},              // tall
    // Small images, of which several share a product.
    {11, 70, 4, 4, 68, 3, 3, 1, 1, 1, 1},           //
    {41, 5, 2, 2, 7, 3, 3, 1, 1, 1, 1},             // more samples than a product has
    {7, 12, 4, 4, 9, 3, 3, 2, 2, 1, 1},             //
    {7, 12, 8, 7, 9, 3, 3, 2, 2, 1, 1},             // pixels of x, of which some see fewer taps
    {6, 8, 4, 4, 5, 1, 1, 2, 2},                    // some pixels are not read
    {13, 20, 5, 3, 70, 1, 1},                       // rows of pixels
    {50, 33, 1, 1, 34, 1, 1},                       // more pixels than a product has
    {5, 10, 9, 11, 12, 3, 3, 1, 1, 1, 1},           // only the weight's gradient
    {9, 6, 3, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1, 2},     // groups
    {9, 45, 3, 3, 45, 3, 3, 1, 1, 1, 1, 1, 1, 45},  // a group for each channel
    {9, 4, 3, 3, 6, 3, 3, 1, 1, 2, 2, 2, 2},        // dilated
    // Large images of few channels: the gradient of the weight joins the taps of a row.
    {2, 3, 47, 50, 20, 7, 7, 2, 2, 3, 3},  // an image's first layer
    {1, 1, 30, 25, 18, 3, 5, 1, 1, 1, 2},  // one channel
    {2, 3, 22, 22, 16, 3, 3, 1, 1, 1, 1},  // one vector
    {1, 4, 150, 3, 9, 5, 5, 1, 1, 2, 2},   // no pixel sees all taps, so none are joined
    {2, 7, 17, 92, 12, 2, 4, 1, 3, 0, 1},  // the taps are no multiple of the stride
    // Wide ones, whose gradient of the weight packs its operands.
    {5, 70, 4, 4, 90, 3, 3, 1, 1, 1, 1},           // narrow last panel and strip
    {2, 34, 17, 19, 36, 3, 3, 1, 1, 1, 1},         // several chunks of a sample
    {3, 36, 9, 10, 150, 3, 3, 2, 2, 1, 1},         //
    {11, 96, 5, 6, 40, 1, 1, 2, 2},                // some pixels are not read
    {3, 65, 11, 7, 20, 1, 1},                      //
    {2, 80, 9, 8, 72, 2, 3, 1, 1, 0, 2, 1, 2, 2},  // dilated, in groups
    {31, 65, 2, 2, 20, 3, 3, 1, 1, 1, 1},          // many samples in a chunk
};

/// In (-0.8, 0.8), by a hash: sums of products of sines would cancel, and leave little but what was rounded.
double noise(int stream, std::size_t i) {
  std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(stream) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 30) * 0x94d049bb133111ebu;
  return (static_cast<double>((bits ^ bits >> 31) >> 11) * 0x1p-53 - 0.5) * 1.6;
}

template <class T>
std::vector<T> rounded(std::vector<double>& exact) {
  std::vector<T> narrow(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    narrow[i] = static_cast<T>(static_cast<compute_type<T>>(exact[i]));
    exact[i] = static_cast<double>(static_cast<compute_type<T>>(narrow[i]));
  }
  return narrow;
}

template <class T>
void compare(const std::vector<T>& got, const std::vector<double>& expected, double tolerance) {
  double largest = 1e-30, off = 0;
  for (const double it : expected) largest = (std::max)(largest, std::fabs(it));
  for (std::size_t i = 0; i < expected.size(); ++i)
    off = larger_error(off, std::fabs(static_cast<double>(static_cast<compute_type<T>>(got[i])) - expected[i]));
  CHECK(off <= tolerance * largest);
}

template <class Kernels, class T>
struct convolved {
  using number = compute_type<T>;
  laws::plain_convolution exact;
  std::vector<T> x, dy, packed, packed_backward;
  std::vector<number> w, b;
  std::vector<T> y, dx;
  std::vector<number> dw;

  explicit convolved(const convolution_shape& s, bool biased = true) : exact{s, {}, {}, {}, {}} {
    const auto in = static_cast<std::size_t>(s.samples * s.in_height * s.in_width * s.in_channels);
    const auto out = static_cast<std::size_t>(s.samples * s.out_height() * s.out_width() * s.out_channels);
    exact.x.resize(in), exact.w.resize(s.weight_size()), exact.dy.resize(out);
    exact.b.resize(biased ? static_cast<std::size_t>(s.out_channels) : 0);
    int stream = 0;
    for (auto* array : {&exact.x, &exact.w, &exact.b, &exact.dy}) {
      for (std::size_t i = 0; i < array->size(); ++i) (*array)[i] = noise(stream, i);
      ++stream;
    }
    x = rounded<T>(exact.x), dy = rounded<T>(exact.dy);
    const auto narrow = rounded<T>(exact.w);
    w.assign(narrow.begin(), narrow.end());
    b = rounded<number>(exact.b);
    packed.resize(convolution_packed_size(s)), packed_backward.resize(packed.size());
    const auto unwritten = std::numeric_limits<number>::quiet_NaN();
    y.assign(out, static_cast<T>(unwritten)), dx.assign(in, static_cast<T>(unwritten));
    dw.assign(w.size(), number(0.5));
    Kernels::template prepare<T>(s);
    Kernels::pack(s, w.data(), packed.data());
    Kernels::pack_backward(s, w.data(), packed_backward.data());
    run(s, 0);
  }
  /// All passes for the samples from `first` on.
  void run(const convolution_shape& s, int first) {
    const auto in = static_cast<std::ptrdiff_t>(first) * s.in_height * s.in_width * s.in_channels;
    const auto out = static_cast<std::ptrdiff_t>(first) * s.out_height() * s.out_width() * s.out_channels;
    Kernels::forward(s, x.data() + in, packed.data(), b.empty() ? nullptr : b.data(), y.data() + out);
    Kernels::backward_input(s, dy.data() + out, packed_backward.data(), dx.data() + in);
    Kernels::backward_weight(s, x.data() + in, dy.data() + out, dw.data());
  }
  /// The gradient of the weight, of samples in up to `max_gradient_group` arrays.
  void run_in_parts(const convolution_shape& s) {
    const int rows = (s.samples + max_gradient_group - 1) / max_gradient_group;
    row_parts<T> of_x{{}, rows}, of_dy = of_x;
    std::vector<std::vector<T>> copies;
    for (int part = 0; part * rows < s.samples; ++part)
      for (const auto& [all, parts] : {std::pair(&x, &of_x), std::pair(&dy, &of_dy)}) {
        const auto sample = all->size() / static_cast<std::size_t>(s.samples);
        const auto first = sample * static_cast<std::size_t>(part * rows);
        const auto end = (std::min)(all->size(), first + sample * static_cast<std::size_t>(rows));
        copies.emplace_back(all->begin() + static_cast<std::ptrdiff_t>(first),
                            all->begin() + static_cast<std::ptrdiff_t>(end));
        parts->part[part] = copies.back().data();
      }
    std::fill(dw.begin(), dw.end(), number(0.5));
    Kernels::backward_weight(s, of_x, of_dy, dw.data());
  }
};

template <class Kernels, class T>
void holds(double written, double summed) {
  for (std::size_t i = 0; i < std::size(shapes); ++i)
    for (const bool biased : {true, false}) {
      if (laws::sanitized && !biased && i % 4 != 0) continue;
      const convolution_shape& s = shapes[i];
      CAPTURE(i);
      CAPTURE(biased);
      convolved<Kernels, T> of(s, biased);
      compare(of.y, of.exact.forward(), written);
      compare(of.dx, of.exact.backward_input(), written);
      auto expected = of.exact.backward_weight();
      for (double& it : expected) it += 0.5;
      compare(of.dw, expected, summed);

      // One sample after the other gives the same bits.
      const auto y = of.y, dx = of.dx;
      const auto dw = of.dw;
      std::fill(of.dw.begin(), of.dw.end(), compute_type<T>(0.5));
      convolution_shape one = s;
      one.samples = 1;
      for (int n = 0; n < s.samples; ++n) of.run(one, n);
      CHECK(std::equal(y.begin(), y.end(), of.y.begin(), [](T a, T b) { return !(a < b) && !(b < a); }));
      CHECK(std::equal(dx.begin(), dx.end(), of.dx.begin(), [](T a, T b) { return !(a < b) && !(b < a); }));
      CHECK(dw == of.dw);

      // So do samples in several arrays.
      of.run_in_parts(s);
      CHECK(dw == of.dw);
    }
}

template <class Kernels>
void holds() {
  holds<Kernels, float>(3e-6, 3e-6);
  holds<Kernels, double>(1e-14, 1e-14);
  holds<Kernels, bf16>(0x1.01p-8, 3e-6);
}

}  // namespace

TEST_CASE("an error that is not a number is larger than every other, and stays so") {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  CHECK(larger_error(1, 2) == 2);
  CHECK(larger_error(2, 1) == 2);
  CHECK(std::isnan(larger_error(none, 1)));
  CHECK(std::isnan(larger_error(1, none)));
}

TEST_CASE("a convolution and its gradients are those of the formula") { holds<host::convolution>(); }

using portable = host::direct_convolution<host::portable_taps>;
TEST_CASE("so are those of the portable kernels" * doctest::skip(std::is_same_v<portable, host::convolution>)) {
  holds<portable>();
}

/// A convolution of random extents.
convolution_shape random_shape(std::uint32_t& state) {
  const auto random = [&](int first, int last) {
    state = state * 1664525u + 1013904223u;
    return first + static_cast<int>((state >> 8) % static_cast<unsigned>(last - first + 1));
  };
  for (;;) {
    const int groups = random(0, 5) == 0 ? random(2, 4) : 1, wide = random(0, 1) == 0 ? 12 : 100;
    convolution_shape s{random(1, 5),
                        groups * random(1, wide / groups),
                        random(1, 24),
                        random(1, 24),
                        groups * random(1, wide / groups),
                        random(1, 5),
                        random(1, 5),
                        random(1, 2),
                        random(1, 2),
                        random(0, 2),
                        random(0, 2),
                        random(1, 2),
                        random(1, 2),
                        groups};
    if (random(0, 9) == 0) s.in_width = random(200, 500), s.in_height = random(1, 4);
    if (s.padding_height < s.kernel_height && s.padding_width < s.kernel_width &&
        (s.kernel_height - 1) * s.dilation_height < s.in_height + 2 * s.padding_height &&
        (s.kernel_width - 1) * s.dilation_width < s.in_width + 2 * s.padding_width)
      return s;
  }
}

/// Both kinds of products give the same bits.
template <class T>
void kernels_do_not_matter(const convolution_shape& s) {
  const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), sizeof(T) * a.size()) == 0;
  };
  CAPTURE(s.samples);
  CAPTURE(s.in_channels);
  CAPTURE(s.in_height);
  CAPTURE(s.in_width);
  CAPTURE(s.out_channels);
  CAPTURE(s.kernel_height);
  CAPTURE(s.kernel_width);
  CAPTURE(s.groups);
  const bool biased = s.in_height % 2 == 0;
  const convolved<host::convolution, T> x(s, biased);
  const convolved<portable, T> y(s, biased);
  CHECK(same(x.y, y.y));
  CHECK(same(x.dx, y.dx));
  CHECK(same(x.dw, y.dw));
}

// Without fused multiply-add in the compiler's target, the portable kernels round twice.
TEST_CASE("convolutions have the bits of the portable kernels" *
          doctest::skip(std::is_same_v<portable, host::convolution> || GPIPE_HAS_FMA == 0)) {
  for (const convolution_shape& s : shapes) {
    kernels_do_not_matter<float>(s);
    kernels_do_not_matter<double>(s);
  }
  std::uint32_t state = 5;
  for (int i = 0; i < 200; ++i) {
    const convolution_shape s = random_shape(state);
    kernels_do_not_matter<float>(s);
    if (i % 8 == 0) kernels_do_not_matter<double>(s);
  }
}

TEST_CASE("a step of convolutions allocates nothing") {
  for (const convolution_shape& s : shapes) {
    convolved<host::convolution, float> of(s);
    const long before = allocations;
    of.run(s, 0);
    CHECK(allocations == before);
  }
}
