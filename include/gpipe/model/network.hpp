#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <gpipe/model/path_tree.hpp>
#include <gpipe/model/typed.hpp>

namespace gpipe::detail {

// assumes: one parameter type
// Not constexpr: a call in constant evaluation is an error, and the compiler shows the call.
[[noreturn]] inline void parameters_differ_in_type(std::string_view layer) {
  throw error("two layers have parameters of different types, but an optimizer updates all parameters in one type",
              "give both layers the same `value_type`", {.layer = std::string(layer)});
}
[[noreturn]] inline void fields_differ_in_size_or_type(std::string_view layer) {
  throw error("two layers read a field of the data under one name, but with different sizes or types",
              "rename the field in one of the layers", {.layer = std::string(layer)});
}

/// A tied layer's parameter differs from the one that it should share; it shares none; it names one that it does not
/// have.
enum class tied_wrongly { differs, apart, missing };
/// Such a mistake: the tie, the name of the parameter or of the layer, its position, and parameters that differ.
struct tie_mistake {
  std::string_view tie{}, name{};
  int layer_index = -1;  ///< -1: there is none
  typed_shape shape{}, first{};
};

/// The arrays of a `network`, filled by a walk over the typed model.
template <int Rows, int Layers, int Values, int Reads, int Fields, int Skips, int Ties>
class expansion {
 public:
  struct named_layer {
    std::string_view name{};
    int layer_index = -1;
  };

  template <class Bound>
  constexpr void layer() {
    if (next_type_ == described_) {
      types_[described_++] = describe_layer_type<Bound>();
      name_fields(types_[next_type_]);
    }
    const layer_type& type = types_[next_type_];
    expanded_layer& entry = layers_[layer_count_];
    entry = {next_type_, read_count_, type.inputs, value_count_, type.outputs, tied_count_, 0};
    bool gradient = type.parameter_count > 0;
    for (int i = 0; i < type.inputs; ++i) {
      reads_[read_count_++] = {edge_[i], layer_count_};
      ++values_[edge_[i]].readers;
      if (Bound::input_below > 0) limit(edge_[i], Bound::input_below);
      gradient = gradient || values_[edge_[i]].gradient;
    }
    for (int i = 0; i < type.outputs; ++i) {
      values_[value_count_] = {type.out[i], layer_count_, gradient && is_floating(type.out[i].type)};
      edge_[i] = value_count_++;
    }
    edge_width_ = type.outputs;
    ++layer_count_;
    ++next_type_;
  }

  template <class Tied, class Bound>
  constexpr void tied_layer() {
    const int l = layer_count_, before = owner_count_;
    layer<Bound>();
    const layer_type& type = types_[layers_[l].type];
    constexpr auto& names = Tied::named_parameters;
    bool first = true, related = false;
    for (int o = 0; o < before; ++o) {
      if (owners_[o].tie != Tied::tied_as) continue;
      first = false;
      const bool shared = names.empty() || has_name(names, owners_[o].name);
      related = related || (type.first_row >= 0 && shared && has_parameter(type, owners_[o].name));
    }
    for (int p = 0; p < type.parameter_count; ++p)
      if (names.empty() || has_name(names, type.parameters[p].name)) share(Tied::tied_as, l, p, before);
    if (!first && !related && layers_[l].tied == 0) note(tied_wrongly::apart, {Tied::tied_as, type.name, l});
    for (const std::string_view name : names)
      if (!has_parameter(type, name)) note(tied_wrongly::missing, {Tied::tied_as, name, l});
  }

  constexpr void enters(edge_part part) {
    values_[value_count_] = {part, -1, false};
    edge_[edge_width_++] = value_count_++;
    ++entering_;
  }

