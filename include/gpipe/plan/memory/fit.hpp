#pragma once

#include <gpipe/model/promises.hpp>
#include <gpipe/plan/memory/compile_time.hpp>

#include <cstdint>
#include <utility>

namespace gpipe {

namespace broken {

template <int Stage, std::int64_t BytesNeeded, std::int64_t BytesAllowed, bool Holds>
struct stage_fits_memory {
  static_assert(Holds, "gpipe: a stage needs more memory than it is allowed (Stage, BytesNeeded, BytesAllowed)");
};

}  // namespace broken

namespace detail {

/// Reports each stage of a cut (see `memory_table`) that needs more bytes than are allowed.
template <class Cut, std::int64_t Allowed, int... I>
constexpr bool each_stage_fits(std::integer_sequence<int, I...>) {
  // True even so: the mistake has had its error.
  return (asserted<broken::stage_fits_memory<I, memory_table<Cut>.of[I].total(), Allowed,
                                             (memory_table<Cut>.of[I].total() <= Allowed)>>::value && ...);
}

}  // namespace detail
}  // namespace gpipe
