#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/device/contract/kernels.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

namespace gpipe::detail {

/// Whether an item begins a decoder: `only<from<"targets", tensor<std::int32_t, N>>>`, after an encoder.
template <class Item>
inline constexpr bool begins_decoder = false;
template <class Item>
requires(requires {
  Item::alone::read_from;
  requires Item::alone::tensor::rank == 1;
}) inline constexpr bool begins_decoder<Item> = dtype_of<typename Item::alone::tensor::value_type> == dtype::int32
                                                && Item::alone::tensor::size > 1;

template <class Item>
inline constexpr bool has_decoder = begins_decoder<Item>;
template <class... Items>
inline constexpr bool has_decoder<list<Items...>> = (has_decoder<Items> || ...);
template <class Item>
requires requires { typename Item::items; }
inline constexpr bool has_decoder<Item> = has_decoder<typename Item::items>;

/// The same items with a decoder of one token. A `sequence`, a `named` and similar items keep their kind.
template <class Item>
struct with_one_token {
  using type = Item;
};
template <class... Items>
struct with_one_token<list<Items...>> {
  using type = list<typename with_one_token<Items>::type...>;
};
template <class Item>
requires(begins_decoder<Item>) struct with_one_token<Item> {
  struct one_token {
    static constexpr const char* read_from = Item::alone::read_from;
    using tensor = gpipe::tensor<std::int32_t, 1>;
  };
  struct type {
    using alone = one_token;
  };
};
template <class Item>
requires(has_decoder<Item>&& requires { typename Item::items; }) struct with_one_token<Item> {
  struct type : Item {
    using items = typename with_one_token<typename Item::items>::type;
  };
};

/// The model for sequences of one token; after an encoder, which reads all of its tokens, for targets of one token. It
/// has the model's layers and parameters.
template <class Model>
struct of_one_token {
  static constexpr bool encodes = has_decoder<typename Model::items>;
  using entering = std::conditional_t<encodes, typename Model::entering, tensor<std::int32_t, 1>>;
  using items = typename with_one_token<typename Model::items>::type;
};

/// How the layer of a row computes its output for one token from the earlier tokens.
template <class Context>
struct decode_row {
  void (*decode)(const Context&, const call&, int position) = nullptr;  ///< null: it reads only the one token
  void (*refresh)(context_handle, const call&) = nullptr;
  bool mixes_tokens = false;  ///< its output for a token depends on other tokens
  int kept_extras = 0;        ///< the number of its first extras, [tokens][...] each, that later tokens read
  int source_input = -1;      ///< of `decode`: the input that comes from an encoder, one for all samples; -1: none
  int counts_tokens = -1;     ///< the field with the number of valid tokens of its input, or of that one; -1: none
};
/// The same for a layer that reads one token: its kernels in the model of one token. A loss that makes the logits
/// computes only these.
template <class Context>
struct forward_row {
  void (*forward)(context_handle, const call&) = nullptr;
  void (*prepare)(context_handle, int samples, const layer_lists*) = nullptr;
};

/// Whether a layer whose kind has `decode` may use it.
template <class Bound>
inline constexpr bool decodes = true;
template <class Bound>
requires requires { Bound::on::decodes; }
inline constexpr bool decodes<Bound> = Bound::on::decodes;

/// `decode` of a layer or of a kind, over untyped calls.
template <class View, class Context>
struct decode_function {
  using body = kernels<typename View::on, Context>;
  using arguments = operands<View, pass::decode>;
  GPIPE_OUT_OF_LINE static void decode(const Context& c, const call& b, int position);
};
template <class View, class Context>
void decode_function<View, Context>::decode(const Context& c, const call& b, int position) {
  body::decode(c, arguments(b), position);
}

#if GPIPE_COMPILED && !(GPIPE_COMPILED_SOURCE & 1)
extern template struct decode_function<bound_kind<attention_kernels<float, false>>, host::context>;
extern template struct decode_function<bound_kind<learned_positions_kernels<float>>, host::context>;
#endif

template <class Context>
struct decode_entry {
  using row_type = decode_row<Context>;

  template <class Bound>
  static constexpr row_type row() {
    using view = kernel_view<Bound, Context>;
    using function = decode_function<view, Context>;
    using arguments = typename function::arguments;
    row_type k;
    if constexpr (decodes<Bound> &&
                  requires(const Context& c, const arguments& a) { function::body::decode(c, a, 0); }) {
      k.decode = &function::decode;
      k.kept_extras = Bound::on::kept_extras;
    }
    if constexpr (requires { Bound::on::mixes_tokens; }) k.mixes_tokens = Bound::on::mixes_tokens;
    if constexpr (requires { Bound::on::source_input; }) k.source_input = Bound::on::source_input;
    if constexpr (requires { Bound::on::counts_tokens; }) k.counts_tokens = Bound::on::counts_tokens;
    if constexpr (!Bound::derived.empty()) k.refresh = &kernel_functions<view, Context>::refresh;
    return k;
  }
};

template <class Context>
struct forward_entry {
  using row_type = forward_row<Context>;

  template <class Bound>
  static constexpr row_type row() {
    using view = kernel_view<Bound, Context>;
    using functions = kernel_functions<view, Context>;
    using kernels = kernels_in<view, Context>;
    row_type k;
    if constexpr (Bound::view) k.forward = &view_functions<Bound, Context>::forward;
    else if constexpr (Bound::predicted >= 0) k.forward = &functions::predict;
    else if constexpr (kernels::has_forward) k.forward = &functions::forward;
    if constexpr (kernels::has_prepare) k.prepare = &functions::prepare;
    return k;
  }
};

template <class Model, class Context>
inline constexpr auto decode_rows = tabulate_rows<Model, decode_entry<Context>>();
template <class Model, class Context>
inline constexpr auto forward_rows = tabulate_rows<of_one_token<Model>, forward_entry<Context>>();

}  // namespace gpipe::detail
