#pragma once

#include <gpipe/plan/options/static_options.hpp>

namespace gpipe {

namespace broken {

template <int Stage, int First, int End, bool Holds>
struct cut_ascends {
  static_assert(Holds, "gpipe: a cut names ascending slots of the model, and no stage is empty (Stage, its First slot, "
                       "the End before which it stops)");
};
template <int Stages, int Places, bool Holds>
struct cut_has_a_place_between_stages {
  static_assert(Holds, "gpipe: a cut names the first slot of every stage but the first (Stages, Places)");
};

}  // namespace broken

namespace detail {

/// The first stage of a user's own cut that is empty or ends outside the model; -1 if there is none.
template <class Cut>
constexpr int bad_stage(int slots) {
  for (int s = 0; s <= Cut::places; ++s) {
    const int begin = s == 0 ? 0 : Cut::between[s - 1], end = s == Cut::places ? slots : Cut::between[s];
    if (begin < 0 || end <= begin || end > slots) return s;
  }
  return -1;
}

/// Whether a plan takes its user's own cut. One that is wrong has its error here, and the plan goes on with the best.
template <class Types, int Stages, int Slots>
constexpr bool takes_own_cut() {
  using own = typename Types::own_cut;
  constexpr int bad = bad_stage<own>(Slots);
  if constexpr (!Types::has_cut) {
    return false;
  } else if constexpr (own::places != Stages - 1) {
    static_cast<void>(asserted<broken::cut_has_a_place_between_stages<Stages, own::places, false>>{});
    return false;
  } else if constexpr (bad >= 0) {
    constexpr int begin = bad == 0 ? 0 : own::between[bad - 1], end = bad == own::places ? Slots : own::between[bad];
    static_cast<void>(asserted<broken::cut_ascends<bad, begin, end, false>>{});
    return false;
  } else {
    return true;
  }
}

}  // namespace detail
}  // namespace gpipe
