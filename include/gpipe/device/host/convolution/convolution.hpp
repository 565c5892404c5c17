#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/device/host/convolution/products.hpp>
#include <gpipe/device/host/convolution/weight_gradient.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/device/host/gemm/transpose.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Convolution as products of pixels' channels with the weight of each tap, without a copy of patches. A sample's bits
/// do not depend on the others, and the gradient of the weight is added up sample by sample. The plan of each shape and
/// pass is made once and kept for the life of the process; any thread may run it.
///
/// Weights are packed in strips of output channels (forward) or input channels (backward_input) of each group, so that
/// a product reads rows without gaps:
///
///     packed    [group][strip][tap][k][m of the strip]
template <class Products>
class direct_convolution {
 public:
  template <class T>
  GPIPE_COLD static void prepare(const convolution_shape& shape) {
    find<T, convolution_pass::forward>(shape);
    find<T, convolution_pass::backward_input>(shape);
    find<T, convolution_pass::backward_weight>(shape);
  }

  template <class T>
  GPIPE_OUT_OF_LINE static void pack(const convolution_shape& s, const compute_type<T>* weight, T* packed) {
    const int Kg = s.group_out(), Cg = s.group_in(),
              width = depthwise(s) ? s.out_channels : Products::template strip<T>;
    for (int group = 0; group < (depthwise(s) ? 1 : s.groups); ++group)
      for (int first = 0, channels = depthwise(s) ? s.out_channels : Kg; first < channels; first += width) {
        const int m = (std::min)(width, channels - first);
        const compute_type<T>* row = weight + group * Kg + first;
        for (int r = 0; r < s.taps() * Cg; ++r, row += s.out_channels, packed += m)
          for (int j = 0; j < m; ++j) packed[j] = row[j];
      }
  }

  template <class T>
  GPIPE_OUT_OF_LINE static void pack_backward(const convolution_shape& s, const compute_type<T>* weight, T* packed) {
    if (depthwise(s)) return pack(s, weight, packed);
    const int Kg = s.group_out(), Cg = s.group_in(), K = s.out_channels, width = Products::template strip<T>;
    constexpr int side = 32;  // of a square that stays in the cache
    for (int group = 0; group < s.groups; ++group)
      for (int first = 0; first < Cg; first += width) {
        const int m = (std::min)(width, Cg - first);
        for (int tap = 0; tap < s.taps(); ++tap, packed += std::ptrdiff_t{Kg} * m) {
          const compute_type<T>* source = weight + (std::ptrdiff_t{tap} * Cg + first) * K + group * Kg;
          for (int k = 0; k < Kg; k += side)
            for (int j = 0; j < m; j += side)
              transpose((std::min)(side, Kg - k), (std::min)(side, m - j), source + std::ptrdiff_t{j} * K + k, K,
                        packed + std::ptrdiff_t{k} * m + j, m);
        }
      }
  }

  /// y = x * w + bias; no bias if it is null.
  template <class T>
  GPIPE_OUT_OF_LINE static void forward(const convolution_shape& s, const T* x, const T* packed,
                                        const compute_type<T>* bias, T* y) {
    const std::ptrdiff_t in = std::ptrdiff_t{s.in_height} * s.in_width * s.in_channels;
    const std::ptrdiff_t out = std::ptrdiff_t{s.out_height()} * s.out_width() * s.out_channels;
    each_strip<T, convolution_pass::forward>(s, s.group_out(), [&](const auto& program, int group, int first, int m) {
      const int channel = group * s.group_out() + first;
      for (int n = 0, count; n < s.samples; n += count) {
        count = samples_of_call(program.plan(), s.samples - n);
        for (const auto& product : program.plan().products)
          run_pixels<T>(program, s, product, count, m, packed, x + n * in + std::ptrdiff_t{group} * s.group_in(),
                        bias == nullptr ? nullptr : bias + channel, y + n * out + channel + product.c);
      }
      packed += std::ptrdiff_t{s.taps()} * s.group_in() * m;
    });
  }

  /// The gradient of x, from the gradient of y.
  template <class T>
  GPIPE_OUT_OF_LINE static void backward_input(const convolution_shape& s, const T* dy, const T* packed, T* dx) {
    const std::ptrdiff_t in = std::ptrdiff_t{s.in_height} * s.in_width * s.in_channels;
    const std::ptrdiff_t out = std::ptrdiff_t{s.out_height()} * s.out_width() * s.out_channels;
    each_strip<T, convolution_pass::backward_input>(
        s, s.group_in(), [&](const auto& program, int group, int first, int m) {
          for (int n = 0, count; n < s.samples; n += count) {
            count = samples_of_call(program.plan(), s.samples - n);
            for (const auto& product : program.plan().products)
              run_pixels<T>(program, s, product, count, m, packed, dy + n * out + std::ptrdiff_t{group} * s.group_out(),
                            nullptr, dx + n * in + group * s.group_in() + first + product.c);
          }
          packed += std::ptrdiff_t{s.taps()} * s.group_out() * m;
        });
  }

