// A simulation in 6 processes that trains a network on its results in 2 of them, and sends messages of its own.
//
//     mpirun -np 6 simulation        ranks 0 to 3 simulate, 4 and 5 train: the network learns to predict a pendulum
//     simulation                     one process does both, and its parameters have the same bits

#include <gpipe/data.hpp>
#include <gpipe/job.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>
#if GPIPE_WITH_MPI
#include <gpipe/mpi.hpp>
#endif

using namespace gpipe;

struct net : model<input<float, 2>, linear<32>, gelu, linear<32>, gelu, linear<2>, mean_squared_error> {};

constexpr int simulators = 4, samples = 8, rounds = 200;  // samples of a simulator in a round
using two_stages = plan<net, stages<2>, micro_batches<simulators>, micro_batch_size<samples>>;

/// Pendulums at a random angle and velocity, and a second later: four numbers for each.
std::vector<float> pendulums(int round, int simulator) {
  std::vector<float> all;
  for (int i = 0; i < samples; ++i) {
    const auto random =
        draw({}, static_cast<std::uint32_t>(round), static_cast<std::uint32_t>(samples * simulator + i));
    float angle = 2 * uniform(random.word[0]) - 1, velocity = 2 * uniform(random.word[1]) - 1;
    all.insert(all.end(), {angle, velocity});
    for (int step = 0; step < 100; ++step) velocity -= 0.01F * std::sin(angle), angle += 0.01F * velocity;
    all.insert(all.end(), {angle, velocity});
  }
  return all;
}

/// `receive(round, simulator)` returns a simulator's numbers.
template <class Receive>
void train(process_group* job, Receive receive) {
  trainer training{two_stages{}, adam{.learning_rate = 3e-3}, {.job = job}};
  double loss = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> before, after;
    for (int s = 0; s < simulators; ++s) {
      const std::vector<float> numbers = receive(round, s);
      for (std::size_t i = 0; i < numbers.size(); i += 4) {
        before.insert(before.end(), {numbers[i], numbers[i + 1]});
        after.insert(after.end(), {numbers[i + 2], numbers[i + 3]});
      }
    }
    const auto data = dataset{}.with("inputs", 2, before).with("targets", 2, after);
    for (const batch& all : data.batches(simulators * samples)) loss = training.step(all).loss;
  }
  const std::uint64_t hash = training.parameter_hash();
  if (job == nullptr || job->rank() == 0) std::cout << "loss " << loss << "\nparameters " << std::hex << hash << '\n';
}

#if GPIPE_WITH_MPI
/// Rank `rank` of `simulators` + 2.
void run_part(int rank) {
  MPI_Comm trainers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < simulators ? MPI_UNDEFINED : 0, rank, &trainers);
  if (rank < simulators) {
    for (int round = 0; round < rounds; ++round) {
      const std::vector<float> numbers = pendulums(round, rank);
      for (const int to : {simulators, simulators + 1})
        MPI_Send(numbers.data(), 4 * samples, MPI_FLOAT, to, round, MPI_COMM_WORLD);
    }
    return;
  }
  std::unique_ptr<mpi::job> job;  // destroyed last: after the error is printed
  try {
    job = std::make_unique<mpi::job>(trainers);
    train(job.get(), [](int round, int simulator) {
      std::vector<float> numbers(4 * samples);
      MPI_Recv(numbers.data(), 4 * samples, MPI_FLOAT, simulator, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      return numbers;
    });
  } catch (const error& failure) {
    if (job == nullptr || job->leave(failure)) std::cerr << "simulation: " << failure.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);  // the simulators would wait
  }
  job.reset();  // before the program ends MPI
  MPI_Comm_free(&trainers);
}
#endif

int main() {
#if GPIPE_WITH_MPI
  int level = 0, rank = 0, ranks = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool parts = ranks == simulators + 2;
  if (parts) run_part(rank);
  else if (ranks == 1) train(nullptr, pendulums);
  else if (rank == 0) std::cerr << "simulation: there are " << ranks << " processes; start 1 or 6\n";
  MPI_Finalize();
  return parts || ranks == 1 ? 0 : 1;
#else
  train(nullptr, pendulums);
#endif
}
