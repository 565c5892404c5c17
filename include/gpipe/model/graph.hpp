#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <gpipe/core/error.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The maximum number of auxiliary losses of a model.
inline constexpr int max_auxiliary_losses = 3;
/// The name of a model's last loss, among its losses.
inline constexpr std::string_view main_loss = "main";

/// The named arrays of a layer: `parameters`, which are trained, or `state`.
enum class array_kind : std::uint8_t { parameter, state };

namespace detail {

/// A tensor of an edge as data: its elements per sample, and their type.
struct edge_part {
  std::size_t size = 0;
  dtype type = dtype::float32;

  constexpr std::size_t bytes(int samples) const {
    return aligned(size * bytes_of(type) * static_cast<std::size_t>(samples));
  }
};

/// A layer type bound to its input, as data: one for all layers that repeat it.
struct layer_type {
  std::string_view name;
  int inputs = 0, outputs = 0;
  edge_part in[max_tensors_per_edge], out[max_tensors_per_edge];
  shape out_extents[max_tensors_per_edge];  ///< of the tensors of the output, for display
  dtype type = dtype::float32;              ///< of the parameters
  dtype computes = dtype::float32;          ///< the type of its edges, in which it multiplies
  const parameter *parameters = nullptr, *state = nullptr;
  const buffer *derived = nullptr, *extras = nullptr, *backward_extras = nullptr;
  const buffer *forward_workspace = nullptr, *workspace = nullptr;
  const field* fields = nullptr;
  const partial* partials = nullptr;
  const layer_lists* lists = nullptr;  ///< for kernels that serve a kind of layers
  int parameter_count = 0, state_count = 0, derived_count = 0;
  int extra_count = 0, backward_extra_count = 0, forward_workspace_count = 0, workspace_count = 0;
  int field_count = 0, partial_count = 0;
  int predicted = -1;                        ///< the extra that a prediction reads, in place of the inputs; -1: none
  bool predicts = true;                      ///< of a loss: its input, or the extra that it writes, is a prediction
  int loss = -1, weight = -1, correct = -1;  ///< indices of partials: loss, weight, hits; -1: none
  std::string_view loss_name{};              ///< of an auxiliary loss
  double loss_factor = 1;                    ///< of the loss in the total
  int field_index[max_fields]{};             ///< index of each field in the network's list
  keep keeps{};
  work cost{};
  bool view = false;
  int first_row = -1;  ///< of a part: the first row of its parameters in a larger layer's; -1: no part
  int pixels = 1;      ///< of the feature map that a view turns into one row, or one row into

  constexpr bool auxiliary_loss() const { return !loss_name.empty(); }
  GPIPE_COLD constexpr std::size_t parameter_elements() const {
    std::size_t sum = 0;
    for (int i = 0; i < parameter_count; ++i) sum += parameters[i].extents.size();
    return sum;
  }
  GPIPE_COLD constexpr std::size_t parameter_bytes() const {
    std::size_t sum = 0;
    for (int i = 0; i < parameter_count; ++i) sum += aligned(parameters[i].extents.size() * bytes_of(type));
    return sum;
  }
  constexpr std::size_t state_bytes() const { return state_bytes(state_count); }
  /// The bytes before a part of the state.
  GPIPE_COLD constexpr std::size_t state_bytes(int part) const {
    std::size_t sum = 0;
    for (int i = 0; i < part; ++i) sum += aligned(state[i].extents.size() * bytes_of(type));
    return sum;
  }
  GPIPE_COLD constexpr std::size_t derived_bytes() const {
    std::size_t sum = 0;
    for (int i = 0; i < derived_count; ++i) sum += aligned(derived[i].size * bytes_of(derived[i].type));
    return sum;
  }
  GPIPE_COLD constexpr std::size_t derived_bytes(read_by reader) const {
    std::size_t sum = 0;
    for (int i = 0; i < derived_count; ++i)
      if (derived[i].reader == reader) sum += derived[i].bytes(1);
    return sum;
  }
  /// If buffers for forward and for backward are in the same memory (see `offset_of_derived`). `trains`: backward runs;
  /// `wants_input`: its input part, too.
  GPIPE_COLD constexpr std::size_t derived_bytes_in_turn(bool trains, bool wants_input) const {
    const std::size_t forward = derived_bytes(read_by::forward);
    std::size_t backward = trains ? derived_bytes(read_by::backward) : 0;
    if (trains && wants_input) backward += derived_bytes(read_by::backward_input);
    return derived_bytes(read_by::all) + (backward > forward ? backward : forward);
  }
  /// The rows of the samples that forward multiplies by each packed weight; 0: it packs none.
  GPIPE_COLD constexpr std::int64_t rows_of_weights(int samples) const {
    std::int64_t elements = 0;
    for (int i = 0; i < derived_count; ++i)
      if (derived[i].reader == read_by::forward) elements += static_cast<std::int64_t>(derived[i].size);
    return elements == 0 ? 0 : (cost.forward - cost.attention) / 2 * samples / elements;
  }
  GPIPE_COLD constexpr std::size_t extra_bytes(int samples) const { return extra_offset(extra_count, samples); }
  /// The offset of an extra in the block of all of them.
  GPIPE_COLD constexpr std::size_t extra_offset(int extra, int samples) const {
    return bytes_of_first(extra, extras, samples);
  }
  GPIPE_COLD constexpr std::size_t backward_extra_bytes(int samples) const {
    return bytes_of_first(backward_extra_count, backward_extras, samples);
  }
  GPIPE_COLD constexpr std::size_t forward_workspace_bytes(int samples) const {
    return bytes_of_first(forward_workspace_count, forward_workspace, samples);
  }
  GPIPE_COLD constexpr std::size_t workspace_bytes(int samples) const {
    return bytes_of_first(workspace_count, workspace, samples);
  }
  /// The number of partials of a micro-batch in elements, then in bytes.
  GPIPE_COLD constexpr std::size_t partial_elements() const {
    std::size_t sum = 0;
    for (int i = 0; i < partial_count; ++i) sum += partials[i].size;
    return sum;
  }
  GPIPE_COLD constexpr std::size_t partial_bytes() const { return aligned(partial_elements() * sizeof(double)); }

