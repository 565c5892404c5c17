#pragma once

#include <cstddef>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/model_array.hpp>

// The definitions of model_array's members. basic_trainer-inl.hpp includes them.

namespace gpipe {

GPIPE_INLINE GPIPE_COLD model_array::model_array(gpipe::executor& run, const detail::named_array& array)
    : path(detail::path_of(run.net(), array)),
      kind(array.kind),
      layer_index(array.layer_index),
      owner(run.net().owner(array).layer_index),
      name(detail::description_of(run.net(), array).name),
      type(run.net().type_of(layer_index).type),
      stage(run.plan().cut().stage_of(owner)),
      run_(&run),
      array_(array) {
  const detail::shape& tensor_shape = detail::description_of(run.net(), array).extents;
  extents.assign(tensor_shape.extents, tensor_shape.extents + tensor_shape.rank);
  if (kind == array_kind::parameter) group = run.groups().of(layer_index, array.index);
}

GPIPE_INLINE GPIPE_COLD void model_array::require_parameter() const {
  if (kind == array_kind::state)
    detail::throw_error({detail::quoted(path), " is state, which is not trained"},
                        {"read it by values(), write it by set()"});
}
GPIPE_INLINE GPIPE_COLD void model_array::require_type(dtype values_type) const {
  if (values_type != type)
    detail::throw_error({detail::name_of(kind), " \"", name, "\" is ", name_of(type)}, {"read it as that"},
                        detail::location_of(run_->net(), layer_index));
}

GPIPE_INLINE GPIPE_COLD array_location model_array::location() const { return detail::locate(run_->net(), array_); }
GPIPE_INLINE GPIPE_COLD array_location model_array::location_in(memory_kind memory) const {
  require_parameter();
  if (memory == memory_kind::averages && !run_->plan().options.average_weights)
    detail::throw_error({"average_weights is 0: there is no average of the weights"},
                        {"choose .average_weights = 0.999 in the options of the training"});
  return location().in(memory);
}
GPIPE_INLINE GPIPE_COLD array_location model_array::optimizer_location(int index) const {
  const std::vector<optimizer_array> arrays = optimizer_arrays();
  if (index < 0 || index >= static_cast<int>(arrays.size()))
    detail::throw_error({"the optimizer has no moment ", index},
                        {"it keeps ", arrays.size(), " arrays, counted from 0"});
  return arrays[detail::index(index)].location;
}
GPIPE_INLINE GPIPE_COLD std::vector<optimizer_array> model_array::optimizer_arrays() const {
  require_parameter();
  std::vector<optimizer_array> arrays;
  detail::each_optimizer_array(run_->net(), run_->plan().options, array_,
                               [&](const optimizer_array& kept) { arrays.push_back(kept); });
  return arrays;
}

GPIPE_INLINE GPIPE_COLD void model_array::copy(const array_location& source, void* target) const {
  run_->read(source, target);
}
GPIPE_INLINE GPIPE_COLD void model_array::write(const array_location& target, const detail::number_rows& values) {
  require_type(values.type);
  if (const std::size_t elements = target.bytes / detail::bytes_of(type); values.elements != elements)
    detail::throw_error({detail::name_of(kind), " \"", name, "\" has ", elements, " elements, not ", values.elements},
                        {"give all of them"}, detail::location_of(run_->net(), layer_index));
  run_->write(target, values.data);
}

}  // namespace gpipe