  constexpr void stash() {
    for (int i = 0; i < edge_width_; ++i) skips_[depth_].value[i] = edge_[i];
    skips_[depth_++].width = edge_width_;
  }
  constexpr void stash(int tensor) {
    skips_[depth_].value[0] = edge_[tensor];
    skips_[depth_++].width = 1;
  }
  constexpr void pop(int above) {
    const skip_values& stashed = skips_[depth_ - 1 - above];
    for (int i = 0; i < stashed.width; ++i) edge_[edge_width_++] = stashed.value[i];
  }
  // Puts the edge of the last stash before the tensors on the edge, and ends the stash.
  constexpr void rejoin() {
    const int made = edge_width_;
    const skip_values& before = skips_[--depth_];
    for (int i = made - 1; i >= 0; --i) edge_[i + before.width] = edge_[i];
    for (int i = 0; i < before.width; ++i) edge_[i] = before.value[i];
    edge_width_ = before.width + made;
  }
  // The next item does not read the tensors on the edge.
  constexpr void leave_edge() {
    for (int i = 0; i < edge_width_; ++i) left_at_[edge_[i]] = layer_count_ + 1;
    edge_width_ = 0;
  }
  constexpr int enter() const { return depth_; }
  constexpr void leave(int depth) { depth_ = depth; }
  constexpr int next_type() const { return next_type_; }
  constexpr void back_to_type(int row) { next_type_ = row; }

  // Groups the reads by value, in model order.
  constexpr void close() {
    int next_reader = 0;
    for (int v = 0; v < value_count_; ++v) {
      values_[v].first_reader = next_reader;
      next_reader += values_[v].readers;
      values_[v].readers = 0;
    }
    for (int r = 0; r < read_count_; ++r) {
      value& v = values_[reads_[r].value];
      readers_[v.first_reader + v.readers++] = r;
    }
    pass_limits_back();
    find_untrained();
    find_unread();
  }

  /// The first mistake of a kind.
  constexpr const tie_mistake& mistake(tied_wrongly kind) const { return mistakes_[static_cast<int>(kind)]; }

  /// The first layer with parameters to which no gradient flows back; layer -1: none.
  constexpr named_layer untrained() const { return untrained_; }

  /// The layer whose output an `only` drops though no layer reads it, and the layer after the `only`; layer -1: none.
  constexpr named_layer unread() const { return unread_; }

  constexpr network view() const {
    dtype type = dtype::float32;
    int first = -1;
    for (int r = 0; r < Rows; ++r) {
      if (types_[r].parameter_count == 0) continue;
      if (first >= 0 && types_[r].type != type && mistake(tied_wrongly::differs).layer_index < 0)
        parameters_differ_in_type(types_[r].name);
      if (first < 0) type = types_[r].type, first = r;
    }
    return {types_,       layers_,     values_,      reads_,    readers_, fields_, Rows, layer_count_,
            value_count_, read_count_, field_count_, entering_, type,     nullptr, tied_};
  }

 private:
  struct skip_values {
    int value[max_tensors_per_edge]{};
    int width = 0;
  };

  struct owned_parameter {
    std::string_view tie{}, name{};
    named_array location{};
  };

