#pragma once

#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/convert.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE void require_convertible(safetensors_type type, const std::string& name,
                                                 const std::string& file) {
  using enum safetensors_type;
  if (type != F16 && type != BF16 && type != F32 && type != F64)
    throw_error({"tensor ", detail::quoted(name), " has elements of ", name_of(type), ", which do not convert"},
                {"store it as F16, BF16, F32 or F64, or read its bytes"}, {.file = file});
}

}  // namespace gpipe::detail