 private:
  GPIPE_COLD static constexpr std::size_t bytes_of_first(int count, const buffer* list, int samples) {
    std::size_t sum = 0;
    for (int i = 0; i < count; ++i) sum += list[i].bytes(static_cast<std::size_t>(samples));
    return sum;
  }
};

/// A parameter of a layer, or a part of its state, by its index in the layer's list.
struct named_array {
  int layer_index = -1, index = 0;
  array_kind kind = array_kind::parameter;

  constexpr bool operator==(const named_array&) const = default;
};

/// A parameter of a layer that an earlier layer owns, because both are tied.
struct tied_parameter {
  int index = 0;  ///< in the list of the layer that uses it
  named_array owner{};
  std::size_t before = 0;  ///< elements of the owner's parameter before the rows that the layer uses
};

/// One layer of the expanded model. Its index names it in all folders.
struct expanded_layer {
  int type = 0;
  int first_read = 0, reads = 0;    ///< its range in the network's list of reads
  int first_write = 0, writes = 0;  ///< values are numbered in the order of their writers
  int first_tied = 0, tied = 0;     ///< its range in the network's list of tied parameters
};

/// One read: the value, and the layer that reads it.
struct read {
  int value = 0;
  int layer_index = 0;
};

/// A tensor that a layer writes, or that enters the model, and that later layers read.
struct value {
  edge_part part{};
  int writer = -1;                    ///< the layer that writes it; -1: it enters the model
  bool gradient = false;              ///< whether a gradient flows back to it
  int first_reader = 0, readers = 0;  ///< in the network's list of readers, in model order
  std::int64_t below = 0;             ///< integers must be in [0, below), because a layer looks them up; 0: any
};

}  // namespace detail

namespace detail {
struct path_node;
}

/// A model as data, for partition, memory plan and executor. It points to constants.
struct network {
  const detail::layer_type* types = nullptr;
  const detail::expanded_layer* layers = nullptr;
  const detail::value* values = nullptr;
  const detail::read* reads = nullptr;
  const int* readers = nullptr;  ///< indices of reads, grouped by value
  const field* fields = nullptr;
  int type_count = 0, layer_count = 0, value_count = 0, read_count = 0, field_count = 0;
  int entering = 0;                              ///< values that enter the model: 0 ... entering - 1
  dtype type = dtype::float32;                   ///< of all parameters
  const detail::path_node* paths = nullptr;      ///< the tree of the layers' names
  const detail::tied_parameter* tied = nullptr;  ///< grouped by the layers that use them

