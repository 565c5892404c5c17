#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpipe/mpi.hpp>

#include <gpipe/job.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// A process of a job is killed in a save: before each message that it sends, each point where it waits for all, and
// each fsync and rename. The disk has the checkpoint before or the new one, and the next save succeeds.
//
// The test starts jobs of three processes from this program, which defines these calls around the real ones.

using namespace laws;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr int ranks = 3;

struct net : model<input<float, 12>, linear<16>, gelu, linear<16>, gelu, linear<7>, softmax_cross_entropy> {};

/// In a process of a job: which process ends, and in which call of its save; else null.
const char* kill_rank() { return std::getenv("GPIPE_TEST_KILL_RANK"); }
int point_of_kill() { return std::atoi(std::getenv("GPIPE_TEST_KILL_POINT")); }

bool saving = false, is_victim = false;
int points = 0;  // of this process in its save

void point() {
  if (saving && points++ == point_of_kill() && is_victim) std::raise(SIGKILL);
}

trainer<net, adam> training_of(int stages, gpipe::process_group* job) {
  training_options how;
  how.seed = 5;
  how.deadline = 5s;
  how.job = job;
  return trainer<net, adam>({.stages = stages, .micro_batches = 2, .micro_batch_size = 4}, adam{}, how);
}
const samples<float> data(8, 12, 1);

/// Returns what the processes print.
std::string run(const std::string& folder, int rank, int point) {
  const std::string command = "GPIPE_TEST_FOLDER=" + folder + " GPIPE_TEST_KILL_RANK=" + std::to_string(rank) +
                              " GPIPE_TEST_KILL_POINT=" + std::to_string(point) +
                              " timeout -k 1 20 " GPIPE_TEST_MPIEXEC " -np " + std::to_string(ranks) + " /proc/" +
                              std::to_string(getpid()) + "/exe --test-case='a process of a job' 2>/dev/null";
  FILE* const out = popen(command.c_str(), "r");
  REQUIRE(out != nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(out)) != EOF;) text += static_cast<char>(c);
  pclose(out);
  return text;
}

}  // namespace

extern "C" {
int MPI_Isend(const void* at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  point();
  return PMPI_Isend(at, count, type, to, tag, comm, request);
}
int MPI_Startall(int count, MPI_Request* requests) {
  point();
  return PMPI_Startall(count, requests);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  point();
  return PMPI_Ibarrier(comm, request);
}
int MPI_Ibcast(void* at, int count, MPI_Datatype type, int from, MPI_Comm comm, MPI_Request* request) {
  point();
  return PMPI_Ibcast(at, count, type, from, comm, request);
}
int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm,
                   MPI_Request* request) {
  point();
  return PMPI_Iallreduce(from, to, count, type, how, comm, request);
}
int fsync(int file) {
  point();
  return static_cast<int>(::syscall(SYS_fsync, file));
}
int rename(const char* from, const char* to) noexcept {
  point();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

TEST_CASE("a process of a job" * doctest::skip(kill_rank() == nullptr)) {
  const std::string folder = std::getenv("GPIPE_TEST_FOLDER");
  try {
    gpipe::mpi::job job(true, 5s);
    is_victim = job.rank() == std::atoi(kill_rank());
    auto training = training_of(ranks, &job);
    training.load(folder);
    training.step(data.all());
    saving = true;
    training.save(folder);
    saving = false;
    std::printf("rank %d: %d points\n", job.rank(), points);
    std::fflush(stdout);
  } catch (const gpipe::error&) {
    std::_Exit(EXIT_FAILURE);
  }
}

TEST_CASE("a process that is killed anywhere in a save of its job leaves the checkpoint before, or the new one" *
          doctest::skip(kill_rank() != nullptr)) {
  const temporary_folder folder;
  auto training = training_of(1, nullptr);
  training.step(data.all());
  const auto begin = [&] {
    fs::remove_all(folder.path());
    training.save(folder.path());
  };
  const std::uint64_t before = state_of(training);
  begin();
  auto stepped = training_of(2, nullptr);
  stepped.load(folder.path());
  stepped.step(data.all());
  const std::uint64_t after = state_of(stepped);

  const std::string counts = run(folder.path(), -1, -1);
  auto found = training_of(3, nullptr);
  CHECK(found.load(folder.path()).steps == 2);
  CHECK(state_of(found) == after);
  int killed = 0, old = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string mark = "rank " + std::to_string(rank) + ": ";
    REQUIRE(counts.find(mark) != counts.npos);
    const int all = std::atoi(counts.c_str() + counts.find(mark) + mark.size());
    for (int at = 0; at < all; ++at, ++killed) {
      CAPTURE(rank);
      CAPTURE(at);
      begin();
      run(folder.path(), rank, at);
      const load_result loaded = found.load(folder.path());
      CHECK(loaded.skipped.empty());
      CHECK(state_of(found) == (loaded.steps == 1 ? before : after));
      old += loaded.steps == 1;
      found.step(data.all());
      found.save(folder.path());
      CHECK(stepped.load(folder.path()).steps == found.steps());
    }
  }
  MESSAGE(killed << " processes were killed; " << old << " times the checkpoint before was on the disk");
  CHECK(killed >= 30);
  CHECK(old > 0);
  CHECK(old < killed);
}
