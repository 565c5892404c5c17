#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD void optimizer_update::use(const parameter_groups& groups) {
  const variant base = variants_.back();
  variants_.clear();
  for (const parameter_group& group : groups.all())
    variants_.push_back({group.weight_decay ? with_decay_(base.optimizer.get(), *group.weight_decay) : base.optimizer,
                         group.rate_factor});
  variants_.push_back(base);
}

GPIPE_INLINE GPIPE_COLD void optimizer_update::require_finite(dtype type, const update_terms& terms) const {
  for (std::size_t g = 0; g < variants_.size(); ++g) {
    update_terms group_terms = terms;
    group_terms.rate *= variants_[g].rate_factor;
    if ((type == dtype::float64 ? finite_doubles_ : finite_floats_)(variants_[g].optimizer.get(), group_terms))
      continue;
    throw_error({"an update of the parameter 1 is not a finite ", type == dtype::float64 ? "double" : "float",
                 ": the learning rate is ", significant(group_terms.rate, 6),
                 g + 1 < variants_.size() ? concat({" in groups[", static_cast<int>(g), "]"}) : ""},
                {"choose a smaller rate or weight decay, or a larger epsilon"});
  }
}

GPIPE_INLINE void optimizer_update::operator()(context_handle c, dtype type, const update_range& range,
                                               update_terms terms) const noexcept {
  const variant& v = variants_[index(range.group)];
  terms.rate *= v.rate_factor;
  (type == dtype::float64 ? doubles_ : floats_)(c, v.optimizer.get(), range, terms);
}

}  // namespace gpipe::detail
