#pragma once

#include <concepts>
#include <cstddef>

#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

namespace detail {

struct job_set_up;
const job_set_up& set_up_of_jobs();

}  // namespace detail

/// The job of a training, or none: `{.job = &world}`. A program that names no job compiles nothing of what processes do
/// together, because only the constructor from a job refers to it.
class job_choice {
 public:
  job_choice() = default;
  job_choice(std::nullptr_t) {}
  template <std::derived_from<process_group> Job>
  job_choice(Job* job) : group_(job), set_up_(&detail::set_up_of_jobs()) {}

  operator process_group*() const { return group_; }
  process_group* operator->() const { return group_; }
  /// Only if there is a job.
  const detail::job_set_up& set_up() const { return *set_up_; }

 private:
  process_group* group_ = nullptr;
  const detail::job_set_up* set_up_ = nullptr;
};

}  // namespace gpipe
