// A layer with a matrix product of its own: y = x W without a bias. Products read a packed copy of the weight, which
// `refresh` makes once a step, and `prepare` sets up the products before the first step.

#include <iostream>

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>

using namespace gpipe;

template <int N>
struct product {
  template <class In>
  struct on;

  template <class T, int K>
  struct on<tensor<T, K>> {
    using output = tensor<T, N>;
    using number = compute_type<T>;  // float if T is bf16
    static constexpr parameter parameters[] = {{"weight", {K, N}, initializer::uniform(K)}};
    static constexpr buffer derived[] = {{"forward", packed_size(K, N), dtype_of<T>},    // W, K x N
                                         {"backward", packed_size(N, K), dtype_of<T>}};  // W^T, N x K
    static constexpr keep keeps{.input = true};
    static constexpr work cost{.forward = 2 * K * N,
                               .backward_input = 2 * K * N,
                               .backward_parameters = 2 * K * N,
                               .bytes = (K + N) * sizeof(T)};

    // Called once: a product that is not prepared may be compiled in the first step.
    static void prepare(const auto& context, int samples) {
      context.template prepare_multiply<T>(samples, N, K);             // forward
      context.template prepare_multiply<T>(samples, K, N);             // backward_input
      context.template prepare_multiply_transposed<T>(K, N, samples);  // backward_parameters
    }

    // Called at the start, after every update and after a parameter is set: the only place that writes `derived`.
    static void refresh(const auto& context, const auto& a) noexcept {
      const number* weight = a.template parameter<0>();
      context.pack(K, N, weight, N, false, a.template derived<0>());  // K x N, its rows are N apart
      context.pack(N, K, weight, N, true, a.template derived<1>());   // its transpose is the source
    }

    static void forward(const auto& context, const auto& a) {  // y = x W
      const T* packed = a.template derived<0>();
      context.multiply(a.samples(), N, K, a.in(), packed, a.out(), false);
    }
    static void backward_input(const auto& context, const auto& a) {  // dx = dy W^T
      const T* packed = a.template derived<1>();
      context.multiply(a.samples(), K, N, a.out_gradient(), packed, a.in_gradient(), false);
    }
    static void backward_parameters(const auto& context, const auto& a) {  // dW += x^T dy
      context.multiply_transposed(K, N, a.samples(), a.in(), a.out_gradient(), a.template gradient<0>());
    }
  };
};

int main() {
  const gradient_report report = check_gradient<product<5>, tensor<double, 37>>();
  std::cout << "largest gradient error " << report.worst << ' ' << report.where << '\n';
  return report.passes() ? 0 : 1;
}
