#pragma once

// A small network of two of AmoebaNet's cells, with a layer in them that fails on demand.

#include <atomic>
#include <cstddef>
#include <stdexcept>

#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

#include "support/nets.hpp"

namespace laws {

/// Selects the layer of `fragile` whose kernel throws, and in which pass.
struct cell_trap {
  std::atomic<int> layer_index{-1}, first_sample{0};
  std::atomic<action_kind> where{action_kind::idle};
};
inline cell_trap trap_in_cell;

/// y = w x, of a feature map. Its kernels may throw, once.
struct fragile {
  template <class In>
  struct on {
    using output = In;
    using T = typename In::value_type;
    static constexpr int size = static_cast<int>(In::size);
    static constexpr parameter parameters[] = {{"weight", {1}, initializer::ones()}};
    static constexpr keep keeps{.input = true};
    static void blow(action_kind where, const auto& a) {
      int layer = static_cast<int>(a.random().layer_index);
      if (trap_in_cell.where == where && static_cast<int>(a.random().first_sample) == trap_in_cell.first_sample &&
          trap_in_cell.layer_index.compare_exchange_strong(layer, -1))
        throw std::runtime_error("broken");
    }
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * size, [&](int i) { a.out()[i] = a.in()[i] * a.template parameter<0>()[0]; });
      blow(action_kind::forward, a);
    }
    static void backward_input(const auto&, const auto& a) {
      if (!a.in_gradient()) return;
      loop(a.samples() * size, [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template parameter<0>()[0]; });
      blow(action_kind::backward_input, a);
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * size, [&](int i) { a.template gradient<0>()[0] += a.out_gradient()[i] * a.in()[i]; });
      blow(action_kind::backward_parameters, a);
    }
  };
};

/// The operation of a cell's table: a maximum and the layer that may throw.
struct fragile_max_3x3 {
  template <int C, int S>
  using layers = sequence<gpipe::detail::amoebanet::max_3x3::layers<C, S>, fragile>;
};
using fragile_cells = gpipe::detail::amoebanet::cells_d<fragile_max_3x3>;

/// Images of 1 channel and 2 x 6 pixels; a reduction cell, a normal cell, and what is before and behind AmoebaNet's.
template <class T>
struct celled_net : model<input_image<T, 1, 2, 6>, gpipe::detail::amoebanet::relu_conv<4, 3, 1, 1>, stash<"x">,
                          pop<"x">, fragile_cells::reduction<4, false>, fragile_cells::normal<8, true>,
                          stash<"out", "">, only<pop<"out">>, global_average_pool, linear<7>, softmax_cross_entropy> {};

}  // namespace laws
