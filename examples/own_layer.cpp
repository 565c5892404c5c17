// A layer of your own: one struct in one file. This one scales each feature by a learned number (as in "Going deeper
// with image transformers", Touvron et al., 2021). Below it stand a pointwise layer, a block composed of layers, which
// needs no backward by hand, the gradient checks, and a training that uses all three.

#include <gpipe.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>

#include <iostream>

using namespace gpipe;

struct scale {
  template <class In>
  struct on;  // an input without an overload here is a compile error that says so

  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    using number = compute_type<T>;  // the type of parameters and sums: float if T is bf16
    static constexpr parameter parameters[] = {{"gain", {N}, initializer::ones()}};
    static constexpr keep keeps{.input = true};  // backward reads the input again
    static constexpr work cost{
        .forward = N, .backward_input = N, .backward_parameters = 2 * N, .bytes = 2 * N * sizeof(T)};

    // Functors with raw pointers instead of lambdas, so that the same text runs on other devices.
    struct product {
      const T* x;
      const number* gain;
      T* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i] * gain[i % N]; }
    };
    struct contribution {
      view<const T, N> x, dy;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t sample, std::ptrdiff_t j) const {
        return x(sample, j) * dy(sample, j);
      }
    };

    static void forward(const auto& context, const auto& a) {
      context.each(a.samples() * N, product{a.in(), a.template parameter<0>(), a.out()});
    }
    static void backward_input(const auto& context, const auto& a) {
      context.each(a.samples() * N, product{a.out_gradient(), a.template parameter<0>(), a.in_gradient()});
    }
    static void backward_parameters(const auto& context, const auto& a) {
      context.columns(a.samples(), N, contribution{{a.in()}, {a.out_gradient()}}, a.template gradient<0>());
    }
  };
};

// A function of one number is shorter.
struct softplus : pointwise<softplus> {
  template <class T>
  static T value(T x) {
    return math::log1p(math::exp(x));
  }
  template <class T>
  static T derivative(T x) {
    return math::sigmoid(x);
  }
};

// Composed of other layers: its backward is derived from theirs.
struct block : residual<layer_norm, linear<32>, softplus, linear<16>, scale> {};

struct net : model<input<float, 8>, linear<16>, repeat<3, block>, linear<2>, softmax_cross_entropy> {};

int main() {
  // The gradient check: against central differences, in double.
  const gradient_report of_scale = check_gradient<scale, tensor<double, 5>>();
  const gradient_report of_softplus = check_gradient<softplus, tensor<double, 3, 4>>();
  std::cout << "largest gradient error: scale " << of_scale.worst << ", softplus " << of_softplus.worst << '\n';
  if (!of_scale.passes() || !of_softplus.passes()) return 1;

  // The task: is the sum of the first four of eight numbers larger than the sum of the last four?
  std::vector<float> numbers(512 * 8);
  std::vector<std::int32_t> labels(512, 0);
  for (std::uint32_t i = 0; i < 512; ++i) {
    float difference = 0;
    for (std::uint32_t j = 0; j < 8; ++j) {
      numbers[8 * i + j] = uniform(draw({}, i, j).word[0]) - 0.5F;
      difference += j < 4 ? numbers[8 * i + j] : -numbers[8 * i + j];
    }
    labels[i] = difference > 0;
  }
  const auto data = dataset{}.with("inputs", 8, numbers).with("labels", 1, labels);

  trainer<net, adam> training{plan_options{.stages = 3, .micro_batches = 4, .micro_batch_size = 16},
                              adam{.learning_rate = 3e-3}};
  for (std::uint64_t epoch = 0; epoch < 30; ++epoch)
    for (const batch& part : data.shuffled(64, 1, epoch)) training.step(part);
  const step_result found = training.evaluate(data);
  std::cout << "loss " << found.loss << ", accuracy " << found.accuracy() << '\n';
  return found.accuracy() > 0.95 ? 0 : 1;
}
