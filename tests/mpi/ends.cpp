#include <gpipe/mpi/ends.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "support/channel_law.hpp"
#include "support/processes.hpp"

// The law of channels over the ends of MPI. Rank 0 sends, rank 1 receives, the other ranks wait.

using namespace channel_law;

namespace {

struct in_mpi_job {
  static constexpr int messages = 200;
  static constexpr bool counts_samples = true, any_order = true, counts_allocations = true;
  static inline const bool names_location = std::getenv("GPIPE_TEST_HOSTS") == nullptr;
  static std::vector<gpipe::wait_limits> limits() { return {usual}; }

  in_mpi_job(const channel_shape& s, const gpipe::wait_limits& by) : form(s), deadline(by.deadline) {}

  void run(const body& sender, const body& receiver) { run_in_job(the_job(), form, sender, receiver); }

  /// A wait without progress ends a job of processes, so that it is one of its own.
  void run_lost(const body& sender, const body& receiver) {
    the_job();
    gpipe::mpi::job job(std::getenv("GPIPE_TEST_HOSTS") == nullptr);
    job.expect(deadline);
    const bool sends = job.rank() == 0;
    buffers memory(1, 1);
    const auto layout = layout_of(form, 1 - job.rank(), sends, memory);
    const auto out = sends ? job.sender(layout) : nullptr;
    const auto in = job.rank() == 1 ? job.receiver(layout) : nullptr;
    side_in_job here(job, form, sends, memory);
    here.out = out.get(), here.in = in.get();
    if (job.rank() < 2) (sends ? sender : receiver)(here);
    else here.await_failure();
  }

  channel_shape form;
  std::chrono::nanoseconds deadline;
};

}  // namespace

CHANNEL_LAW(in_mpi_job);
