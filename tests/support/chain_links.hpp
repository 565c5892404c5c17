#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>

/// Links between neighbours.
template <int Stages>
struct chain_of {
  gpipe::stage_link links[Stages] = {};
  constexpr chain_of() {
    for (int s = 0; s + 1 < Stages; ++s) links[s] = {s, s + 1};
  }
};
template <int Stages>
inline constexpr chain_of<Stages> chain;
