#pragma once

// Runs an example as several processes, and binds workers to cores. The program calls mpirun itself unless mpirun
// started it.

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>
#if GPIPE_WITH_HWLOC
#include <gpipe/hwloc.hpp>
#endif
#if GPIPE_WITH_MPI
#include <gpipe/mpi.hpp>
#endif

namespace example {

// change: a transport
enum class transport { threads, mpi };

/// How many copies of the program mpirun or srun started; 0: the program was started without them.
inline int copies() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* count = std::getenv(name)) return std::atoi(count);
  const char* const count = std::getenv("SLURM_STEP_NUM_TASKS");
  return count != nullptr && std::getenv("PMIX_RANK") != nullptr ? std::atoi(count) : 0;
}

/// For the last handler of `main`: whether this process prints the error. The other processes end, too.
inline bool prints_error(gpipe::process_group* job, const std::exception& failure) {
  if (job != nullptr) {
    const auto* const known = dynamic_cast<const gpipe::error*>(&failure);
    return job->leave(known != nullptr ? *known : gpipe::error(failure.what(), ""));
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const char* rank = std::getenv(name)) return std::atoi(rank) == 0;
  return true;
}

/// The exit code for an error: 75 if another process of the job was lost, so that a new job may go on.
inline int exit_code(const gpipe::process_group* job) { return job != nullptr && job->lost() ? 75 : 1; }

/// `--processes N`: each replica has an equal part of them, each with one worker or, of `--workers`, several.
inline void use_processes(int processes, gpipe::plan_options& plan, transport& by) {
  if (processes == 0) return;
  if (processes % plan.replicas != 0)
    throw gpipe::error("option --processes: " + std::to_string(processes) + " is no multiple of --replicas, " +
                           std::to_string(plan.replicas),
                       "give each replica as many processes as the others");
  by = transport::mpi;
  if (plan.workers == 0) plan.workers = processes / plan.replicas;
}

/// `--bind`: cores of its own for each worker; null without.
inline std::unique_ptr<gpipe::core_placement> cores_of_workers(bool bind) {
  if (!bind) return nullptr;
#if GPIPE_WITH_HWLOC
  return std::make_unique<gpipe::core_binding>();
#else
  throw gpipe::error("option --bind: the program was built without hwloc",
                     "install libhwloc-dev, and configure again with GPIPE_HWLOC=ON");
#endif
}

/// Replaces this process by mpirun, which starts the program `processes` times.
[[noreturn]] inline void launch(int processes, int count, char** words) {
  // Allow more processes than cores, in Open MPI up to 4 and from 5 on.
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
  const std::string number = std::to_string(processes);
  std::vector<std::string> line{"mpirun", "-np", number, "/proc/self/exe"};
  std::string self(4096, '\0');
  if (const auto size = readlink("/proc/self/exe", self.data(), self.size()); size > 0)
    line[3] = self.substr(0, static_cast<std::size_t>(size));
  line.insert(line.end(), words + 1, words + count);
  std::vector<char*> pointers;
  for (std::string& word : line) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("mpirun", pointers.data());
  throw gpipe::error("mpirun does not start", "install openmpi-bin, or your system's MPI");
}

/// The job of this process; null if workers are threads. Throws if the others do not join within the deadline.
inline std::unique_ptr<gpipe::process_group> join(transport by, [[maybe_unused]] int workers,
                                                  [[maybe_unused]] std::chrono::seconds deadline,
                                                  [[maybe_unused]] int count, [[maybe_unused]] char** words) {
  if (by == transport::threads) {
    if (copies() > 1)
      throw gpipe::error("mpirun has started " + std::to_string(copies()) + " copies, and each would train alone",
                         "choose --transport mpi, or start the program without mpirun");
    return nullptr;
  }
#if GPIPE_WITH_MPI
  if (copies() == 0) launch(workers, count, words);
  return std::make_unique<gpipe::mpi::job>(true, deadline);
#else
  throw gpipe::error("the program was built without MPI",
                     "install libopenmpi-dev and openmpi-bin, and configure again with GPIPE_MPI=ON");
#endif
}

}  // namespace example
