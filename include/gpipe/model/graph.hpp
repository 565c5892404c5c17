#pragma once

#include <cstddef>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The maximum number of auxiliary losses of a model.
inline constexpr int max_auxiliary_losses = 3;
/// The name of a model's last loss, among its losses.
inline constexpr std::string_view main_loss = "main";

namespace detail {

/// A tensor of an edge as data: its elements per sample, and their type.
struct edge_part {
  std::size_t size = 0;
  dtype type = dtype::float32;

  constexpr std::size_t bytes(int samples) const {
    return aligned(size * bytes_of(type) * static_cast<std::size_t>(samples));
  }
};

/// A layer bound to its input, as data: one row for all slots that repeat the layer.
struct row {
  std::string_view name;
  int inputs = 0, outputs = 0;
  edge_part in[max_tensors_per_edge], out[max_tensors_per_edge];
  shape out_extents[max_tensors_per_edge];  ///< of the tensors of the output, for people
  dtype type = dtype::float32;      ///< of the parameters
  dtype computes = dtype::float32;  ///< the type of its edges, in which it multiplies
  const parameter *parameters = nullptr, *state = nullptr;
  const buffer *derived = nullptr, *extras = nullptr, *workspace = nullptr;
  const field* fields = nullptr;
  const partial* partials = nullptr;
  int parameter_count = 0, state_count = 0, derived_count = 0, extra_count = 0, workspace_count = 0;
  int field_count = 0, partial_count = 0;
  int predicted = -1;  ///< the extra that a prediction reads, in place of the inputs; -1: none
  int loss = -1, weight = -1, correct = -1;  ///< indices of partials: loss, weight, hits; -1: none
  std::string_view loss_name{};              ///< of an auxiliary loss
  double loss_factor = 1;                    ///< of the loss in the total
  int field_index[max_fields]{};             ///< index of each field in the network's list
  keep keeps{};
  work cost{};
  bool view = false;

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
  GPIPE_COLD constexpr std::size_t state_bytes() const {
    std::size_t sum = 0;
    for (int i = 0; i < state_count; ++i) sum += aligned(state[i].extents.size() * bytes_of(type));
    return sum;
  }
  GPIPE_COLD constexpr std::size_t derived_bytes() const {
    std::size_t sum = 0;
    for (int i = 0; i < derived_count; ++i) sum += aligned(derived[i].size * bytes_of(derived[i].type));
    return sum;
  }
  GPIPE_COLD constexpr std::size_t extra_bytes(int samples) const { return extra_offset(extra_count, samples); }
  /// The offset of an extra in the block of all of them.
  GPIPE_COLD constexpr std::size_t extra_offset(int extra, int samples) const {
    return bytes_of_first(extra, extras, samples);
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
    for (int i = 0; i < count; ++i) sum += edge_part{list[i].size, list[i].type}.bytes(samples);
    return sum;
  }
};

/// One layer of the expanded model. Its index names it in all rooms.
struct slot {
  int row = 0;
  int first_read = 0, reads = 0;    ///< its range in the network's list of reads
  int first_write = 0, writes = 0;  ///< values are numbered in the order of their writers
  int owner = 0;                    ///< the slot whose parameters it uses: itself, or the first of its tie
};

/// One read of a slot: the value, and the slot.
struct read {
  int value = 0;
  int slot = 0;
};

/// A tensor that a slot writes, or that enters the model, and that later slots read.
struct value {
  edge_part part{};
  int writer = -1;        ///< the slot that writes it; -1: it enters the model
  bool gradient = false;  ///< whether a gradient flows back to it
  int first_reader = 0, readers = 0;  ///< in the network's list of readers, in model order
  std::int64_t below = 0;  ///< integers must be in [0, below), because a layer looks them up; 0: any
};

}  // namespace detail

namespace detail {
struct path_node;
}

/// A model as data, for partition, memory plan and executor. It points to constants.
struct network {
  const detail::row* rows = nullptr;
  const detail::slot* slots = nullptr;
  const detail::value* values = nullptr;
  const detail::read* reads = nullptr;
  const int* readers = nullptr;  ///< indices of reads, grouped by value
  const field* fields = nullptr;
  int row_count = 0, slot_count = 0, value_count = 0, read_count = 0, field_count = 0;
  int entering = 0;              ///< values that enter the model: 0 ... entering - 1
  dtype type = dtype::float32;   ///< of all parameters
  const detail::path_node* paths = nullptr;  ///< the tree of the layers' names

