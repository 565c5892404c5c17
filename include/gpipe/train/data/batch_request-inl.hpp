#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/train/data/batch_request.hpp>

namespace gpipe {

GPIPE_INLINE std::size_t batch_request::find(std::string_view name, dtype type) const {
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].name != name) continue;
    if (fields_[f].type == type) return f;
    detail::throw_error({"field ", detail::quoted(name), " is ", name_of(fields_[f].type)}, {"fill it as that"});
  }
  std::string known;
  for (const data_field& f : fields_) known.append(known.empty() ? "" : ", ").append(f.name);
  detail::throw_error({"the source has no field ", detail::quoted(name)}, {"it has ", known.empty() ? "none" : known});
}

}  // namespace gpipe
