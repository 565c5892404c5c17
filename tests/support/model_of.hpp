#pragma once

// Makes a test_model of a network.

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

#include "support/models.hpp"
#include "support/nets.hpp"

namespace laws {

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

/// The data of all networks with such samples.
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
template <class Net, class Optimizer>
std::shared_ptr<basic_trainer> make_trainer(const plan_options& plan, double rate, const training_options& how) {
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
      found.makers[static_cast<int>(which)] = make_trainer<Net, Optimizer>;
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

}  // namespace laws
