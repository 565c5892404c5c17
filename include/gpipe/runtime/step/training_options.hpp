#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/descriptions/rate.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe {

/// The cut of a training, or none: `{.cut = {3, 7}}`, the first layer of every stage but the first. A program that
/// names no cut compiles no planner for it, because only the constructors from layers refer to it.
class cut_choice {
 public:
  cut_choice() = default;
  template <std::same_as<int> Layer>
  cut_choice(std::vector<Layer> first) : first_(std::move(first)), plan_(plan_by<Layer>()) {}
  template <std::same_as<int> Layer>
  cut_choice(std::initializer_list<Layer> first) : cut_choice(std::vector<Layer>(first)) {}

  bool empty() const { return first_.empty(); }
  std::span<const int> first() const { return first_; }
  /// Only if the cut is not empty.
  detail::plan_maker plan() const { return plan_; }

 private:
  template <class Layer>
  static detail::plan_maker plan_by() {
    static_assert(detail::included<detail::planner<Layer>>,
                  "gpipe: the option .cut of a training plans at run time: #include <gpipe/make_plan.hpp>");
    if constexpr (detail::included<detail::planner<Layer>>) return detail::planner<Layer>::plan_with_cut;
    else return nullptr;
  }

  std::vector<int> first_;
  detail::plan_maker plan_ = nullptr;
};

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

namespace gpipe {

namespace detail {

struct link_emulation;

/// The emulation of links. Only <gpipe/testing.hpp> completes it.
template <class>
struct link_emulator;

}  // namespace detail

// change: link emulation
/// The emulation of links at a number of bytes per second, or none: `{.link_bytes_per_second = 1'000'000}`. A program
/// that emulates no link compiles none of it, because only the constructor from a number refers to it.
class link_choice {
 public:
  link_choice() = default;
  template <std::integral Rate>
  link_choice(Rate bytes_per_second)
      : bytes_per_second_(static_cast<std::int64_t>(bytes_per_second)), emulation_(emulation_by<Rate>()) {}

  explicit operator bool() const { return bytes_per_second_ != 0; }
  std::int64_t bytes_per_second() const { return bytes_per_second_; }
  /// Only if links are emulated.
  const detail::link_emulation& emulation() const { return *emulation_; }

 private:
  template <class Rate>
  static const detail::link_emulation* emulation_by() {
    static_assert(
        detail::included<detail::link_emulator<Rate>>,
        "gpipe: the option .link_bytes_per_second of a training emulates links: #include <gpipe/testing.hpp>");
    if constexpr (detail::included<detail::link_emulator<Rate>>) return &detail::link_emulator<Rate>::emulation;
    else return nullptr;
  }

  std::int64_t bytes_per_second_ = 0;
  const detail::link_emulation* emulation_ = nullptr;
};

}  // namespace gpipe

namespace gpipe {

/// The action if a kernel has not returned a deadline after the last progress.
enum class deadline_action : std::uint8_t {
  fail,   ///< the call throws; if a kernel still runs on the calling thread, it cannot, and this acts as `abort`
  abort,  ///< a further thread prints where the kernel is, and ends the process by `std::abort`
};

// change: a training option
/// The options of a training in addition to its plan and its optimizer:
/// `{.seed = 7, .learning_rate_schedule = cosine{1000}, .max_grad_norm = 1}`. An executor takes them all too; it gets
/// the learning rate and the norm with each step, and the cut with its plan.
struct training_options {
  std::uint64_t seed = 0;
  rate_schedule learning_rate_schedule = constant{};  ///< multiplies the optimizer's learning rate
  double max_grad_norm = 0;               ///< the largest norm of the mean gradient (Pascanu et al., 2012); 0: no limit
  std::vector<parameter_group> groups{};  ///< parameters with their own settings; the first that matches applies
  double average_weights = 0;  ///< keeps a moving average of the weights with this decay, such as 0.9999; 0: none
  cut_choice cut{};            ///< the first layer of every stage but the first; empty: the best cut

  std::chrono::nanoseconds deadline = wait_limits{}.deadline;  ///< a call fails after this time without progress
  deadline_action on_deadline = deadline_action::fail;
  std::size_t trace_events = 0;  ///< events kept for each worker; 0: no trace
  std::byte arena_fill{0};       ///< the value of memory before its first use
  std::size_t digest_calls = 0;  ///< calls of train and accumulate that are hashed; 0: no digest
  bool canary = GPIPE_CANARY;    ///< poisons dead buffers, so that a layer that reads one makes its gradients NaN
  /// Emulates links: a transfer between two workers arrives when a link with this many bytes per second would have
  /// carried it. Each direction carries one transfer after the other. 0: no emulation. Include <gpipe/testing.hpp>.
  link_choice link_bytes_per_second{};
  bool layer_times = false;  ///< times each layer in every step, for `layer_profile`
  /// Each worker records the operations of a step until the commit as graphs, and launches them in later steps: one
  /// graph, or with several workers one between two points where they order themselves. A step with another number of
  /// samples is recorded again, and so is every step of a worker with a layer that draws random numbers. For devices
  /// that have graphs, in one process and one replica. The bits are the same.
  bool graph = false;
  job_choice job{};  ///< each process of the job is one of the plan's workers; null: one process
  /// Binds each worker to its own cores, with its stages' memory near them: a `core_binding` of <gpipe/hwloc.hpp>,
  /// which outlives the training. The first worker, the calling thread, is bound during calls. Null: no worker is
  /// bound, and a worker that shares its core moves. The bits are the same.
  const core_placement* cores = nullptr;
  // change: a hook between backward and update
  /// Every worker calls this before each instruction of a step until the commit, which is before its first update. If
  /// it throws, the step fails.
  std::function<void(const instruction&)> before{};
};

}  // namespace gpipe
