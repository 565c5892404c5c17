#include <gpipe/cuda/kernels/convolution_bf16.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/cuda/cuda.hpp>

#include "support/larger_error.hpp"
#include "support/on_gpu.hpp"

namespace tensor_convolution {

using namespace gpipe;

namespace {

using values = std::vector<bf16>;
using numbers = std::vector<float>;

template <class T>
std::vector<T> drawn(std::ptrdiff_t size, std::uint32_t stream) {
  std::vector<T> found(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i] = T(2 * uniform(draw({.layer_index = stream}, 1, static_cast<std::uint32_t>(i)).word[0]) - 1);
  return found;
}

std::ptrdiff_t size_of_x(const convolution_shape& s) {
  return std::ptrdiff_t{s.samples} * s.in_height * s.in_width * s.in_channels;
}
std::ptrdiff_t size_of_y(const convolution_shape& s) {
  return std::ptrdiff_t{s.samples} * s.out_height() * s.out_width() * s.out_channels;
}

/// Operands. The weight is float, and its packed copies are rounded, so its values are those of bf16.
struct problem {
  convolution_shape shape;
  values x, dy;
  numbers weight, bias;
  bool biased = true;

  explicit problem(const convolution_shape& s)
      : shape(s),
        x(drawn<bf16>(size_of_x(s), 1)),
        dy(drawn<bf16>(size_of_y(s), 2)),
        bias(drawn<float>(s.out_channels, 4)) {
    for (const bf16 w : drawn<bf16>(static_cast<std::ptrdiff_t>(s.weight_size()), 3)) weight.push_back(float(w));
  }
  /// Makes the terms of each inner pixel's sum cancel, channels with those of the other half: the rounding of the sums,
  /// and so their order, is all that remains of a result.
  void cancel() {
    const auto repeat = [](values& map, int channels) {
      for (std::size_t i = 0; i < map.size(); ++i)
        if (i % std::size_t(channels) >= std::size_t(channels / 2)) map[i] = map[i - std::size_t(channels / 2)];
    };
    repeat(x, shape.in_channels), repeat(dy, shape.out_channels);
    const std::size_t C = std::size_t(shape.in_channels), K = std::size_t(shape.out_channels);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      if (i % K >= K / 2) weight[i] = -weight[i - K / 2];
      if (i / K % C >= C / 2) weight[i] = -weight[i - C / 2 * K];
    }
    for (float& b : bias) b = 0;
  }
  void drop_bias() {
    for (float& b : bias) b = 0;
    biased = false;
  }
  /// One sample alone.
  problem sample(int n) const {
    problem one = *this;
    one.shape.samples = 1;
    const auto part = [&](const values& all) {
      const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(all.size()) / shape.samples;
      return values(all.begin() + n * size, all.begin() + (n + 1) * size);
    };
    one.x = part(x), one.dy = part(dy);
    return one;
  }
};

struct results {
  values y, dx;
  numbers dw;
};

/// Elements that begin `offset` elements behind what is aligned.
class placed {
 public:
  placed(const gpipe::cuda::context& there, const values& from, std::size_t offset)
      : offset_(offset), memory_(there, moved(from, offset)) {}
  operator bf16*() const { return memory_.data() + offset_; }
  values back() const {
    const values all = memory_.back();
    return {all.begin() + static_cast<std::ptrdiff_t>(offset_), all.end()};
  }

 private:
  static values moved(values from, std::size_t offset) {
    from.insert(from.begin(), offset, bf16(NAN));
    return from;
  }
  std::size_t offset_;
  on_gpu<bf16> memory_;
};

results run(const problem& p, std::size_t offset = 0) {
  const gpipe::cuda::context there;
  const convolution_shape& s = p.shape;
  there.prepare_convolution<bf16>(s);
  const values no_weight(p.weight.size(), bf16(NAN));
  const placed x(there, p.x, offset), dy(there, p.dy, offset), packed(there, no_weight, 0), turned(there, no_weight, 0),
      y(there, values(p.dy.size(), bf16(NAN)), offset), dx(there, values(p.x.size(), bf16(NAN)), offset);
  const on_gpu<float> weight(there, p.weight), bias(there, p.bias), dw(there, p.weight);
  there.pack_convolution<bf16>(s, weight, packed);
  there.pack_convolution_backward<bf16>(s, weight, turned);
  const float* const added = bias;
  there.convolve<bf16>(s, x, packed, p.biased ? added : nullptr, y);
  there.convolve_backward_input<bf16>(s, dy, turned, dx);
  there.convolve_backward_weight<bf16>(s, x, dy, dw);
  return {y.back(), dx.back(), dw.back()};
}

/// The formulas in double, and the sums of the sizes of their terms.
struct formulas {
  struct sum {
    double value = 0, size = 0;
    void add(double term) { value += term, size += std::fabs(term); }
  };
  std::vector<sum> y, dx, dw;  ///< dw: added to the weight

