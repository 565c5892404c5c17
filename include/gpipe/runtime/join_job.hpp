#pragma once

#include <gpipe/core/build_mode.hpp>
#include <gpipe/runtime/step/job_choice.hpp>

namespace gpipe::detail {

const job_set_up& set_up_of_jobs();

template <class>
struct job_functions {
  static const job_set_up& set_up() { return set_up_of_jobs(); }
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/join_job-inl.hpp>
#endif
