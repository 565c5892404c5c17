#pragma once

#include <memory>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/processes/replica_part.hpp>
#include <gpipe/runtime/step/training_options.hpp>

namespace gpipe::detail {

class all_reduce;

/// How an executor becomes part of a job. The options of a training refer to it if they have a job, and to nothing
/// else.
struct job_set_up {
  /// Plans again, for processes: they share no memory.
  plan_maker plan;
  /// Checks that the plan has workers for each process of the job, and that all have the same plan. `carries`: the
  /// job transfers the device's memory. `rule`: the result of the optimizer's trial.
  void (*agree)(const network& net, const step_plan& plan, double rule, const training_options& options, bool carries);
  /// Makes all channel ends, which every process makes in the same order. Returns the sum over replicas; null if there
  /// is one replica.
  std::unique_ptr<all_reduce> (*connect)(process_group& job, const network& net, const step_plan& plan,
                                         replica_part& part, other_processes& processes);
};

}  // namespace gpipe::detail