  /// dw += the gradient of the weight.
  template <class T>
  static void backward_weight(const convolution_shape& s, const T* x, const T* dy, compute_type<T>* dw) {
    backward_weight(s, row_parts<T>{{x}, s.samples}, row_parts<T>{{dy}, s.samples}, dw);
  }
  /// The same, with the samples in several parts of x and of dy.
  template <class T>
  GPIPE_OUT_OF_LINE static void backward_weight(const convolution_shape& s, const row_parts<T>& x,
                                                const row_parts<T>& dy, compute_type<T>* dw) {
    if (const auto& packed = find<T, convolution_pass::backward_weight>(s).packed) return packed.add(s, x, dy, dw);
    const std::ptrdiff_t in = std::ptrdiff_t{s.in_height} * s.in_width * s.in_channels;
    const std::ptrdiff_t out = std::ptrdiff_t{s.out_height()} * s.out_width() * s.out_channels;
    each_strip<T, convolution_pass::backward_weight>(
        s, s.group_out(), [&](const auto& program, int group, int first, int m) {
          const int channel = group * s.group_out() + first;
          const convolution_plan& plan = program.plan();
          for (int n = 0; n < s.samples; n += plan.together)
            for (const auto& product : plan.products) {
              const T *a = sample(dy, n, out), *b = sample(x, n, in);
              sample_taps rows;
              for (int i = n; i < (std::min)(n + plan.together, s.samples); ++i)
                rows.add(plan.taps_of(product), bytes_between(a, sample(dy, i, out)),
                         bytes_between(b, sample(x, i, in)));
              a += channel + product.a, b += std::ptrdiff_t{group} * s.group_in() + product.b;
              if (depthwise(s)) depthwise_weight(product, rows.list(), m, a, b, dw + product.c);
              else program.run(product, 1, rows.list(), a, b, nullptr, dw + channel + product.c);
            }
        });
  }

 private:
  // Each channel is a group: products of single numbers, computed for all channels at once.
  static bool depthwise(const convolution_shape& s) { return s.group_in() == 1 && s.group_out() == 1; }

  template <class T, convolution_pass Pass>
  using program_of = typename Products::template program<T, Pass == convolution_pass::backward_weight>;

  struct not_packed {
    explicit not_packed(const convolution_shape&) {}
  };

  template <class T, convolution_pass Pass>
  struct entry {
    convolution_shape shape;
    program_of<T, Pass> whole, last;  ///< of a whole strip, and of the last one if it is narrower
    const entry* next;
    std::conditional_t<Pass == convolution_pass::backward_weight, packed_weight_gradient<T, Products>, not_packed>
        packed;
  };

  template <class T, convolution_pass Pass, class F>
  static void each_strip(const convolution_shape& s, int channels, F f) {
    const auto& known = find<T, Pass>(s);
    if (depthwise(s)) return f(known.whole, 0, 0, s.out_channels);
    constexpr int width = Products::template strip<T>;
    for (int group = 0; group < s.groups; ++group)
      for (int first = 0; first < channels; first += width)
        f(channels - first < width ? known.last : known.whole, group, first, (std::min)(width, channels - first));
  }

  template <class T, convolution_pass Pass>
  static const entry<T, Pass>& find(convolution_shape shape) {
    shape.samples = 0;
    static std::atomic<const entry<T, Pass>*> chains[256];
    auto& first = chains[bucket_of(shape)];
    for (const auto* e = first.load(std::memory_order_acquire); e != nullptr; e = e->next)
      if (e->shape == shape) return *e;
    return add<T, Pass>(shape, first);
  }

  template <class T, convolution_pass Pass>
  GPIPE_COLD static const entry<T, Pass>& add(const convolution_shape& shape,
                                              std::atomic<const entry<T, Pass>*>& first) {
    static std::mutex adding;
    const std::lock_guard lock{adding};
    for (const auto* e = first.load(); e != nullptr; e = e->next)  // another thread may have added it meanwhile
      if (e->shape == shape) return *e;
    const int channels = depthwise(shape)                           ? shape.out_channels
                         : Pass == convolution_pass::backward_input ? shape.group_in()
                                                                    : shape.group_out();
    const int width = depthwise(shape) ? channels : (std::min)(channels, Products::template strip<T>);
    const int last_width = channels % width == 0 ? width : channels % width;
    const auto program = [&](int m) {
      return program_of<T, Pass>(detail::plan_convolution(shape, Pass, m, static_cast<int>(sizeof(T))), m);
    };
    decltype(entry<T, Pass>::packed) packed(shape);
    const auto* made =  // never deleted, as kernels
        new entry<T, Pass>{shape, program(width), program(last_width), first.load(), std::move(packed)};
    first.store(made, std::memory_order_release);
    return *made;
  }

  static std::size_t bucket_of(const convolution_shape& s) {
    std::size_t mixed = 0;
    for (const int extent : {s.in_channels, s.in_height, s.in_width, s.out_channels, s.kernel_height, s.kernel_width,
                             s.stride_height, s.padding_height, s.groups})
      mixed = mixed * 31 + static_cast<unsigned>(extent);
    return (mixed ^ mixed >> 8) % 256;
  }

