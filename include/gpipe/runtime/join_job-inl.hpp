#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/join_job.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/processes/training_agreement.hpp>
#include <gpipe/runtime/replicas/process_all_reduce.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE void throw_rank_count(const step_plan& plan, int ranks) {
  const int R = plan.replicas(), per_replica = ranks / R, max_workers = plan.options.max_workers();
  if (const int named = plan.options.named_processes(); named > 0)
    throw_error({"the job has ", ranks, ranks == 1 ? " process" : " processes", ", and the plan's devices are in ",
                 named, R > 1 ? concat({" of each of ", R, " replicas"}) : std::string()},
                {"start ", R * named, " processes, or name no process of a device"});
  const int fewer = R * (std::min)(per_replica, max_workers), more = R * (per_replica + 1);
  const bool divides = ranks % R == 0 && per_replica <= max_workers;  // the options have another number of workers
  const std::string right = divides                      ? std::to_string(R * plan.workers())
                            : per_replica >= max_workers ? std::to_string(fewer)
                            : per_replica == 0           ? std::to_string(more)
                                                         : concat({fewer, " or ", more});
  throw_error({"the job has ", ranks, ranks == 1 ? " process" : " processes", ", and the plan ",
               several(R * plan.workers(), "worker"), R > 1 ? concat({" in ", R, " replicas"}) : std::string()},
              {"start ", right, " processes",
               divides ? concat({", or choose ", several(per_replica, "worker")}) : std::string(),
               divides && R > 1 ? " of each replica" : ""});
}

GPIPE_COLD inline void agree(const network& net, const step_plan& plan, double rule, const training_options& options,
                             bool carries) {
  process_group& job = *options.job;
  job.expect(options.deadline);
  std::vector<agreed_value> values = agreed_values_of(net, plan);
  values.push_back(agreed_value::real("the optimizer: the result of a trial", rule));
  const std::vector<agreed_value> chosen = agreed_values_of(options);
  values.insert(values.end(), chosen.begin(), chosen.end());
  job.agree(collective_kind::make, values);
  const rank_layout ranks(plan, &job);
  if (!ranks.fits()) throw_rank_count(plan, job.ranks());
  if (ranks.count() > 1 && !job.takes_threads())
    throw_error({"a process of the job has ", ranks.count(), " workers, but the job takes one thread of each"},
                {plan.processes_of_workers.empty() ? "" : "name a process of its own for each worker's devices, and ",
                 "start ", plan.replicas() * plan.workers(),
                 " processes; an mpi::job takes more threads after MPI_Init_thread with MPI_THREAD_SERIALIZED"});
  job.set_workers(ranks.counts());
  // change: link emulation
  // assumes: several lengths in one process
  if (options.link_bytes_per_second)
    throw_error({"links between processes are not emulated"}, {"choose .link_bytes_per_second = 0"});
  if (!carries)
    throw_error({"the job transfers host memory only, but the stages are on another device"},
                {"train in one process, which may have several such devices, or use nccl::job for GPUs"});
  if (!plan.options.separate_memory)
    throw_error({"separate_memory is false, but processes share no memory"}, {"choose .separate_memory = true"});
}

GPIPE_COLD inline std::unique_ptr<all_reduce> connect(process_group& job, const network& net, const step_plan& plan,
                                                      replica& own_replica, other_processes& processes) {
  std::unique_ptr<all_reduce> sums;
  processes.connect(job, net, plan, own_replica.maps(), own_replica.queues(), own_replica.channels());
  if (plan.replicas() > 1) sums = std::make_unique<process_all_reduce>(job, net, plan, own_replica);
  job.connect();
  return sums;
}

GPIPE_COLD GPIPE_INLINE const job_set_up& set_up_of_jobs() {
  static constexpr job_set_up calls{&plan_training_with_cut, &agree, &connect};
  return calls;
}

}  // namespace gpipe::detail
