#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gpipe/model/graph.hpp>
#include <gpipe/model/structure/items.hpp>

namespace gpipe::detail {

// The names of a model's layers, as a tree with a node for each item of the list of types: `repeat<1663, ...>` is not
// expanded. A path, such as "h.0.ln_1", joins the parts that the nodes from the root to a layer add.
//
//     model<input<float, 8>, linear<8>, named<"h", repeat<2, residual<linear<8>, relu>>>>
//
//     (nothing) - 0                                     layer 0
//               - h - [0, 2) - (nothing) - 0            layers 1, 4     h.0.0, h.1.0
//                                        - 1            layers 2, 5
//                                        - (nothing)    layers 3, 6     h.0, h.1: the addition

/// The part that a node adds to the paths below it: nothing, a name, an index in a list, or the number of a repetition.
enum class path_part : std::uint8_t { nothing, name, index, repetition };

struct path_node {
  path_part adds = path_part::nothing;
  bool layer = false;
  const char* name = "";
  int number = 0;             ///< the index, or the number of repetitions
  int first = 0, layers = 0;  ///< in the first repetition: its first layer and its number of layers
  int end = 0;                ///< the node after its last descendant
};

/// Writes nodes in model order, each before its descendants. `nodes` null: only counts nodes and layers.
class path_writer {
 public:
  constexpr explicit path_writer(path_node* nodes) : nodes_(nodes) {}
  constexpr int count() const { return count_; }
  constexpr int layers() const { return layers_; }
  /// Adds a node and returns its number; `close` it after its descendants.
  constexpr int open(path_node n) {
    n.first = layers_;
    if (nodes_ != nullptr) nodes_[count_] = n;
    return count_++;
  }
  constexpr void close(int node) {
    if (nodes_ == nullptr) return;
    nodes_[node].layers = layers_ - nodes_[node].first;
    nodes_[node].end = count_;
  }
  constexpr void layer(path_node n) {
    n.layer = true;
    const int node = open(n);
    ++layers_;
    close(node);
  }
  /// Counts further repetitions of the last `layers` layers, without nodes.
  constexpr void add_repetitions(int repetitions, int layers) { layers_ += repetitions * layers; }

