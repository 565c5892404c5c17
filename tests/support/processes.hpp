#pragma once

#include <chrono>
#include <cstdlib>

#include <gpipe/mpi.hpp>

/// The job that a test program is in, which mpirun has started: every process runs all cases, and the program fails if
/// any of them does. With GPIPE_TEST_HOSTS set each process is as if on a host of its own.
inline gpipe::mpi::job& the_job() {
  static gpipe::mpi::job job(std::getenv("GPIPE_TEST_HOSTS") == nullptr);
  job.expect(std::chrono::seconds(30));
  return job;
}