  // A power of two, for which there is a kernel.
  static int samples_of_call(const convolution_plan& plan, int left) {
    return (std::min)(plan.together, static_cast<int>(std::bit_floor(static_cast<unsigned>(left))));
  }

  template <class T>
  static const T* sample(const row_parts<T>& parts, int i, std::ptrdiff_t size) {
    return parts.part[i / parts.rows] + i % parts.rows * size;
  }

  // Parts are separate arrays, so a distance may be negative: it wraps around.
  template <class T>
  static unsigned long long bytes_between(const T* begin, const T* end) {
    return reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin);
  }

  // The taps of one product in several samples.
  class sample_taps {
   public:
    void add(const product_taps& more, unsigned long long a, unsigned long long b) {
      for (int i = 0; i < more.count; ++i, ++count_) a_[count_] = a + more.a[i], b_[count_] = b + more.b[i];
    }
    product_taps list() const { return {a_, b_, count_}; }

   private:
    unsigned long long a_[convolution_plan::max_pixels], b_[convolution_plan::max_pixels];
    int count_ = 0;
  };

  template <class T, class Program>
  static void run_pixels(const Program& program, const convolution_shape& s, const convolution_plan::product& product,
                         int samples, int m, const T* packed, const T* in, const compute_type<T>* row, T* c) {
    const auto taps = program.plan().taps_of(product);
    if (product.taps == 0) fill(product, samples, m, row, c);
    else if (depthwise(s)) depthwise_pixels(product, samples, taps, m, packed, in + product.b, row, c);
    else program.run(product, samples, taps, packed, in + product.b, row, c);
  }

  // Pixels that see no tap.
  template <class T>
  static void fill(const convolution_plan::product& product, int samples, int m, const compute_type<T>* row, T* c) {
    for (int i = 0; i < product.n * samples; ++i, c += product.c_stride)
      for (int j = 0; j < m; ++j) c[j] = row == nullptr ? T(0) : static_cast<T>(row[j]);
  }

  // The same operation in whole lanes and in the last ones.
  template <class T>
  static compute_type<T> product_plus(T a, T b, compute_type<T> sum) {
    return gpipe::detail::multiply_add(compute_type<T>(a), compute_type<T>(b), sum);
  }

  // y[pixel][channel] = sum over taps of x[pixel of the tap][channel] w[tap][channel]
  template <class T>
  GPIPE_OUT_OF_LINE static void depthwise_pixels(const convolution_plan::product& product, int samples,
                                                 const product_taps& taps, int channels, const T* weight, const T* x,
                                                 const compute_type<T>* row, T* y) {
    for (int i = 0; i < product.n * samples; ++i, x += product.b_stride, y += product.c_stride)
      for (int first = 0; first < channels; first += lanes) {
        const int count = (std::min)(lanes, channels - first);
        compute_type<T> sum[std::size_t{lanes}] = {};
        for (int j = 0; row != nullptr && j < count; ++j) sum[j] = row[first + j];
        for (int tap = 0; tap < taps.count; ++tap) {
          const T* w = detail::moved(weight, taps.a[tap]) + first;
          const T* input = detail::moved(x, taps.b[tap]) + first;
          for (int j = 0; j < count; ++j) sum[j] = product_plus<T>(input[j], w[j], sum[j]);
        }
        for (int j = 0; j < count; ++j) y[first + j] = static_cast<T>(sum[j]);
      }
  }

  // dw[channel] += sum over pixels of dy[pixel][channel] x[pixel][channel]
  template <class T>
  GPIPE_OUT_OF_LINE static void depthwise_weight(const convolution_plan::product& product, const product_taps& taps,
                                                 int channels, const T* dy, const T* x, compute_type<T>* dw) {
    for (int first = 0; first < channels; first += lanes) {
      const int count = (std::min)(lanes, channels - first);
      compute_type<T> sum[std::size_t{lanes}] = {};
      for (int j = 0; j < count; ++j) sum[j] = dw[first + j];
      for (int tap = 0; tap < taps.count; ++tap) {
        const T* a = detail::moved(dy, taps.a[tap]) + first;
        const T* b = detail::moved(x, taps.b[tap]) + first;
        for (int p = 0; p < product.k; ++p, a += product.a_stride, b += product.b_stride)
          for (int j = 0; j < count; ++j) sum[j] = product_plus<T>(a[j], b[j], sum[j]);
      }
      for (int j = 0; j < count; ++j) dw[first + j] = sum[j];
    }
  }

  static constexpr int lanes = 32;
};

/// The host's convolution: its products are libxsmm's if the build has it, else gpipe's own.
#if GPIPE_WITH_LIBXSMM
using convolution = direct_convolution<libxsmm_taps>;
#else
using convolution = direct_convolution<portable_taps>;
#endif

}  // namespace gpipe::host
