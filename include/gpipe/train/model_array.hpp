#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe {

class basic_trainer;
class executor;

// assumes: one parameter type
/// A parameter of a training, or an array of a layer's state: its description and its values. From
/// `training.parameters()`, `array` or `state_array`; its calls are valid as long as the trainer. The calls that read
/// and write throw `error` if the elements have another type.
///
///     for (auto& p : training.parameters())
///       if (p.trainable()) std::cout << p.path << ' ' << p.size() << '\n';
///     std::vector<float> weight = training.array("0.weight").values();
class model_array {
 public:
  std::string path;            ///< "h.0.ln_1.weight"
  array_kind kind{};           ///< whether it is trained, or state
  int layer_index = 0;         ///< the layer's position in the model
  int owner = 0;               ///< the layer that owns the values: another one if the layer is tied to an earlier one
  std::string_view name;       ///< the layer's name for it: "weight"
  std::vector<int> extents{};  ///< of the tensor
  dtype type{};                ///< of its elements
  int stage = 0;               ///< the stage that holds the owner
  bool frozen = false;         ///< when this was made, the parameter or its group was frozen
  int group = 0;               ///< of a parameter: its position in `training_options::groups`; their number: in none

  /// The next step may change it.
  bool trainable() const { return kind == array_kind::parameter && !frozen; }
  std::size_t size() const {
    std::size_t product = 1;
    for (const int extent : extents) product *= static_cast<std::size_t>(extent);
    return product;
  }

  /// A copy of the values.
  template <detail::element T = float>
  std::vector<T> values() const {
    return read<T>(location());
  }
  /// A copy of a parameter's gradient in the last step, a sum over samples; of its moving average; of the `index`-th
  /// array that the optimizer keeps for it.
  template <detail::element T = float>
  std::vector<T> gradient() const {
    return read<T>(location_in(memory_kind::gradients));
  }
  template <detail::element T = float>
  std::vector<T> average() const {
    return read<T>(location_in(memory_kind::averages));
  }
  template <detail::element T = float>
  std::vector<T> moment(int index) const {
    return read<T>(optimizer_location(index));
  }
  /// The arrays that the optimizer keeps for a parameter, in the order of `moment`: "moment.0", "row", ...
  std::vector<optimizer_array> optimizer_arrays() const;

  /// Sets the values, in all replicas: from a vector, a span, an array, ... of numbers. A parameter's values are
  /// written to its moving average, too.
  template <class Values>
  void set(const Values& values) {
    write(location(), detail::number_rows_of(values));
  }
  template <class Values>
  void set_average(const Values& values) {
    write(location_in(memory_kind::averages), detail::number_rows_of(values));
  }
  template <class Values>
  void set_moment(int index, const Values& values) {
    write(optimizer_location(index), detail::number_rows_of(values));
  }

 private:
  friend basic_trainer;
  model_array(gpipe::executor& run, const detail::named_array& array);

  array_location location() const;
  array_location location_in(memory_kind memory) const;
  array_location optimizer_location(int index) const;
  void require_parameter() const;
  void require_type(dtype values_type) const;
  void copy(const array_location& source, void* target) const;
  void write(const array_location& target, const detail::number_rows& values);
  template <class T>
  std::vector<T> read(const array_location& location) const {
    require_type(dtype_of<T>);
    std::vector<T> values(location.bytes / sizeof(T));
    copy(location, values.data());
    return values;
  }

  gpipe::executor* run_;
  detail::named_array array_;
};

}  // namespace gpipe

namespace gpipe::detail {

/// The layer, if the network has it; else throws `error`.
GPIPE_COLD inline int known_layer(const network& net, int layer) {
  if (layer < 0 || layer >= net.layer_count)
    throw_error({"the model has no layer ", layer}, {"layers are 0 to ", net.layer_count - 1}, {.layer_index = layer});
  return layer;
}
/// The location of an error in a layer.
GPIPE_COLD inline location location_of(const network& net, int layer) {
  return {.layer = std::string(net.type_of(layer).name), .layer_index = layer};
}

constexpr const char* name_of(array_kind kind) { return kind == array_kind::parameter ? "parameter" : "state"; }

/// The array of a layer with this name. Throws `error`, which lists the names that the layer has.
GPIPE_COLD inline named_array find_array(const layer_type& r, int layer, std::string_view name, array_kind kind) {
  const bool trained = kind == array_kind::parameter;
  const parameter* const list = trained ? r.parameters : r.state;
  const int count = trained ? r.parameter_count : r.state_count;
  std::string known;
  for (int i = 0; i < count; ++i) {
    if (list[i].name == name) return {layer, i, kind};
    known.append(known.empty() ? "" : ", ").append(list[i].name);
  }
  throw_error({"the layer has no ", name_of(kind), " \"", name, "\""},
              {trained ? "its parameters: " : "its state: ", known.empty() ? "none" : known},
              {.layer = std::string(r.name), .layer_index = layer});
}

}  // namespace gpipe::detail