 private:
  path_node* nodes_;
  int count_ = 0, layers_ = 0;
};

template <class Item>
inline constexpr bool has_name = requires {
  Item::named_as;
};

constexpr path_node node_of_name(const char* name) {
  return *name == 0 ? path_node{} : path_node{.adds = path_part::name, .name = name};
}

template <class Item>
constexpr void write_paths(path_writer& writer, path_node n);

/// The items of a list: an item without a name adds its index.
template <class... Items>
constexpr void write_list(path_writer& writer, list<Items...>) {
  [[maybe_unused]] int i = 0;  // an empty list reads none
  const int in_order[] = {0, (write_paths<Items>(writer, {.adds = path_part::index, .number = i++}), 0)...};
  static_cast<void>(in_order);
}
template <class... Items>
constexpr void write_scope(path_writer& writer, path_node n, list<Items...> items) {
  const int node = writer.open(n);
  write_list(writer, items);
  writer.close(node);
}

/// The items of a `named`: a single item has the name in place of its index; several are a scope of that name.
template <class... Items>
constexpr void write_named(path_writer& writer, path_node n, list<Items...> items) {
  write_scope(writer, n, items);
}
template <class Item>
requires(!has_name<Item>) constexpr void write_named(path_writer& writer, path_node n, list<Item>) {
  write_paths<Item>(writer, n);
}

/// The items of a `repeat`: the number of the repetition takes the place of a single item's index.
template <class... Items>
constexpr void write_repeated(path_writer& writer, list<Items...> items) {
  write_list(writer, items);
}
template <class Item>
constexpr void write_repeated(path_writer& writer, list<Item>) {
  write_paths<Item>(writer, {});
}

template <class... Items>
constexpr bool all_named(list<Items...>) {
  return (has_name<Items> && ...);
}

/// Writes an item; n is its node if it has no name. The kinds of items are the same as in `typed_item`.
template <class Item>
constexpr void write_paths(path_writer& writer, path_node n) {
  if constexpr (
      requires { Item::stashed_as; } || requires { typename Item::each; } || requires { typename Item::popped; }) {
    return;  // a stash of one tensor or of each, or a pop
  } else if constexpr (requires { typename Item::alone; }) {
    write_paths<typename Item::alone>(writer, n);
  } else if constexpr (has_name<Item>) {
    write_named(writer, node_of_name(Item::named_as), typename Item::items{});
  } else if constexpr (requires { Item::times; }) {
    const int repeat_node = writer.open(n);
    const int repetition = writer.open({.adds = path_part::repetition, .number = Item::times});
    const int first = writer.layers();
    write_repeated(writer, typename Item::items{});
    writer.close(repetition);
    writer.add_repetitions(Item::times - 1, writer.layers() - first);
    writer.close(repeat_node);
  } else if constexpr (requires { Item::adds_its_input; }) {
    if (n.adds == path_part::index && all_named(typename Item::items{})) n = {};
    const int node = writer.open(n);
    write_list(writer, typename Item::items{});
    writer.layer({});  // the addition
    writer.close(node);
  } else if constexpr (requires { typename Item::items; }) {
    write_scope(writer, n, typename Item::items{});
  } else {  // a layer, a further input, a tied layer or an auxiliary loss
    writer.layer(n);
  }
}

template <class Items>
constexpr int count_path_nodes() {
  path_writer writer(nullptr);
  write_scope(writer, {}, Items{});
  return writer.count();
}

/// The tree of a list of items. The first node is the model.
template <class Items>
inline constexpr auto path_tree = [] {
  std::array<path_node, std::size_t{count_path_nodes<Items>()}> nodes{};
  path_writer writer(nodes.data());
  write_scope(writer, {}, Items{});
  return nodes;
}();

/// Calls `put(name, number)` with each part of a layer's path, from the root on: a name and 0, or "" and a number.
template <class Put>
constexpr void for_each_path_part(const path_node* tree, int layer, Put put) {
  for (int n = 0;;) {
    const path_node& node = tree[n];
    if (node.adds == path_part::name) put(node.name, 0);
    if (node.adds == path_part::index) put("", node.number);
    if (node.adds == path_part::repetition) {
      const int repetition = (layer - node.first) / node.layers;
      layer -= repetition * node.layers;  // the same layer of the first repetition
      put("", repetition);
    }
    if (node.layer) return;
    ++n;  // the first child, or the sibling of it that contains the layer; a repetition has no siblings
    while (tree[n].adds != path_part::repetition && layer >= tree[n].first + tree[n].layers) n = tree[n].end;
  }
}

/// Writes a layer's path, without a terminating 0, to `text` unless it is null. Returns the length in bytes.
constexpr std::size_t write_path(const path_node* tree, int layer, char* text) {
  std::size_t length = 0;
  const auto put = [&](char letter) {
    if (text != nullptr) text[length] = letter;
    ++length;
  };
  for_each_path_part(tree, layer, [&](const char* name, int number) {
    if (length > 0) put('.');
    if (*name != 0) {
      for (; *name != 0; ++name) put(*name);
      return;
    }
    int unit = 1;
    while (number / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) put(static_cast<char>('0' + number / unit % 10));
  });
  return length;
}

/// Whether a name can be a part of a path: it has no dot, and is not a number.
constexpr bool is_path_name(std::string_view name) {
  bool number = true;
  for (const char c : name) {
    if (c == '.') return false;
    number = number && c >= '0' && c <= '9';
  }
  return !number;
}

/// The first name that cannot be a part of a path; empty if there is none.
constexpr std::string_view unfit_name(const path_node* tree) {
  for (int n = 0; n < tree->end; ++n)
    if (tree[n].adds == path_part::name && !is_path_name(tree[n].name)) return tree[n].name;
  return {};
}

/// Finds two layers that have the same path and both have parameters or state. `net.paths` must not be null.
class path_collision {
 public:
  int layer_index = -1, other_index = -1;  ///< in ascending order; -1: there are none