  constexpr const detail::layer_type& type_of(int l) const { return types[layers[l].type]; }
  /// The value that layer `l` reads as its input `i`, and the value that it writes as its output `i`.
  constexpr int reads_value(int l, int i) const { return reads[layers[l].first_read + i].value; }
  constexpr int writes_value(int l, int i) const { return layers[l].first_write + i; }
  /// The layer of the `i`-th reader of a value, in model order.
  constexpr int reader(int v, int i) const { return reads[readers[values[v].first_reader + i]].layer_index; }
  /// Whether a layer owns all parameters that it uses.
  constexpr bool owns(int l) const { return layers[l].tied == 0; }
  /// The parameter that a layer uses as its number `p`: its own, or an earlier layer's.
  constexpr detail::named_array owner(int l, int p) const {
    const int tie = tie_of(l, p);
    return tie >= 0 ? tied[tie].owner : detail::named_array{l, p};
  }
  /// The bytes of the owner's parameter before the rows that a layer uses as its parameter number `p`.
  constexpr std::size_t owner_offset(int l, int p) const {
    const int tie = tie_of(l, p);
    return tie >= 0 ? tied[tie].before * detail::bytes_of(type_of(l).type) : 0;
  }
  /// The same for an array. A layer owns its state.
  constexpr detail::named_array owner(const detail::named_array& array) const {
    return array.kind == array_kind::parameter ? owner(array.layer_index, array.index) : array;
  }
  constexpr bool owns(int l, int p) const { return owner(l, p).layer_index == l; }
  /// Whether a layer uses a parameter that an earlier layer owns.
  constexpr bool uses(int user, int owner) const {
    const detail::expanded_layer& s = layers[user];
    for (int i = 0; i < s.tied; ++i)
      if (tied[s.first_tied + i].owner.layer_index == owner) return true;
    return false;
  }
  /// The bytes of the parameters that a layer owns, and of those that it shares with earlier layers; with `p`, only
  /// before its parameter number `p`. Each kind is one block:
  ///
  ///     weight, tied | bias     own block: | bias |     tied block: | weight |
  constexpr std::size_t own_bytes(int l) const { return own_bytes(l, type_of(l).parameter_count); }
  constexpr std::size_t own_bytes(int l, int p) const { return parameter_bytes(l, p, true); }
  constexpr std::size_t tied_bytes(int l) const { return tied_bytes(l, type_of(l).parameter_count); }
  constexpr std::size_t tied_bytes(int l, int p) const { return owns(l) ? 0 : parameter_bytes(l, p, false); }
  constexpr std::size_t own_elements(int l) const {
    const detail::layer_type& r = type_of(l);
    std::size_t sum = 0;
    for (int p = 0; p < r.parameter_count; ++p)
      if (owns(l, p)) sum += r.parameters[p].extents.size();
    return sum;
  }
  constexpr std::size_t parameters() const {
    std::size_t sum = 0;
    for (int l = 0; l < layer_count; ++l) sum += own_elements(l);
    return sum;
  }
  /// The layer of the main loss: the last layer with a loss that is not auxiliary; -1 if there is none.
  constexpr int loss_layer() const {
    for (int l = layer_count - 1; l >= 0; --l)
      if (type_of(l).loss >= 0 && !type_of(l).auxiliary_loss()) return l;
    return -1;
  }
  /// The first layer after `l` with an auxiliary loss; -1 if there is none.
  constexpr int auxiliary_after(int l) const {
    for (++l; l < layer_count; ++l)
      if (type_of(l).auxiliary_loss()) return l;
    return -1;
  }

 private:
  /// The index of a layer's parameter in the list of those that are tied; -1: it is the layer's own.
  constexpr int tie_of(int l, int p) const {
    const detail::expanded_layer& s = layers[l];
    for (int i = 0; i < s.tied; ++i)
      if (tied[s.first_tied + i].index == p) return s.first_tied + i;
    return -1;
  }
  GPIPE_COLD constexpr std::size_t parameter_bytes(int l, int before, bool owned) const {
    const detail::layer_type& r = type_of(l);
    std::size_t sum = 0;
    for (int p = 0; p < before; ++p)
      if (owns(l, p) == owned) sum += detail::aligned(r.parameters[p].extents.size() * detail::bytes_of(r.type));
    return sum;
  }
};

namespace detail {

constexpr const parameter& description_of(const network& net, const named_array& array) {
  const layer_type& r = net.type_of(array.layer_index);
  return array.kind == array_kind::parameter ? r.parameters[array.index] : r.state[array.index];
}

/// Whether a layer uses only some rows of a parameter that an earlier layer owns.
constexpr bool uses_part(const network& net, const named_array& array) {
  return description_of(net, array).extents != description_of(net, net.owner(array)).extents;
}

/// Calls `visit(named_array)` for the parameters and then the state of each layer, in model order. A tied parameter is
/// visited at each use; its values are the owner's.
template <class Visit>
constexpr void for_each_array(const network& net, Visit visit) {
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_type& r = net.type_of(l);
    for (int i = 0; i < r.parameter_count; ++i) visit(named_array{l, i, array_kind::parameter});
    for (int i = 0; i < r.state_count; ++i) visit(named_array{l, i, array_kind::state});
  }
}

