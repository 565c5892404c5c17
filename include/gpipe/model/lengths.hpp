#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <gpipe/core/included.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

namespace broken {

template <int>
struct length {};
template <class Tensor>
struct of_longest {};

template <bool Holds>
struct lengths_are_named {
  static_assert(Holds,
                "gpipe: lengths<net> names no length: write those of the plans behind the model, the shortest first, "
                "as in lengths<net, 16, 32, 64>");
};
template <bool Holds, int... Length>
struct lengths_ascend {
  static_assert(Holds,
                "gpipe: the lengths of lengths<net, ...> do not ascend from a positive number: write the "
                "shortest first, each once, as in lengths<net, 16, 32, 64>");
};
template <class Length, class Position, bool Holds>
struct lengths_have_the_same_layers {
  static_assert(Holds,
                "gpipe: lengths<net, ...>: at this position the model of a shorter length has another layer, or one "
                "with other fields, state or parameters, than the model of the longest: only the extents of its edges "
                "may depend on the length");
};
template <class Length, class Position, class Parameter, class Here, class Longest, bool Holds>
struct lengths_share_parameters {
  static_assert(Holds,
                "gpipe: lengths<net, ...>: a parameter has another shape in the model of a shorter length than in that "
                "of the longest, but all lengths share its array: give learned_positions the rows of the longest in "
                "every model, such as learned_positions<64>, and no other layer a weight that depends on the length");
};

}  // namespace broken

namespace detail {

template <int... Length>
constexpr bool ascend() {
  int before = 0;
  bool holds = true;
  ((holds = holds && Length > before, before = Length), ...);
  return holds;
}

/// The first parameter, or part of a layer's state, whose shape or type depends on the length.
struct length_mismatch {
  int layer_index = -1;  ///< -1: there is none
  std::string_view name{};
  typed_shape shape{}, longest{};
};

/// Whether two layers differ in more than the extents of their edges and the shapes of their arrays.
constexpr bool other_layer(const network& a, const network& b, int l) {
  const layer_type &x = a.type_of(l), &y = b.type_of(l);
  bool equal = x.inputs == y.inputs && x.outputs == y.outputs && x.parameter_count == y.parameter_count &&
               x.state_count == y.state_count && x.field_count == y.field_count &&
               x.partial_elements() == y.partial_elements() && x.partial_count == y.partial_count &&
               x.derived_count == y.derived_count && x.derived_bytes() <= y.derived_bytes() && x.loss == y.loss &&
               a.layers[l].tied == b.layers[l].tied;
  for (int f = 0; equal && f < x.field_count; ++f)
    equal = std::string_view(x.fields[f].name) == y.fields[f].name && x.fields[f].type == y.fields[f].type;
  for (int p = 0; equal && p < x.parameter_count; ++p)
    equal = std::string_view(x.parameters[p].name) == y.parameters[p].name && a.owner(l, p) == b.owner(l, p) &&
            a.owner_offset(l, p) == b.owner_offset(l, p);
  return !equal;
}
/// The first such layer; -1: there is none. If one model has more layers, the first that the other lacks.
constexpr int first_other_layer(const network& a, const network& b) {
  const int both = a.layer_count < b.layer_count ? a.layer_count : b.layer_count;
  for (int l = 0; l < both; ++l)
    if (other_layer(a, b, l)) return l;
  return a.layer_count != b.layer_count ? both : -1;
}
constexpr length_mismatch first_mismatch(const network& a, const network& b) {
  for (int l = 0; l < a.layer_count; ++l) {
    const layer_type &x = a.type_of(l), &y = b.type_of(l);
    const auto differs = [&](const parameter& p, const parameter& q) {
      return p.extents != q.extents || x.type != y.type;
    };
    for (int p = 0; p < x.parameter_count; ++p)
      if (differs(x.parameters[p], y.parameters[p]))
        return {l, x.parameters[p].name, {x.parameters[p].extents, x.type}, {y.parameters[p].extents, y.type}};
    for (int p = 0; p < x.state_count; ++p)
      if (differs(x.state[p], y.state[p]))
        return {l, x.state[p].name, {x.state[p].extents, x.type}, {y.state[p].extents, y.type}};
  }
  return {};
}

template <class Model, class Longest>
inline constexpr length_mismatch mismatch_of = first_mismatch(network_of<Model>, network_of<Longest>);

/// Whether the model of a shorter length can share the arrays of the longest's; else an error is printed.
template <class Model, class Longest, int Length>
constexpr bool shares_arrays() {
  if constexpr (mistaken_model<Model> || mistaken_model<Longest>) {
    return false;  // its own error is printed
  } else if constexpr (constexpr int layer = first_other_layer(network_of<Model>, network_of<Longest>); layer >= 0) {
    static_cast<void>(
        asserted<broken::lengths_have_the_same_layers<broken::length<Length>, broken::position<layer>, false>>{});
    return false;
  } else if constexpr (constexpr int changed = mismatch_of<Model, Longest>.layer_index; changed >= 0) {
    constexpr auto text = [] { return mismatch_of<Model, Longest>.name; };
    constexpr auto shape_here = [] { return mismatch_of<Model, Longest>.shape; };
    constexpr auto longest_shape = [] { return mismatch_of<Model, Longest>.longest; };
    using at = position_of<typename Model::items, changed>;
    using name = decltype(spelled<letters>(text));
    using here = decltype(labelled_tensor<broken::here>(shape_here));
    using longest = decltype(labelled_tensor<broken::of_longest>(longest_shape));
    static_cast<void>(
        asserted<broken::lengths_share_parameters<broken::length<Length>, at, name, here, longest, false>>{});
    return false;
  } else {
    return true;
  }
}

/// The layer types of a shorter length, whose derived buffers have as many bytes as the longest's, so that later arrays
/// begin at the same bytes.
template <class Model, class Longest>
constexpr auto types_beside() {
  constexpr const network &shorter = network_of<Model>, &longest = network_of<Longest>;
  std::array<layer_type, std::size_t{shorter.type_count + 1}> types{};
  for (int r = 0; r < shorter.type_count; ++r) types[static_cast<std::size_t>(r)] = shorter.types[r];
  for (int l = 0; l < shorter.layer_count; ++l)
    types[static_cast<std::size_t>(shorter.layers[l].type)].derived = longest.type_of(l).derived;
  return types;
}
template <class Model, class Longest>
inline constexpr auto types_beside_longest = types_beside<Model, Longest>();
template <class Model, class Longest>
constexpr network with_types_beside() {
  network net = network_of<Model>;
  net.types = types_beside_longest<Model, Longest>.data();
  return net;
}
/// The network of a shorter length in a training with the longest.
template <class Model, class Longest>
inline constexpr network network_beside = with_types_beside<Model, Longest>();

}  // namespace detail