  template <std::size_t N>
  static constexpr bool has_name(const std::array<const char*, N>& names, std::string_view name) {
    for (const std::string_view listed : names)
      if (listed == name) return true;
    return false;
  }
  static constexpr bool has_parameter(const layer_type& type, std::string_view name) {
    for (int p = 0; p < type.parameter_count; ++p)
      if (type.parameters[p].name == name) return true;
    return false;
  }
  constexpr void note(tied_wrongly kind, const tie_mistake& found) {
    tie_mistake& first = mistakes_[static_cast<int>(kind)];
    if (first.layer_index < 0) first = found;
  }
  // Rows of a parameter. The rows of a part are counted in the larger parameter.
  struct row_range {
    int first = 0, end = 1;
  };
  static constexpr row_range rows_of(const layer_type& type, const parameter& array) {
    const int first = type.first_row < 0 ? 0 : type.first_row;
    return {first, first + (array.extents.rank > 0 ? array.extents.extents[0] : 1)};
  }
  // Whether a parameter is the first one, or rows of it.
  static constexpr bool is_in(const layer_type& type, const parameter& used, const layer_type& owner_type,
                              const parameter& owned) {
    const row_range rows = rows_of(type, used), owned_rows = rows_of(owner_type, owned);
    shape extents = used.extents;
    if (type.first_row >= 0 && extents.rank > 0) extents.extents[0] = owned.extents.extents[0];
    return extents == owned.extents && rows.first >= owned_rows.first && rows.end <= owned_rows.end &&
           type.type == owner_type.type;
  }
  // Shares parameter `p` of layer `l` with the first layer of the tie that has it, or makes `l` that layer. Parts of a
  // layer that has not come before share their common rows.
  constexpr void share(std::string_view tie, int l, int p, int before) {
    const layer_type& type = types_[layers_[l].type];
    const parameter& used = type.parameters[p];
    const row_range rows = rows_of(type, used);
    const auto has = [&](const owned_parameter& owner) {
      if (owner.tie != tie || owner.name != used.name) return false;
      const layer_type& owner_type = types_[layers_[owner.location.layer_index].type];
      const row_range owner_rows = rows_of(owner_type, owner_type.parameters[owner.location.index]);
      return type.first_row < 0 || owner_type.first_row < 0 ||
             (rows.first < owner_rows.end && owner_rows.first < rows.end);
    };
    int o = 0;
    while (o < before && !has(owners_[o])) ++o;
    if (o == before) {
      owners_[owner_count_++] = {tie, used.name, {l, p}};
      return;
    }
    const named_array first = owners_[o].location;
    const layer_type& owner_type = types_[layers_[first.layer_index].type];
    const parameter& whole = owner_type.parameters[first.index];
    const auto count = static_cast<std::size_t>(rows.end - rows.first),
               row = static_cast<std::size_t>(rows.first - rows_of(owner_type, whole).first);
    tied_[tied_count_++] = {p, first, row * used.extents.size() / count};
    ++layers_[l].tied;
    if (!is_in(type, used, owner_type, whole))
      note(tied_wrongly::differs, {tie, used.name, l, {used.extents, type.type}, {whole.extents, owner_type.type}});
  }

  constexpr void limit(int v, std::int64_t below) {
    value& limited = values_[v];
    if (!is_floating(limited.part.type) && (limited.below == 0 || below < limited.below)) limited.below = below;
  }
  // Passes limits from reshaped tokens to the tokens, and from a further input to its field of the data.
  constexpr void pass_limits_back() {
    for (int v = value_count_ - 1; v >= 0; --v) {
      if (values_[v].below == 0 || values_[v].writer < 0) continue;
      const expanded_layer& s = layers_[values_[v].writer];
      const layer_type& r = types_[s.type];
      if (r.view) limit(reads_[s.first_read].value, values_[v].below);
      if (s.reads > 0 || r.field_count != 1) continue;
      field& read = fields_[r.field_index[0]];
      if (read.below == 0 || values_[v].below < read.below) read.below = values_[v].below;
    }
  }

  // In a model that is trained, a gradient flows back from its losses and its last layer, through all but integers.
  constexpr void find_untrained() {
    bool integers = false, loss = false;
    for (int r = 0; r < described_; ++r) {
      loss = loss || types_[r].loss >= 0;
      for (int i = 0; i < types_[r].outputs; ++i) integers = integers || !is_floating(types_[r].out[i].type);
    }
    if (!integers || !loss) return;
    bool reached[std::size_t{Layers + 1}]{};
    for (int l = layer_count_ - 1; l >= 0; --l) {
      const expanded_layer& s = layers_[l];
      reached[l] = reached[l] || l == layer_count_ - 1 || types_[s.type].loss >= 0;
      if (!reached[l] && types_[s.type].parameter_count > 0) untrained_ = {types_[s.type].name, l};
      for (int i = 0; reached[l] && i < s.reads; ++i)
        if (const value& v = values_[reads_[s.first_read + i].value]; v.writer >= 0 && is_floating(v.part.type))
          reached[v.writer] = true;
    }
  }

  constexpr void find_unread() {
    for (int v = 0; v < value_count_; ++v) {
      if (left_at_[v] == 0 || values_[v].readers > 0) continue;
      const int writer = values_[v].writer;
      unread_ = {writer < 0 ? "input" : types_[layers_[writer].type].name, left_at_[v] - 1};
      return;
    }
  }

