#pragma once

#include <cstddef>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/memory/optimizer_arrays.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/array.hpp>
#include <gpipe/train/model_array.hpp>

// The bodies of model_array's members, which basic_trainer-inl.hpp includes.

namespace gpipe {

GPIPE_INLINE GPIPE_COLD model_array::model_array(gpipe::executor& run, const detail::named_array& which)
    : path(detail::path_of(run.net(), which)),
      kind(which.kind),
      layer_index(which.layer_index),
      owner(run.net().owner(which).layer_index),
      name(detail::description_of(run.net(), which).name),
      type(run.net().type_of(layer_index).type),
      stage(run.plan().cut().stage_of(owner)),
      run_(&run),
      which_(which) {
  const detail::shape& all = detail::description_of(run.net(), which).extents;
  extents.assign(all.extents, all.extents + all.rank);
  if (kind == array_kind::parameter) group = run.groups().of(layer_index, which.index);
}

GPIPE_INLINE GPIPE_COLD void model_array::require_parameter() const {
  if (kind == array_kind::state)
    detail::throw_error({detail::quoted(path), " is state, which is not trained"},
                        {"read it by values(), write it by set()"});
}
GPIPE_INLINE GPIPE_COLD void model_array::require_type(dtype of_values) const {
  if (of_values != type)
    detail::throw_error({detail::name_of(kind), " \"", name, "\" is ", name_of(type)}, {"read it as that"},
                        detail::location_of(run_->net(), layer_index));
}

GPIPE_INLINE GPIPE_COLD array_location model_array::location() const { return detail::locate(run_->net(), which_); }
GPIPE_INLINE GPIPE_COLD array_location model_array::beside(memory_kind of_parameter) const {
  require_parameter();
  if (of_parameter == memory_kind::averages && !run_->plan().options.average_weights)
    detail::throw_error({"average_weights is 0: there is no average of the weights"},
                        {"choose .average_weights = 0.999 in the options of the training"});
  return location().in(of_parameter);
}
GPIPE_INLINE GPIPE_COLD array_location model_array::kept(int index) const {
  const std::vector<optimizer_array> all = optimizer_arrays();
  if (index < 0 || index >= static_cast<int>(all.size()))
    detail::throw_error({"the optimizer has no moment ", index}, {"it keeps ", all.size(), " arrays, counted from 0"});
  return all[detail::index(index)].location;
}
GPIPE_INLINE GPIPE_COLD std::vector<optimizer_array> model_array::optimizer_arrays() const {
  require_parameter();
  std::vector<optimizer_array> all;
  detail::each_optimizer_array(run_->net(), run_->plan().options, which_,
                               [&](const optimizer_array& kept) { all.push_back(kept); });
  return all;
}

GPIPE_INLINE GPIPE_COLD void model_array::copy(const array_location& from, void* into) const { run_->read(from, into); }
GPIPE_INLINE GPIPE_COLD void model_array::write(const array_location& into, const detail::number_rows& values) {
  require_type(values.type);
  if (const std::size_t elements = into.bytes / detail::bytes_of(type); values.elements != elements)
    detail::throw_error({detail::name_of(kind), " \"", name, "\" has ", elements, " elements, not ", values.elements},
                        {"give all of them"}, detail::location_of(run_->net(), layer_index));
  run_->write(into, values.data);
}

}  // namespace gpipe
