#pragma once

#include <chrono>

#include <gpipe/mpi.hpp>

/// The job that a test program is in, which mpirun has started: every process runs all cases, and the program fails if
/// any of them does.
inline gpipe::mpi::job& the_job() {
  static gpipe::mpi::job job;
  job.expect(std::chrono::seconds(30));
  return job;
}