  // Layers that read fields of the same name share one field of the data.
  constexpr void name_fields(layer_type& r) {
    for (int i = 0; i < r.field_count; ++i) {
      int found = 0;
      while (found < field_count_ && std::string_view(fields_[found].name) != r.fields[i].name) ++found;
      if (found == field_count_) fields_[field_count_++] = r.fields[i];
      else if (fields_[found].size != r.fields[i].size || fields_[found].type != r.fields[i].type)
        fields_differ_in_size_or_type(r.name);
      if (!r.fields[i].optional) fields_[found].optional = false;
      if (r.fields[i].below > 0 && (fields_[found].below == 0 || r.fields[i].below < fields_[found].below))
        fields_[found].below = r.fields[i].below;
      if (fields_[found].ignored != r.fields[i].ignored)
        fields_[found].ignored = no_label;  // not all of the layers ignore it
      r.field_index[i] = found;
    }
  }

  layer_type types_[std::size_t{Rows + 1}]{};
  expanded_layer layers_[std::size_t{Layers + 1}]{};
  value values_[std::size_t{Values + 1}]{};
  read reads_[std::size_t{Reads + 1}]{};
  int readers_[std::size_t{Reads + 1}]{};
  field fields_[std::size_t{Fields + 1}]{};
  skip_values skips_[std::size_t{Skips + 1}]{};
  owned_parameter owners_[std::size_t{Ties + 1}]{};
  tied_parameter tied_[std::size_t{Ties + 1}]{};
  tie_mistake mistakes_[3]{};
  named_layer untrained_{}, unread_{};
  int left_at_[std::size_t{Values + 1}]{};  // by an `only` before this layer, counted from 1; 0: read by the next item
  int edge_[2 * max_tensors_per_edge]{};
  int edge_width_ = 0, depth_ = 0;
  int next_type_ = 0, described_ = 0, layer_count_ = 0, value_count_ = 0, read_count_ = 0, field_count_ = 0;
  int entering_ = 0, owner_count_ = 0, tied_count_ = 0;
};

template <class Entering, class Items>
struct typed_items {
  using type = typed_scope<0, flow<Entering>, Items>;
};
template <class Items>
struct typed_items<void, Items> {  // the model has no input
  using type = mistaken<>;
};

/// A model's declarations, or an empty model if the type is no model, so that its error is the only one.
template <class Model>
struct declared_by {
  using entering = void;
  using items = list<>;
};
template <modelled Model>
struct declared_by<Model> {
  using entering = typename Model::entering;
  using items = typename Model::items;
};
template <class Model>
using items_of = typename declared_by<Model>::items;
template <class Model>
using typed_model = typename typed_items<typename declared_by<Model>::entering, items_of<Model>>::type;

template <class Model>
constexpr bool report_mistake() {
  if constexpr (!modelled<Model>) return asserted<broken::type_is_a_model<Model, false>>::value;
  else return mistake<items_of<Model>, typename typed_model<Model>::after>::reported;
}
/// Whether the model has a mistake, for which an error is printed.
template <class Model>
inline constexpr bool mistaken_model = report_mistake<Model>();

template <class Model>
constexpr auto expand() {
  constexpr extent_counts n = typed_model<Model>::counts;
  using given = typename declared_by<Model>::entering;
  using entering_edge = std::conditional_t<std::is_void_v<given>, bundle<>, given>;
  constexpr int entering = parts<entering_edge>;
  expansion<n.types, n.layers, n.values + entering, n.reads, n.fields, n.skips, n.ties> e;
  edge_part in[max_tensors_per_edge]{};
  if constexpr (has_extents<entering_edge>)
    edge_parts_into<entering_edge>(in, std::make_integer_sequence<int, entering>{});
  for (int i = 0; i < entering; ++i) e.enters(in[i]);
  typed_model<Model>::list_into(e);
  e.close();
  return e;
}

template <class Model>
inline constexpr auto expanded = expand<Model>();

/// The first layer whose loss has a name that another loss has; -1: none.
constexpr int misnamed_loss(const network& net) {
  for (int l = net.auxiliary_after(-1); l >= 0; l = net.auxiliary_after(l)) {
    if (net.type_of(l).loss_name == main_loss) return l;
    for (int e = net.auxiliary_after(-1); e < l; e = net.auxiliary_after(e))
      if (net.type_of(e).loss_name == net.type_of(l).loss_name) return l;
  }
  return -1;
}
constexpr int auxiliary_losses(const network& net) {
  int count = 0;
  for (int l = net.auxiliary_after(-1); l >= 0; l = net.auxiliary_after(l)) ++count;
  return count;
}

// The promise of ties of this kind.
template <class Model, tied_wrongly What>
constexpr void check_ties() {
  if constexpr (constexpr int layer = expanded<Model>.mistake(What).layer_index; layer >= 0) {
    constexpr auto tie_text = [] { return expanded<Model>.mistake(What).tie; };
    constexpr auto name_text = [] { return expanded<Model>.mistake(What).name; };
    using at = position_of<typename Model::items, layer>;
    using tie = decltype(spelled<letters>(tie_text));
    using name = decltype(spelled<letters>(name_text));
    if constexpr (What == tied_wrongly::differs) {
      constexpr auto shape_here = [] { return expanded<Model>.mistake(What).shape; };
      constexpr auto first_shape = [] { return expanded<Model>.mistake(What).first; };
      using here = decltype(labelled_tensor<broken::here>(shape_here));
      using first = decltype(labelled_tensor<broken::first>(first_shape));
      static_cast<void>(asserted<broken::tied_parameters_match<at, tie, name, here, first, false>>{});
    } else if constexpr (What == tied_wrongly::apart) {
      static_cast<void>(asserted<broken::tied_layers_share_a_parameter<at, tie, name, false>>{});
    } else {
      static_cast<void>(asserted<broken::tied_layer_has_the_parameter<at, tie, name, false>>{});
    }
  }
}

template <class Model>
constexpr network named_view() {
  network net = expanded<Model>.view();
  net.paths = path_tree<items_of<Model>>.data();
  return net;
}

// The promises of names.
template <class Model>
constexpr void check_paths() {
  using items = typename Model::items;
  constexpr auto& tree = path_tree<items>;
  constexpr auto unfit = [] { return unfit_name(path_tree<items>.data()); };
  if constexpr (!unfit().empty()) {
    using name = decltype(spelled<letters>(unfit));
    static_cast<void>(asserted<broken::name_is_a_part_of_a_path<name, false>>{});
  } else if constexpr (constexpr path_collision collision(named_view<Model>()); collision.layer_index >= 0) {
    constexpr std::size_t length = write_path(tree.data(), collision.layer_index, nullptr);
    using path = decltype(letters_of_path<letters, items, collision.layer_index>(std::make_index_sequence<length>{}));
    static_cast<void>(asserted<broken::paths_differ<broken::position<collision.layer_index>,
                                                    broken::position<collision.other_index>, path, false>>{});
  }
}

// The promises of a whole network.
template <class Model>
constexpr void check_network() {
  using items = typename Model::items;
  check_ties<Model, tied_wrongly::missing>();
  check_ties<Model, tied_wrongly::differs>();
  if constexpr (expanded<Model>.mistake(tied_wrongly::missing).layer_index < 0)
    check_ties<Model, tied_wrongly::apart>();
  constexpr auto untrained = expanded<Model>.untrained();
  if constexpr (untrained.layer_index >= 0) {
    constexpr auto text = [] { return expanded<Model>.untrained().name; };
    using name = decltype(spelled<letters>(text));
    static_cast<void>(asserted<broken::gradient_flows_back<position_of<items, untrained.layer_index>, name, false>>{});
  }
  constexpr auto unread = expanded<Model>.unread();
  if constexpr (unread.layer_index >= 0) {
    constexpr auto text = [] { return expanded<Model>.unread().name; };
    using name = decltype(spelled<letters>(text));
    static_cast<void>(
        asserted<broken::only_leaves_what_is_stashed<position_of<items, unread.layer_index>, name, false>>{});
  }
  check_paths<Model>();
  constexpr network found = named_view<Model>();
  if constexpr (constexpr int layer = misnamed_loss(found); layer >= 0)
    static_cast<void>(asserted<broken::losses_have_names<position_of<items, layer>, false>>{});
  if constexpr (constexpr int losses = auxiliary_losses(found); losses > max_auxiliary_losses)
    static_cast<void>(asserted<broken::losses_are_few<broken::losses<losses>, false>>{});
}

template <class Model>
constexpr network checked_view() {
  if constexpr (!mistaken_model<Model>) check_network<Model>();
  return named_view<Model>();
}

}  // namespace gpipe::detail
