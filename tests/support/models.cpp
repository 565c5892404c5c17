#include "support/models.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/attended.hpp"
#include "support/imaged.hpp"
#include "support/nets.hpp"

namespace laws {

namespace {

/// The sign of each row's mean gradient, smoothed.
struct row_signs {
  double learning_rate = 0.01;
  static constexpr int moments = 0, arrays = 1;
  static constexpr tensor_array array(const tensor_extents& tensor, int) { return {"row", {tensor.extents[0]}}; }
  static constexpr std::size_t sums(const tensor_extents&) { return 0; }

  template <class T>
  struct step {
    tensor_operands<T> of;
    std::ptrdiff_t columns;
    T rate, scale;
    template <class Team>
    void operator()(std::ptrdiff_t row, const Team& team) const {
      const T* const g = of.gradient + row * columns;
      T* const p = of.parameter + row * columns;
      const T sum = team.sum(columns, [=](std::ptrdiff_t i) { return g[i]; });
      const T mean = of.array[0][row] = of.array[0][row] * T(0.5) + sum * scale / T(columns);
      team.each(columns, [=, this](std::ptrdiff_t i) { p[i] -= mean > 0 ? rate : -rate; });
    }
  };
  template <class C, class T>
  void update(const C& c, const tensor_operands<T>& of, const update_terms& now) const {
    const int rows = of.extents.extents[0];
    c.rows(rows, step<T>{of, static_cast<std::ptrdiff_t>(of.extents.size()) / rows, static_cast<T>(now.rate),
                         static_cast<T>(now.scale)});
  }
};

struct shared : model<input<float, 12>, gpipe::tied<"w", linear<12>>, gelu, gpipe::tied<"w", linear<12>>, linear<7>,
                      softmax_cross_entropy> {};
struct untied : model<input<float, 12>, linear<12>, gelu, linear<12>, linear<7>, softmax_cross_entropy> {};
struct residuals : model<input<float, 12>, linear<8>, gpipe::residual<layer_norm, linear<8>, gelu>, linear<7>,
                         softmax_cross_entropy> {};
struct skips : model<input<float, 12>, linear<8>, stash<"x">, layer_norm, linear<8>, gelu, pop<"x">, add, linear<7>,
                     softmax_cross_entropy> {};

struct channels : model<input<float, 12>, linear<24>, reshape<6, 4>, batch_norm<>, dropout<25>, gelu, linear<3>,
                        batch_norm<>, reshape<18>, linear<7>, softmax_cross_entropy> {};

struct rows : model<input<float, 12>, linear<2048>, reshape<512, 4>, linear<32>, gelu, reshape<16384>, linear<7>,
                    softmax_cross_entropy> {};

struct equals : model<input<float, 512>, repeat<8, linear<512, no_bias>>, softmax_cross_entropy> {};

// The data of all networks with such samples.
template <class T, int Rows, int Width = 12>
struct numbers {
  static const samples<T>& all() {
    static const samples<T> made(64, Width, Rows);
    return made;
  }
};
template <int Rows>
struct tokens {
  static const samples<float, std::int32_t>& all() {
    static const samples<float, std::int32_t> made(64, 3, Rows);
    return made;
  }
};
struct rows_of_tokens {
  static const token_samples<float>& all() {
    static const token_samples<float> made(64);
    return made;
  }
};

template <class Net, class Optimizer>
std::shared_ptr<basic_trainer> make(const plan_options& plan, double rate, const training_options& how) {
  Optimizer optimizer;
  if (rate >= 0) optimizer.learning_rate = rate;
  return std::make_shared<trainer<Net, Optimizer>>(plan, optimizer, how);
}

// change: an optimizer
template <class Net, class Data, class... Optimizers>
consteval test_model model_of() {
  test_model found{network_of<Net>,
                   [](int first, int count) { return Data::all().take(first, count); },
                   [](int count) {
                     const auto& data = Data::all();
                     const auto part = std::span(data.inputs).first(static_cast<std::size_t>(count * data.width));
                     return dataset{}.with("inputs", static_cast<std::size_t>(data.width), part);
                   },
                   {}};
  const auto add = [&]<class Optimizer>(rule which) {
    if constexpr ((std::is_same_v<Optimizer, Optimizers> || ...))
      found.makers[static_cast<int>(which)] = make<Net, Optimizer>;
  };
  add.template operator()<sgd>(rule::sgd);
  add.template operator()<adam>(rule::adam);
  add.template operator()<adamw>(rule::adamw);
  add.template operator()<rmsprop>(rule::rmsprop);
  add.template operator()<rmsprop_tf>(rule::rmsprop_tf);
  add.template operator()<lion>(rule::lion);
  add.template operator()<adafactor>(rule::adafactor);
  add.template operator()<adafactor_with_momentum>(rule::adafactor_with_momentum);
  add.template operator()<row_signs>(rule::row_signs);
  return found;
}

}  // namespace

namespace models {

constinit const test_model residual =
    model_of<residual_net<float>, numbers<float, 1>, adam, sgd, adafactor_with_momentum>();
constinit const test_model residual_double =
    model_of<residual_net<double>, numbers<double, 1>, sgd, adafactor_with_momentum>();
constinit const test_model residual_bf16 = model_of<residual_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model skip = model_of<skip_net<float>, numbers<float, 2>, adam>();
constinit const test_model skip_double = model_of<skip_net<double>, numbers<double, 2>, adam>();
constinit const test_model skip_bf16 = model_of<skip_net<bf16>, numbers<float, 2>, adam>();
constinit const test_model pair_double = model_of<pair_net<double>, numbers<double, 1>, adam>();
constinit const test_model pair_bf16 = model_of<pair_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model integer = model_of<integer_net<float>, tokens<1>, adam>();
constinit const test_model tied = model_of<tied_net<float>, numbers<float, 1>, sgd, adam, adamw, rmsprop, rmsprop_tf,
                                           lion, adafactor, adafactor_with_momentum, row_signs>();
constinit const test_model tied_bf16 = model_of<tied_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model headed = model_of<headed_net<float>, tokens<3>, adam>();
constinit const test_model sliced = model_of<sliced_net<float>, tokens<3>, adam, adafactor>();
constinit const test_model sliced_bf16 = model_of<sliced_net<bf16>, tokens<3>, adam>();
constinit const test_model losses = model_of<losses_net<float>, numbers<float, 1>, adam>();
constinit const test_model losses_bf16 = model_of<losses_net<bf16>, numbers<float, 1>, adam>();
constinit const test_model broad = model_of<broad_net<float>, numbers<float, 1>, adam>();
constinit const test_model attended = model_of<attended_net<float>, rows_of_tokens, adam>();
constinit const test_model attended_bf16 = model_of<attended_net<bf16>, rows_of_tokens, adam>();
constinit const test_model image = model_of<image_net<float>, numbers<float, 1>, adam>();
constinit const test_model image_double = model_of<image_net<double>, numbers<double, 1>, adam>();

constinit const test_model shared_layer = model_of<shared, numbers<float, 1>, sgd>();
constinit const test_model two_layers = model_of<untied, numbers<float, 1>, sgd>();
constinit const test_model written_residual = model_of<residuals, numbers<float, 1>, adam>();
constinit const test_model written_skip = model_of<skips, numbers<float, 1>, adam>();
constinit const test_model long_rows = model_of<rows, numbers<float, 1>, adam>();
constinit const test_model equal_layers = model_of<equals, numbers<float, 1, 512>, adam>();
constinit const test_model digits = model_of<digits_net, numbers<float, 1, 64>, adam>();
constinit const test_model broad_image = model_of<broad_image_net<float>, numbers<float, 1, 64>, adam>();
constinit const test_model token = model_of<token_net<float>, tokens<1>, adam>();
constinit const test_model batch_norms = model_of<channels, numbers<float, 1>, adam>();

}  // namespace models
}  // namespace laws
