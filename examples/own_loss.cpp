// A loss of your own, from start to end: the Huber loss of a regression (Huber, 1964). Small errors count as squares,
// large ones only linearly, so outliers do not dominate. The training fits a curve with outliers.

#include <gpipe.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

using namespace gpipe;

// With e = prediction - target, clamped to [-1, 1] in the gradient:
//
//     loss = weight (e^2 / 2 if |e| <= 1, else |e| - 1/2),    gradient = weight clamp(e)
struct robust_loss {
  template <class In>
  struct on;

  template <class T>
  struct on<tensor<T, 1>> {
    using output = bundle<>;         // a loss is the last layer: it has no output
    using number = compute_type<T>;  // float if T is bf16
    static constexpr field fields[] = {{"targets", 1, dtype_of<number>}, {"weights", 1, dtype_of<number>, 0, true}};
    static constexpr partial partials[] = {"loss", "weight", "absolute error"};
    static constexpr keep keeps{.input = true};
    static constexpr work cost{.forward = 4, .backward_input = 4, .bytes = 2 * sizeof(T)};

    // The error of a row. The functors below derive from it.
    struct errors {
      const T* prediction;
      const number *target, *weight;  // weight is null if the data have no "weights"
      GPIPE_HOST_DEVICE number weight_of(std::ptrdiff_t row) const { return weight ? weight[row] : number(1); }
      GPIPE_HOST_DEVICE number error(std::ptrdiff_t row) const { return number(prediction[row]) - target[row]; }
      GPIPE_HOST_DEVICE number size(std::ptrdiff_t row) const { return error(row) < 0 ? -error(row) : error(row); }
    };
    struct loss_of : errors {
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const {
        const number e = this->size(row);
        return this->weight_of(row) * (e <= 1 ? e * e / 2 : e - number(0.5));
      }
    };
    struct weight_at : errors {
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const { return this->weight_of(row); }
    };
    struct size_at : errors {
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row) const { return this->weight_of(row) * this->size(row); }
    };
    struct differentiate : errors {
      T* gradient;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row) const {
        const number e = this->error(row);
        gradient[row] = this->weight_of(row) * (e < -1 ? number(-1) : e > 1 ? number(1) : e);
      }
    };

    template <class A>
    static errors errors_of(const A& a) {
      return {a.in(), a.template field<0, number>(), a.template field<1, number>()};
    }
    static void forward(const auto& context, const auto& a) {
      double* const partial = a.partials();
      if (partial == nullptr) return;  // forward runs again for backward, and the loss is known already
      // Sums over samples; the library divides by the weight.
      context.sum_rows(a.samples(), loss_of{errors_of(a)}, partial);
      context.sum_rows(a.samples(), weight_at{errors_of(a)}, partial + 1);
      context.sum_rows(a.samples(), size_at{errors_of(a)}, partial + 2);
    }
    static void backward_input(const auto& context, const auto& a) {
      context.each(a.samples(), differentiate{errors_of(a), a.in_gradient()});
    }
  };
};

struct net : model<input<float, 1>, linear<32>, gelu, linear<32>, gelu, linear<1>, robust_loss> {};

int main() {
  const gradient_report check = check_gradient<robust_loss, tensor<double, 1>>();
  if (!check.passes()) {
    std::cerr << check.where << '\n';
    return 1;
  }

  // y = sin(3 x) for x in [-1, 1); every tenth sample is far off.
  std::vector<float> x(640), y(640);
  for (std::uint32_t i = 0; i < 640; ++i) {
    x[i] = 2 * uniform(draw({}, i, 0).word[0]) - 1;
    y[i] = std::sin(3 * x[i]) + (i % 10 == 0 ? 20.0F : 0.0F);
  }
  const auto data = dataset{}.with("inputs", 1, x).with("targets", 1, y);

  trainer<net, adam> training{plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 16},
                              adam{.learning_rate = 1e-2}};
  fit(training, data, fit_options{.epochs = 60, .batch = 64}, [](const fit_progress&) {});

  double off = 0;  // from the curve, without the outliers
  const tensor_rows rows = training.predict(data);
  for (int i = 0; i < data.samples(); ++i) off += std::abs(rows.of(i)[0] - std::sin(3 * x[static_cast<unsigned>(i)]));
  off /= data.samples();
  const step_result end = training.evaluate(data);
  std::cout << "loss " << end.loss << ", absolute error " << end.metric("absolute error") << ", off the curve by "
            << off << '\n';
  return off < 0.2 ? 0 : 1;
}
