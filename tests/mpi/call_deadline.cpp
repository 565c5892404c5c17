#include <gpipe/mpi/call_deadline.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpipe/mpi.hpp>

// A process may stop in any call of MPI by which a job is joined or left. The others say so within the deadline and a
// second, and mpirun ends. The test starts jobs of three processes from this program; in each, rank 1 stops before one
// call, which this program defines around MPI's own.

using namespace std::chrono_literals;

namespace {

constexpr auto deadline = 1s;
constexpr int stopped_rank = 1;

/// The call before which rank 1 stops, in a process of a job; else empty.
std::string_view stop_before() {
  const char* const call = std::getenv("GPIPE_TEST_STOP");
  return call == nullptr ? "" : call;
}
void stop_in(std::string_view call) {
  if (call != stop_before() || gpipe::mpi::call_deadline::rank_before_init() != stopped_rank) return;
  // The process holds the pipe that the test reads, so it ends with mpirun, or at last by itself.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (alarm(25);;) pause();
}

struct ended_job {
  std::string output;
  int status = 0;
  bool stuck = false;
  std::chrono::duration<double> first_output{}, time{};
};

ended_job run(const std::string& call) {
  const std::string command = "GPIPE_TEST_STOP=" + call + " timeout -k 1 20 " GPIPE_TEST_MPIEXEC " -np 3 /proc/" +
                              std::to_string(getpid()) + "/exe --test-case='a process of a job' 2>&1 >/dev/null";
  const auto begin = std::chrono::steady_clock::now();
  ended_job result;
  FILE* const out = popen(command.c_str(), "r");
  REQUIRE(out != nullptr);
  for (int c = 0; (c = std::fgetc(out)) != EOF; result.output += static_cast<char>(c))
    if (result.output.empty()) result.first_output = std::chrono::steady_clock::now() - begin;
  result.status = pclose(out);
  const int code = WIFEXITED(result.status) ? WEXITSTATUS(result.status) : 0;
  result.stuck = code == 124 || code == 128 + SIGKILL;  // timeout's
  result.time = std::chrono::steady_clock::now() - begin;
  return result;
}

}  // namespace

extern "C" {
int MPI_Init_thread(int* count, char*** words, int wanted, int* provided) {
  stop_in("MPI_Init_thread");
  return PMPI_Init_thread(count, words, wanted, provided);
}
int MPI_Irecv(void* at, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  stop_in("arrival");
  return PMPI_Irecv(at, count, type, source, tag, comm, request);
}
int MPI_Comm_idup(MPI_Comm of, MPI_Comm* made, MPI_Request* request) {
  stop_in("MPI_Comm_idup");
  return PMPI_Comm_idup(of, made, request);
}
int MPI_Testall(int count, MPI_Request requests[], int* all, MPI_Status statuses[]) {
  stop_in("MPI_Testall");
  return PMPI_Testall(count, requests, all, statuses);
}
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
  stop_in("MPI_Comm_dup");
  return PMPI_Comm_dup(of, made);
}
int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* at, MPI_Win* made) {
  stop_in("MPI_Win_allocate_shared");
  return PMPI_Win_allocate_shared(size, unit, info, comm, at, made);
}
int MPI_Barrier(MPI_Comm comm) {
  stop_in("MPI_Barrier");
  return PMPI_Barrier(comm);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  stop_in("leave");
  return PMPI_Ibarrier(comm, request);
}
int MPI_Win_free(MPI_Win* window) {
  stop_in("MPI_Win_free");
  return PMPI_Win_free(window);
}
int MPI_Finalize() {
  stop_in("MPI_Finalize");
  return PMPI_Finalize();
}
}

TEST_CASE("a process of a job" * doctest::skip(stop_before().empty())) {
  try {
    if (stop_before() == "MPI_Comm_idup" || stop_before() == "MPI_Testall") {  // a communicator of the program
      int level = 0;
      PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
      gpipe::mpi::job job(MPI_COMM_WORLD, deadline);
    }
    gpipe::mpi::job job(true, deadline);
  } catch (const gpipe::error& failure) {
    std::cerr << failure.what() << std::endl;
    std::_Exit(EXIT_FAILURE);
  }
}

TEST_CASE("a process that stops while the job is joined or left ends the job, with a cause" *
          doctest::skip(!stop_before().empty())) {
  ended_job whole = run("nowhere");
  if (whole.stuck) whole = run("nowhere");
  CHECK(whole.output == "");
  CHECK(whole.status == 0);
  struct expectation {
    std::string call, message;
  };
  for (const expectation& expected : {
           expectation{"MPI_Init_thread", "MPI_Init_thread has not returned for 1 s; it waits for all processes"},
           expectation{"arrival", "rank 1 has not joined the job for 1 s; see what keeps it"},
           expectation{"MPI_Comm_idup", "rank 1 has not joined the job for 1 s; see what keeps it"},
           expectation{"MPI_Testall", "all 3 ranks have begun to join the job, and have not joined it for 1 s; see"},
           expectation{"MPI_Comm_dup", "MPI_Comm_dup has not returned for 1 s"},
           expectation{"MPI_Win_allocate_shared", "MPI_Win_allocate_shared has not returned for 1 s"},
           expectation{"MPI_Barrier", "MPI_Win_allocate_shared has not returned for 1 s"},
           expectation{"leave", "rank 1: the process"},
           expectation{"MPI_Win_free", "MPI_Win_free has not returned for 1 s"},
           expectation{"MPI_Finalize", "MPI_Finalize has not returned for 1 s"},
       }) {
    CAPTURE(expected.call);  // a structured binding cannot be captured under clang++ 14
    const ended_job ended = run(expected.call);
    CAPTURE(ended.output);
    CHECK(ended.output.find(expected.message) != std::string::npos);
    CHECK(ended.status != 0);
    CHECK(ended.first_output < whole.time + deadline + 3s);  // one second, and a busy machine
    // Rarely, Open MPI's mpirun waits for a lock of its own for ever, when all its processes have ended.
    if (ended.stuck) MESSAGE("mpirun itself did not end");
    else CHECK(ended.time < whole.time + deadline + 6s);  // it takes up to 5 s to end a process that does not
  }
}

TEST_CASE("a job of a communicator needs a program that has initialized MPI" * doctest::skip(!stop_before().empty())) {
  CHECK_THROWS_WITH_AS(gpipe::mpi::job(MPI_COMM_WORLD, deadline), doctest::Contains("MPI is not initialized; call"),
                       gpipe::error);
}
