#pragma once

#include <cstddef>
#include <vector>

#include <gpipe/layer/contract/convolution_shape.hpp>

namespace laws {

/// A convolution by its formula, in double, and its gradients: nothing of it is shared with the kernels.
struct plain_convolution {
  gpipe::convolution_shape s;
  std::vector<double> x, w, b, dy;

  /// f(at y, at x, at w) of each product in the formula's sum.
  template <class F>
  void each(F f) const {
    const int OH = s.out_height(), OW = s.out_width(), Cg = s.group_in(), Kg = s.group_out();
    for (int n = 0; n < s.samples; ++n)
      for (int t = 0; t < OH; ++t)
        for (int u = 0; u < OW; ++u)
          for (int k = 0; k < s.out_channels; ++k)
            for (int i = 0; i < s.kernel_height; ++i)
              for (int j = 0; j < s.kernel_width; ++j) {
                const int row = t * s.stride_height - s.padding_height + i * s.dilation_height;
                const int column = u * s.stride_width - s.padding_width + j * s.dilation_width;
                if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
                for (int c = 0; c < Cg; ++c)
                  f(index(((n * OH + t) * OW + u) * s.out_channels + k),
                    index(((n * s.in_height + row) * s.in_width + column) * s.in_channels + k / Kg * Cg + c),
                    index(((i * s.kernel_width + j) * Cg + c) * s.out_channels + k));
              }
  }
  std::vector<double> forward() const {
    std::vector<double> y(dy.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = b.empty() ? 0 : b[i % b.size()];
    each([&](std::size_t to, std::size_t from, std::size_t by) { y[to] += x[from] * w[by]; });
    return y;
  }
  std::vector<double> backward_input() const {
    std::vector<double> dx(x.size());
    each([&](std::size_t to, std::size_t from, std::size_t by) { dx[from] += dy[to] * w[by]; });
    return dx;
  }
  std::vector<double> backward_weight() const {
    std::vector<double> dw(w.size());
    each([&](std::size_t to, std::size_t from, std::size_t by) { dw[by] += dy[to] * x[from]; });
    return dw;
  }

 private:
  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
};

}  // namespace laws
