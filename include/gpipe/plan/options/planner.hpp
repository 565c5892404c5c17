#pragma once

#include <span>

#include <gpipe/model/network.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe {

struct step_plan;

namespace detail {

/// Plans a training of `ranks` processes, or of none (0).
using plan_maker = step_plan (*)(const network& net, const plan_options& options, std::span<const int> cut, int ranks);

/// The planner at run time. Only <gpipe/make_plan.hpp> completes it, so that other programs compile no planner.
template <class>
struct planner;

}  // namespace detail

}  // namespace gpipe
