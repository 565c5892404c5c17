#pragma once

// Layers with features that no shipped layer has: several tensors on an edge, integers among them, a loss that is not
// last. Their kernels are plain loops: the laws test when kernels run and where data lie.

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace laws {

using namespace gpipe;

template <class T, class F>
void loop(T count, F f) {
  for (T i = 0; i < count; ++i) f(i);
}

/// tensor<T, N> -> its two halves.
struct halve {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    static constexpr int H = N / 2;
    using output = bundle<tensor<T, H>, tensor<T, H>>;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        T* into = i % N < H ? a.template out<0>() : a.template out<1>();
        into[i / N * H + i % H] = a.in()[i];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        const T* from = i % N < H ? a.template out_gradient<0>() : a.template out_gradient<1>();
        a.in_gradient()[i] = from[i / N * H + i % H];
      });
    }
  };
};

/// (a, b) -> (b w, a + b), with a parameter w.
struct cross {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<bundle<tensor<T, N>, tensor<T, N>>> {
    using output = bundle<tensor<T, N>, tensor<T, N>>;
    static constexpr parameter parameters[] = {{"weight", {N}, initializer::uniform(2)}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.template out<0>()[i] = a.template in<1>()[i] * a.template parameter<0>()[i % N];
        a.template out<1>()[i] = a.template in<0>()[i] + a.template in<1>()[i];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        const T d0 = a.template out_gradient<0>()[i], d1 = a.template out_gradient<1>()[i];
        a.template in_gradient<0>()[i] = d1;
        a.template in_gradient<1>()[i] = d0 * a.template parameter<0>()[i % N] + d1;
      });
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.template gradient<0>()[i % N] += a.template out_gradient<0>()[i] * a.template in<1>()[i]; });
    }
  };
};

/// (a, b) -> a and b concatenated.
struct join {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<bundle<tensor<T, N>, tensor<T, N>>> {
    using output = tensor<T, 2 * N>;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * 2 * N, [&](int i) {
        const T* from = i % (2 * N) < N ? a.template in<0>() : a.template in<1>();
        a.out()[i] = from[i / (2 * N) * N + i % N];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * 2 * N, [&](int i) {
        T* into = i % (2 * N) < N ? a.template in_gradient<0>() : a.template in_gradient<1>();
        into[i / (2 * N) * N + i % N] = a.out_gradient()[i];
      });
    }
  };
};

/// Integers -> rows of a table: an edge without a gradient, into one with a gradient.
template <class T, int Rows, int N>
struct lookup {
  template <class In>
  struct on;
  template <int K>
  struct on<tensor<std::int32_t, K>> {
    using output = tensor<T, K * N>;
    static constexpr parameter parameters[] = {{"weight", {Rows, N}, initializer::normal(1)}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * K * N, [&](int i) { a.out()[i] = a.template parameter<0>()[a.in()[i / N] * N + i % N]; });
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * K * N,
           [&](int i) { a.template gradient<0>()[a.in()[i / N] * N + i % N] += a.out_gradient()[i]; });
    }
  };
};

/// Numbers -> 1 for each positive one, else 0: the gradient ends here.
struct signs {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<std::int32_t, N>;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i] > 0; });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.in_gradient()[i] = 0; });
    }
  };
};

/// Integers -> integers: a stage of this layer alone has no gradients.
struct next {
  template <class In>
  struct on;
  template <int N>
  struct on<tensor<std::int32_t, N>> {
    using output = tensor<std::int32_t, N>;
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i] + 1; });
    }
  };
};

/// Numbers -> the same numbers, and the index of the largest.
struct peak {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = bundle<tensor<T, N>, tensor<std::int32_t, 1>>;
    static void forward(const auto&, const auto& a) {
      loop(a.samples(), [&](int row) {
        int best = 0;
        loop(N, [&](int i) {
          const T x = a.template out<0>()[row * N + i] = a.in()[row * N + i];
          if (x > a.in()[row * N + best]) best = i;
        });
        a.template out<1>()[row] = best;
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.in_gradient()[i] = a.template out_gradient<0>()[i]; });
    }
  };
};

/// x (1 + k / 8) of numbers x and integers k, in either order.
struct scale {
  template <class T, int N, int K, int X>
  struct both {
    using output = tensor<T, N>;
    static constexpr keep keeps{.input = true};
    using number = compute_type<T>;
    static number factor(const auto& a, int i) {
      return number(1) + static_cast<number>(a.template in<1 - X>()[i / N * K + i % K]) / number(8);
    }
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.template in<X>()[i] * factor(a, i); });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) { a.template in_gradient<X>()[i] = a.out_gradient()[i] * factor(a, i); });
    }
  };
  template <class In>
  struct on;
  template <class T, int N, int K>
  struct on<bundle<tensor<T, N>, tensor<std::int32_t, K>>> : both<T, N, K, 0> {};
  template <class T, int N, int K>
  struct on<bundle<tensor<std::int32_t, K>, tensor<T, N>>> : both<T, N, K, 1> {};
};

/// Half the squared distance to the label's unit vector; passes its input on to later layers.
struct passing_loss {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    using number = compute_type<T>;
    static constexpr field fields[] = {{"labels", 1, dtype::int32, N}, {"weights", 1, dtype_of<number>, 0, true}};
    static constexpr partial partials[] = {"weight", "loss"};
    static constexpr keep keeps{.input = true};
    static number distance(const auto& a, int i) {
      return a.in()[i] - (i % N == a.template field<0, std::int32_t>()[i / N] ? number(1) : number(0));
    }
    static void forward(const auto&, const auto& a) {
      double weight = 0, loss = 0;
      const number* weights = a.template field<1, number>();
      loop(a.samples(), [&](int row) { weight += static_cast<double>(weights[row]); });
      loop(a.samples() * N, [&](int i) {
        a.out()[i] = a.in()[i];
        loss += static_cast<double>(weights[i / N] * distance(a, i) * distance(a, i)) / 2;
      });
      if (a.partials()) a.partials()[0] = weight, a.partials()[1] = loss;
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.in_gradient()[i] = a.template field<1, number>()[i / N] * distance(a, i) + a.out_gradient()[i];
      });
    }
  };
};

}  // namespace laws
