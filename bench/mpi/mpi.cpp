// How do processes compare with threads, with MPI itself and with another library's processes?
//
//     mpi [rounds]
//
// It calls mpirun for two processes of itself, `mpi --share` and `mpi --transfer`.

#include "../networks.hpp"
#include "../peer.hpp"
#include "../processes.hpp"
#include "share.hpp"

#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using namespace gpipe;

// An activation back and forth, and the same bytes by MPI alone -------------------------------------------------------

void measure_transfer(int rounds) {
  mpi::job job;
  const int rank = job.rank(), other = 1 - rank;
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20}) {
    std::vector<std::byte> out(bytes), in(bytes);
    const channel_layout there{other, 1, {{out.data(), 0, bytes}}, {0}, {0}},
        here{other, 1, {{in.data(), 0, bytes}}, {0}, {0}};
    const auto sender = job.sender(there);
    const auto receiver = job.receiver(here);
    const int count = static_cast<int>(bytes), times = bytes < 100'000 ? 2000 : 200;
    const auto ours = [&] {
      for (int i = 0; i < times; ++i) {
        for (int turn = 0; turn < 2; ++turn) {
          if (turn == rank) {
            sender->acquire(0, {});
            sender->publish(0, 1);
          } else {
            receiver->consume(0, {});
            receiver->release(0);
          }
        }
      }
    };
    const auto bare = [&] {
      for (int i = 0; i < times; ++i)
        for (int turn = 0; turn < 2; ++turn)
          if (turn == rank) MPI_Send(out.data(), count, MPI_BYTE, other, 1, MPI_COMM_WORLD);
          else MPI_Recv(in.data(), count, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    std::vector<double> ratio, us, bare_us;
    for (int round = -1; round < rounds; ++round) {
      const double before = bench::timed(bare), our = bench::timed(ours), after = bench::timed(bare);
      if (round < 0) continue;
      ratio.push_back(2 * our / (before + after));
      us.push_back(1e6 * our / (2 * times));
      bare_us.push_back(1e6 * (before + after) / (4 * times));
    }
    if (rank != 0) continue;
    std::printf("%7zu bytes: transferred in %.2f us, by MPI alone in %.2f us: %.3f (10 %% %.3f, 90 %% %.3f)\n", bytes,
                bench::median(us), bench::median(bare_us), bench::median(ratio), bench::quantile(ratio, 0.1),
                bench::quantile(ratio, 0.9));
    bench::result("mpi.transfer." + std::to_string(bytes >> 10) + "KiB", bench::median(ratio), "ratio");
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string part = count > 1 ? words[1] : "";
  const int rounds = std::atoi(words[count - 1]) > 0 ? std::atoi(words[count - 1]) : 15;
  if (part == "--share") bench::measure_share("mpi", rounds);
  else if (part == "--transfer") measure_transfer(rounds);
  if (part.starts_with("--")) return 0;

  bench::print_environment();
  auto found = bench::run_processes(2, "--share " + std::to_string(rounds));
  bench::run_processes(2, "--transfer " + std::to_string(rounds));
  bench::rival torch("torch/pipelining.py", "mlp");
  double best = 0;
  for (const char* way : {"gpipe", "1f1b"}) {
    constexpr int steps = 3;
    std::vector<double> rates;
    for (int round = -1; round < rounds; ++round)  // the first round touches memory
      if (const double seconds = torch.seconds(way, steps); round >= 0)
        rates.push_back(6e-9 * static_cast<double>(network_of<bench::mlp>.parameters()) * bench::samples * steps /
                        seconds);
    if (bench::median(rates) > 0)
      std::printf("torch.distributed.pipelining, %s: %.1f GFLOP/s\n", way, bench::median(rates));
    best = std::max(best, bench::median(rates));
  }
  if (best > 0)
    bench::result("mpi.over_pipelining", std::max(found["mpi.gflops"], found["mpi.gflops.1f1b"]) / best, "ratio");
  else std::printf("torch is not installed: no comparison\n");
}
