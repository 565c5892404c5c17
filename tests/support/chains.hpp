#pragma once

// Chains of blocks as in training, described for plans alone: most layers have no kernels.

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

namespace laws {

/// Three inputs side by side -> their mixture over tokens. Keeps its input and a row of weights for each head.
template <int Heads>
struct attention {
  template <class In>
  struct on;
  template <class T, int N, int W>
  struct on<tensor<T, N, W>> {
    using output = tensor<T, N, W / 3>;
    static constexpr keep keeps{.input = true};
    static constexpr buffer extras[] = {{"weights", std::size_t{Heads} * N* N, dtype_of<T>}};
    static constexpr work cost{.forward = 2 * N * N * W, .backward_input = 4 * N * N * W};
  };
};

template <int D>
struct attended : residual<layer_norm, linear<3 * D>, attention<4>, linear<D>, dropout<10>> {};
template <int D>
struct fed : residual<layer_norm, linear<4 * D>, gelu, linear<D>, dropout<10>> {};

/// Blocks of 12 layers.
template <int Blocks, int Tokens, int D, int Vocabulary>
struct transformer : model<input<float, Tokens, 4>, linear<D>, repeat<Blocks, attended<D>, fed<D>>, layer_norm,
                           linear<Vocabulary>, softmax_cross_entropy> {};

/// Down and up again, with a skip at each width: nested long skips.
template <int D>
struct u_net : model<input<float, D>, linear<D>, stash<"a">, relu, linear<D / 2>, stash<"b">, gelu, linear<D / 4>,
                     stash<"c">, relu, linear<D / 4>, pop<"c">, add, linear<D / 2>, pop<"b">, add, gelu, linear<D>,
                     pop<"a">, add, linear<10>, softmax_cross_entropy> {};

/// Layers that keep nothing, then layers that keep much.
template <int D>
struct uneven : model<input<float, D>, linear<D>, dropout<10>, dropout<20>, residual<dropout<10>, dropout<10>>,
                      linear<8 * D>, dropout<10>, gelu, linear<D / 2>, relu, linear<10>, softmax_cross_entropy> {};

}  // namespace laws
