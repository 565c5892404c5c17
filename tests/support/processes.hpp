#pragma once

#include <chrono>
#include <cstdlib>

#include <gpipe/mpi.hpp>

/// The job of a test program, which mpirun has started. Every process runs all cases, and the test fails if any process
/// fails. With GPIPE_TEST_HOSTS set each process is as if on a host of its own.
inline gpipe::mpi::job& the_job() {
  static gpipe::mpi::job job(std::getenv("GPIPE_TEST_HOSTS") == nullptr);
  job.expect(std::chrono::seconds(30));
  return job;
}