struct extent_counts {
  int types = 0, layers = 0, values = 0, reads = 0, fields = 0, skips = 0, ties = 0;
};
constexpr extent_counts operator+(extent_counts a, extent_counts b) {
  return {a.types + b.types,   a.layers + b.layers, a.values + b.values, a.reads + b.reads,
          a.fields + b.fields, a.skips + b.skips,   a.ties + b.ties};
}

template <class Edge, int... Indices>
constexpr int edge_parts_into(edge_part* list, std::integer_sequence<int, Indices...>) {
  ((list[Indices] = {part<Edge, Indices>::size, dtype_of<typename part<Edge, Indices>::value_type>}), ...);
  return sizeof...(Indices);
}

/// The extents of a tensor, or only its size if there are too many.
template <class Tensor>
constexpr shape shape_of() {
  if constexpr (Tensor::rank <= shape::max_rank) return shape(Tensor::extents);
  else return {static_cast<int>(Tensor::size)};
}
template <class Edge, int... Indices>
constexpr void extents_into(shape* list, std::integer_sequence<int, Indices...>) {
  ((list[Indices] = shape_of<part<Edge, Indices>>()), ...);
}

template <class Bound>
constexpr layer_type describe_layer_type() {
  using in = typename Bound::input;
  using out = typename Bound::output;
  layer_type result;
  result.name = Bound::name;
  result.inputs = edge_parts_into<typename Bound::input>(
      result.in, std::make_integer_sequence<int, parts<typename Bound::input>>{});
  result.outputs = edge_parts_into<typename Bound::output>(
      result.out, std::make_integer_sequence<int, parts<typename Bound::output>>{});
  extents_into<typename Bound::output>(result.out_extents,
                                       std::make_integer_sequence<int, parts<typename Bound::output>>{});
  if constexpr (!std::is_void_v<typename Bound::value_type>) {
    result.type = dtype_of<typename Bound::value_type>;
    result.computes = dtype_of<typename Bound::edge_type>;
  }
  result.parameters = Bound::parameters.data();
  result.state = Bound::state.data();
  result.derived = Bound::derived.data();
  result.extras = Bound::extras.data();
  result.backward_extras = Bound::backward_extras.data();
  result.forward_workspace = Bound::forward_workspace.data();
  result.workspace = Bound::workspace.data();
  result.fields = Bound::fields.data();
  result.partials = Bound::partials.data();
  result.lists = &Bound::lists;
  result.parameter_count = static_cast<int>(Bound::parameters.size());
  result.state_count = static_cast<int>(Bound::state.size());
  result.derived_count = static_cast<int>(Bound::derived.size());
  result.extra_count = static_cast<int>(Bound::extras.size());
  result.backward_extra_count = static_cast<int>(Bound::backward_extras.size());
  result.forward_workspace_count = static_cast<int>(Bound::forward_workspace.size());
  result.workspace_count = static_cast<int>(Bound::workspace.size());
  result.field_count = static_cast<int>(Bound::fields.size());
  result.partial_count = static_cast<int>(Bound::partials.size());
  int element = 0;
  for (const partial& p : Bound::partials) {
    const std::string_view name = p.name;
    if (name == "loss") result.loss = element;
    if (name == "weight") result.weight = element;
    if (name == "correct") result.correct = element;
    element += static_cast<int>(p.size);
  }
  if constexpr (requires { Bound::on::loss_name; }) {
    result.loss_name = Bound::on::loss_name;
    result.loss_factor = Bound::on::loss_factor;
  }
  result.keeps = Bound::keeps;
  result.predicted = Bound::predicted;
  if constexpr (requires { Bound::on::predicts; }) result.predicts = Bound::on::predicts;
  if constexpr (requires { Bound::on::first_row; }) result.first_row = Bound::on::first_row;
  result.cost = Bound::cost;
  result.view = Bound::view;
  if constexpr (requires { in::pixels, out::rank; }) {
    if (result.view && out::rank == 1) result.pixels = static_cast<int>(in::pixels);
  } else if constexpr (requires { out::pixels, in::rank; }) {
    if (result.view && in::rank == 1) result.pixels = static_cast<int>(out::pixels);
  }
  return result;
}

}  // namespace detail

}  // namespace gpipe
