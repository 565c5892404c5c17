#pragma once

#include <concepts>
#include <cstddef>

#include <gpipe/core/included.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

namespace detail {

struct job_set_up;

/// The functions that set up a job. Only <gpipe/job.hpp> completes it.
template <class>
struct job_functions;

}  // namespace detail

/// The job of a training, or none: `{.job = &world}`. A program that names no job compiles no code for several
/// processes, because only the constructor from a job refers to it.
class job_choice {
 public:
  job_choice() = default;
  job_choice(std::nullptr_t) {}
  template <std::derived_from<process_group> Job>
  job_choice(Job* job) : group_(job), set_up_(set_up_by<Job>()) {}

  operator process_group*() const { return group_; }
  process_group* operator->() const { return group_; }
  /// Only if there is a job.
  const detail::job_set_up& set_up() const { return *set_up_; }

 private:
  template <class Job>
  static const detail::job_set_up* set_up_by() {
    static_assert(detail::included<detail::job_functions<Job>>,
                  "gpipe: the option .job of a training sets up processes: #include <gpipe/job.hpp>");
    if constexpr (detail::included<detail::job_functions<Job>>) return &detail::job_functions<Job>::set_up();
    else return nullptr;
  }

  process_group* group_ = nullptr;
  const detail::job_set_up* set_up_ = nullptr;
};

}  // namespace gpipe
