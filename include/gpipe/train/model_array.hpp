#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>

namespace gpipe {

template <class Device>
class basic_trainer;

/// A parameter of a training, or a part of a layer's state: what it is, and its values. From `training.parameters()`;
/// its calls are valid as long as the trainer.
///
///     for (auto& p : training.parameters())
///       if (p.trainable()) std::cout << p.path << ' ' << p.size() << '\n';
template <class Device>
class model_array {
 public:
  std::string path;            ///< "h.0.ln_1.weight"
  array_kind kind{};           ///< whether it is trained, or state
  int slot = 0;                ///< the layer's position in the model
  int owner = 0;               ///< the slot that owns the values: another one if the layer is tied to an earlier one
  std::string_view name;       ///< the layer's name for it: "weight"
  std::vector<int> extents{};  ///< of the tensor
  dtype type{};                ///< of its elements
  int stage = 0;               ///< that holds the owner's slot
  bool frozen = false;         ///< it did not change from `freeze` on, when the list was made, or its group is frozen
  int group = 0;               ///< of a parameter: its position in `training_options::groups`; their number: in none

  /// The next step may change it.
  bool trainable() const { return kind == array_kind::parameter && !frozen; }
  std::size_t size() const {
    std::size_t product = 1;
    for (const int extent : extents) product *= static_cast<std::size_t>(extent);
    return product;
  }

  /// A copy of the values; of a parameter's gradient in the last step; of the optimizer's `index`-th array for it.
  template <detail::element T = float>
  std::vector<T> values() const {
    return kind == array_kind::parameter ? training_->template parameter<T>(slot, name)
                                         : training_->template state<T>(slot, name);
  }
  template <detail::element T = float>
  std::vector<T> gradient() const {
    return training_->template gradient<T>(path);
  }
  template <detail::element T = float>
  std::vector<T> moment(int index) const {
    return training_->template moment<T>(path, index);
  }
  /// Sets the values, in all replicas: from a vector, a span, an array, ... of numbers.
  template <class Values>
  void set(const Values& values) {
    if (kind == array_kind::parameter) training_->set_parameter(slot, name, values);
    else training_->set_state(slot, name, values);
  }

 private:
  friend basic_trainer<Device>;
  basic_trainer<Device>* training_ = nullptr;
};

}  // namespace gpipe
