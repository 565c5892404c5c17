#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/step/training_options.hpp>

namespace gpipe {

struct step_plan;

namespace detail {

/// The error names numbers of processes that fit the plan.
[[noreturn]] void throw_rank_count(const step_plan& plan, int ranks);

const job_set_up& set_up_of_jobs();

template <class>
struct job_functions {
  static const job_set_up& set_up() { return set_up_of_jobs(); }
};

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/runtime/join_job-inl.hpp>
#endif