  explicit formulas(const problem& p) : y(p.dy.size()), dx(p.x.size()), dw(p.weight.size()) {
    const convolution_shape& s = p.shape;
    const int height = s.out_height(), width = s.out_width(), C = s.in_channels, K = s.out_channels;
    const auto at = [](int n, int row, int column, int rows, int columns, int channels) {
      return ((std::size_t(n) * std::size_t(rows) + std::size_t(row)) * std::size_t(columns) + std::size_t(column)) *
             std::size_t(channels);
    };
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i].add(p.weight[i]);
    for (int n = 0; n < s.samples; ++n)
      for (int t = 0; t < height; ++t)
        for (int u = 0; u < width; ++u) {
          const std::size_t to = at(n, t, u, height, width, K);
          for (std::size_t k = 0; k < std::size_t(K); ++k) y[to + k].add(p.bias[k]);
          for (int i = 0; i < s.kernel_height; ++i)
            for (int j = 0; j < s.kernel_width; ++j) {
              const int row = t * s.stride_height - s.padding_height + i * s.dilation_height;
              const int column = u * s.stride_width - s.padding_width + j * s.dilation_width;
              if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
              const std::size_t from = at(n, row, column, s.in_height, s.in_width, C);
              const std::size_t tap = std::size_t(i * s.kernel_width + j) * std::size_t(C);
              for (std::size_t c = 0; c < std::size_t(C); ++c)
                for (std::size_t k = 0; k < std::size_t(K); ++k) {
                  const double w = p.weight[(tap + c) * std::size_t(K) + k];
                  y[to + k].add(w * double(p.x[from + c]));
                  dx[from + c].add(w * double(p.dy[to + k]));
                  dw[(tap + c) * std::size_t(K) + k].add(double(p.x[from + c]) * double(p.dy[to + k]));
                }
            }
        }
  }
};

/// The largest difference in parts of the sum of the terms' sizes: float's sums, and one rounding to bf16.
template <class T>
double worst(const std::vector<T>& got, const std::vector<formulas::sum>& want) {
  double found = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(double(got[i]) - want[i].value);
    const double allowed =
        std::is_same_v<T, bf16> ? 0x1p-8 * std::fabs(want[i].value) + 0x1p-20 * want[i].size : 0x1p-20 * want[i].size;
    found = larger_error(found, difference == 0 ? 0 : difference / allowed);
  }
  return found;
}

void check_results(const problem& p, const results& r) {
  const formulas want(p);
  CHECK(worst(r.y, want.y) <= 1);
  CHECK(worst(r.dx, want.dx) <= 1);
  CHECK(worst(r.dw, want.dw) <= 1);
}

template <class T>
bool same_bits(const std::vector<T>& part, const std::vector<T>& all, int n) {
  return std::memcmp(part.data(), all.data() + static_cast<std::size_t>(n) * part.size(), part.size() * sizeof(T)) == 0;
}

const convolution_shape shapes[] = {
    {2, 16, 9, 7, 24, 3, 3, 1, 1, 1, 1},         // fewer terms than 64 in the last stage
    {1, 64, 5, 5, 72, 1, 1},                     // one stage, two tiles side by side
    {3, 24, 7, 9, 64, 3, 3, 2, 2, 1, 1},         // taps end in the middle of a stage
    {1, 72, 6, 5, 16, 2, 3, 1, 2, 0, 2, 2, 1},   // no square
    {2, 16, 17, 18, 24, 3, 3, 1, 1, 1, 1},       // a weight's gradient in parts
    {2, 16, 11, 10, 32, 3, 2, 3, 2, 4, 1, 2, 3}  // dilation beside stride, padding beyond the kernel
};

}  // namespace

TEST_CASE("convolutions of bf16 and their gradients are those of the formulas in double") {
  for (const convolution_shape& s : shapes) {
    CAPTURE(s.in_channels);
    CAPTURE(s.out_channels);
    CAPTURE(s.stride_height);
    CHECK(gpipe::cuda::detail::fits_tensor_cores(s));
    const problem p(s);
    check_results(p, run(p));
  }
}

TEST_CASE("a 1 x 1 convolution of bf16 without a bias is a product, also of channels that no tile has") {
  for (const convolution_shape& s :
       {convolution_shape{2, 64, 9, 8, 72, 1, 1}, convolution_shape{3, 13, 5, 7, 6, 1, 1}}) {
    CAPTURE(s.in_channels);
    problem p(s);
    p.drop_bias();
    check_results(p, run(p));
  }
}

TEST_CASE("images that are too large for the kernels' integers take the plain kernels") {
  using gpipe::cuda::detail::fits_tensor_cores;
  CHECK(fits_tensor_cores({1, 64, 4000, 4000, 64, 3, 3, 1, 1, 1, 1}));
  CHECK(!fits_tensor_cores({1, 64, 6000, 6000, 64, 3, 3, 1, 1, 1, 1}));     // an image
  CHECK(!fits_tensor_cores({256, 64, 1000, 1000, 64, 1000, 1000}));         // a block's pixels are in 128 of them
  CHECK(!fits_tensor_cores({3000, 16, 1000, 1000, 16, 3, 3, 1, 1, 1, 1}));  // their pixels
}

TEST_CASE("arrays that do not begin at 16 bytes take the plain kernels") {
  const problem p(shapes[0]);
  check_results(p, run(p, 1));
}

TEST_CASE("the bits of a sample's convolution do not depend on the samples beside it") {
  for (const convolution_shape& s : {convolution_shape{3, 64, 5, 5, 64, 3, 3, 1, 1, 1, 1}, shapes[2]}) {
    CAPTURE(s.in_channels);
    problem all(s);
    all.cancel();
    const results of_all = run(all);
    for (int n = 0; n < s.samples; ++n) {
      CAPTURE(n);
      const results alone = run(all.sample(n));
      CHECK(same_bits(alone.y, of_all.y, n));
      CHECK(same_bits(alone.dx, of_all.dx, n));
    }
  }
}

}  // namespace tensor_convolution