  constexpr const detail::row& row_of(int l) const { return rows[slots[l].row]; }
  /// The value that slot `l` reads as its input `i`, and the value that it writes as its output `i`.
  constexpr int reads_value(int l, int i) const { return reads[slots[l].first_read + i].value; }
  constexpr int writes_value(int l, int i) const { return slots[l].first_write + i; }
  /// The slot of the `i`-th reader of a value, in model order.
  constexpr int reader(int v, int i) const { return reads[readers[values[v].first_reader + i]].slot; }
  /// Whether a slot uses its own parameters, and not those of an earlier slot.
  constexpr bool owns(int l) const { return slots[l].owner == l; }
  constexpr std::size_t parameters() const {
    std::size_t sum = 0;
    for (int l = 0; l < slot_count; ++l)
      if (owns(l)) sum += row_of(l).parameter_elements();
    return sum;
  }
  /// The slot of the main loss: the last slot with a loss that is not auxiliary; -1 if there is none.
  constexpr int loss_slot() const {
    for (int l = slot_count - 1; l >= 0; --l)
      if (row_of(l).loss >= 0 && !row_of(l).auxiliary_loss()) return l;
    return -1;
  }
  /// The first slot behind `l` with an auxiliary loss; -1 if there is none.
  constexpr int auxiliary_after(int l) const {
    for (++l; l < slot_count; ++l)
      if (row_of(l).auxiliary_loss()) return l;
    return -1;
  }
};

namespace detail {

struct extent_counts {
  int rows = 0, slots = 0, values = 0, reads = 0, fields = 0, skips = 0, ties = 0;
};
constexpr extent_counts operator+(extent_counts a, extent_counts b) {
  return {a.rows + b.rows,     a.slots + b.slots,   a.values + b.values,
          a.reads + b.reads,   a.fields + b.fields, a.skips + b.skips, a.ties + b.ties};
}

template <class Edge, int... I>
constexpr int edge_parts_into(edge_part* into, std::integer_sequence<int, I...>) {
  ((into[I] = {part<Edge, I>::size, dtype_of<typename part<Edge, I>::value_type>}), ...);
  return sizeof...(I);
}

/// The extents of a tensor; of one with too many only its size.
template <class Tensor>
constexpr shape shape_of() {
  if constexpr (Tensor::rank <= shape::max_rank) return shape(Tensor::extents);
  else return {static_cast<int>(Tensor::size)};
}
template <class Edge, int... I>
constexpr void extents_into(shape* into, std::integer_sequence<int, I...>) {
  ((into[I] = shape_of<part<Edge, I>>()), ...);
}

template <class Bound>
constexpr row describe_row() {
  row r;
  r.name = Bound::name;
  r.inputs = edge_parts_into<typename Bound::input>(
      r.in, std::make_integer_sequence<int, parts<typename Bound::input>>{});
  r.outputs = edge_parts_into<typename Bound::output>(
      r.out, std::make_integer_sequence<int, parts<typename Bound::output>>{});
  extents_into<typename Bound::output>(r.out_extents, std::make_integer_sequence<int, parts<typename Bound::output>>{});
  if constexpr (!std::is_void_v<typename Bound::value_type>) {
    r.type = dtype_of<typename Bound::value_type>;
    r.computes = dtype_of<typename Bound::edge_type>;
  }
  r.parameters = Bound::parameters.data();
  r.state = Bound::state.data();
  r.derived = Bound::derived.data();
  r.extras = Bound::extras.data();
  r.workspace = Bound::workspace.data();
  r.fields = Bound::fields.data();
  r.partials = Bound::partials.data();
  r.parameter_count = static_cast<int>(Bound::parameters.size());
  r.state_count = static_cast<int>(Bound::state.size());
  r.derived_count = static_cast<int>(Bound::derived.size());
  r.extra_count = static_cast<int>(Bound::extras.size());
  r.workspace_count = static_cast<int>(Bound::workspace.size());
  r.field_count = static_cast<int>(Bound::fields.size());
  r.partial_count = static_cast<int>(Bound::partials.size());
  int at = 0;
  for (const partial& p : Bound::partials) {
    const std::string_view name = p.name;
    if (name == "loss") r.loss = at;
    if (name == "weight") r.weight = at;
    if (name == "correct") r.correct = at;
    at += static_cast<int>(p.size);
  }
  if constexpr (requires { Bound::on::loss_name; }) {
    r.loss_name = Bound::on::loss_name;
    r.loss_factor = Bound::on::loss_factor;
  }
  r.keeps = Bound::keeps;
  r.predicted = Bound::predicted;
  r.cost = Bound::cost;
  r.view = Bound::view;
  return r;
}

}  // namespace detail

}  // namespace gpipe