  constexpr path_collision() = default;
  constexpr explicit path_collision(const network& net) : net_(net) {
    if (net.paths->layers == net.layer_count) compare_items(0);
  }

 private:
  constexpr bool found() const { return layer_index >= 0; }

  // Compares each pair of items in a scope. Items that add an index have different indices, and so different paths.
  constexpr void compare_items(int scope) {
    const path_node* tree = net_.paths;
    for (int a = scope + 1; a < tree[scope].end && !found(); a = tree[a].end) {
      for (int b = tree[a].end; b < tree[scope].end && !found(); b = tree[b].end)
        if (tree[a].adds != path_part::index || tree[b].adds != path_part::index) compare({a}, {b});
      compare_items(a);
    }
  }

  // A node in one repetition of its scope, `layers_before` layers after the first repetition.
  struct branch {
    int node, layers_before = 0;
  };
  constexpr branch first_below(branch scope) const { return {scope.node + 1, scope.layers_before}; }
  constexpr branch next(branch b) const { return {net_.paths[b.node].end, b.layers_before}; }
  constexpr bool is_below(branch b, branch scope) const { return b.node < net_.paths[scope.node].end && !found(); }

  // Compares two nodes whose parents have the same path. The children of a node that adds nothing take its place.
  constexpr void compare(branch a, branch b) {
    const path_node &x = net_.paths[a.node], &y = net_.paths[b.node];
    if (x.adds == path_part::nothing && !x.layer) {
      for (branch child = first_below(a); is_below(child, a); child = next(child)) compare(child, b);
    } else if (y.adds == path_part::nothing && !y.layer) {
      for (branch child = first_below(b); is_below(child, b); child = next(child)) compare(a, child);
    } else if (adds_the_same(x, y)) {
      if (x.adds == path_part::repetition && y.adds == path_part::index) a.layers_before += y.number * x.layers;
      if (y.adds == path_part::repetition && x.adds == path_part::index) b.layers_before += x.number * y.layers;
      compare_below(a, b);
    }
  }

  // Compares the children of two nodes that have the same path. Two layers with arrays collide.
  constexpr void compare_below(branch a, branch b) {
    const path_node &x = net_.paths[a.node], &y = net_.paths[b.node];
    if (y.layer && !x.layer) return compare_below(b, a);
    if (x.layer && y.layer) {
      if (!has_arrays(x.first) || !has_arrays(y.first)) return;
      layer_index = (std::min)(x.first + a.layers_before, y.first + b.layers_before);
      other_index = (std::max)(x.first + a.layers_before, y.first + b.layers_before);
      return;
    }
    for (branch child_b = first_below(b); is_below(child_b, b); child_b = next(child_b)) {
      if (!x.layer) {
        for (branch child_a = first_below(a); is_below(child_a, a); child_a = next(child_a)) compare(child_a, child_b);
      } else if (net_.paths[child_b.node].adds == path_part::nothing) {
        compare_below(a, child_b);
      }
    }
  }

  // Whether two nodes add the same part in some repetition: a repetition adds every number below its count.
  static constexpr bool adds_the_same(const path_node& a, const path_node& b) {
    if (a.adds == path_part::nothing || b.adds == path_part::nothing) return a.adds == b.adds;
    if (a.adds == path_part::name || b.adds == path_part::name)
      return a.adds == b.adds && std::string_view(a.name) == b.name;
    if (a.adds == path_part::index && b.adds == path_part::index) return a.number == b.number;
    if (a.adds == path_part::index) return a.number < b.number;
    return b.adds == path_part::repetition || b.number < a.number;
  }
  constexpr bool has_arrays(int l) const {
    return net_.type_of(l).parameter_count > 0 || net_.type_of(l).state_count > 0;
  }

  network net_{};
};

}  // namespace gpipe::detail