// assumes: static shapes
/// One model for sequences of several lengths, whose plans share parameters, optimizer state and memory:
///
///     template <int Tokens>
///     using net = gpt2_with<4, 128, gpt2_options{.heads = 4, .tokens = Tokens, .vocabulary = 6000, .positions = 64}>;
///
///     trainer<lengths<net, 16, 32, 64>, adamw> training{plan_options{.micro_batch_size = 8}, adamw{}};
///
/// Each call runs the plan of its batch's rows. `.micro_batch_size` is for the longest length, 64 here; a plan of
/// T tokens holds as many tokens, so 64 / T times as many samples. Lengths ascend. Their models differ in the extents
/// of edges only: the compiler names the first layer whose parameters differ. `learned_positions` has the rows of the
/// longest in every model; shorter sequences use the first rows.
template <template <int> class Model, int... Length>
struct lengths {
  static_assert(sizeof(broken::lengths_ascend<detail::ascend<Length...>(), Length...>) > 0);

  static constexpr std::array<int, sizeof...(Length)> values{Length...};
  using longest = Model<values.back()>;
  static constexpr bool share = (detail::shares_arrays<Model<Length>, longest, Length>() && ...);

  /// The networks, [length].
  static constexpr auto networks() {
    if constexpr (share) return std::array{&detail::network_beside<Model<Length>, longest>...};
    else return std::array<const network*, 0>{};
  }
  /// Calls `visit.template operator()<Model>(i)` for the model of each length.
  template <class Visit>
  static constexpr void each(Visit&& visit) {
    std::size_t i = 0;
    if constexpr (share) (visit.template operator()<Model<Length>>(i++), ...);
  }
  /// [layer]: whether its derived buffers differ between the lengths.
  static constexpr auto derives_anew() {
    std::array<bool, std::size_t{network_of<longest>.layer_count + 1}> anew{};
    if constexpr (share)
      ((([&] {
         for (int l = 0; l < network_of<longest>.layer_count; ++l)
           if (network_of<Model<Length>>.type_of(l).derived_bytes() != network_of<longest>.type_of(l).derived_bytes())
             anew[static_cast<std::size_t>(l)] = true;
       })()),
       ...);
    return anew;
  }
};
template <template <int> class Model>
struct lengths<Model> {
  static_assert(sizeof(broken::lengths_are_named<sizeof(Model<1>*) == 0>) > 0);
  using longest = Model<1>;
};

namespace detail {

template <template <int> class Model, int... Length>
struct unwrapped<lengths<Model, Length...>> {
  using model = typename lengths<Model, Length...>::longest;
  static constexpr bool both = false;
};

}  // namespace detail

}  // namespace gpipe
