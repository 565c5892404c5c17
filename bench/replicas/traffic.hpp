#pragma once

// How many bytes does the busiest process send and receive in a step, with two and with four replicas? Counted where
// the library calls MPI.

#include "../measure.hpp"
#include "../networks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>

#include <gpipe/runtime/executor.hpp>

#if GPIPE_WITH_MPI
#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>

namespace bench {

struct traffic_counter {
  std::unordered_map<MPI_Request, std::int64_t> persistent{};  // bytes of a message
  std::int64_t bytes = 0;

  static traffic_counter& of_process() {
    static traffic_counter counter;
    return counter;
  }
};

}  // namespace bench

extern "C" {
inline int MPI_Send_init(const void* at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  const int code = PMPI_Send_init(at, count, type, to, tag, comm, request);
  bench::traffic_counter::of_process().persistent[*request] = count;
  return code;
}
inline int MPI_Recv_init(void* at, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  const int code = PMPI_Recv_init(at, count, type, from, tag, comm, request);
  bench::traffic_counter::of_process().persistent[*request] = count;
  return code;
}
inline int MPI_Startall(int count, MPI_Request* requests) {
  auto& counter = bench::traffic_counter::of_process();
  for (int i = 0; i < count; ++i) counter.bytes += counter.persistent[requests[i]];
  return PMPI_Startall(count, requests);
}
}

namespace bench {

/// In each process of a job, a replica each: the bytes of the busiest one in a step.
inline void measure_traffic() {
  using namespace gpipe;
  mpi::job job;
  training_options how;
  how.job = &job;
  const random_images made(8 * job.ranks());
  const batch on = made.all();
  trainer<mlp, sgd> training({.micro_batch_size = 8, .replicas = job.ranks()}, {}, how);
  training.step(on);  // the first step also posts what later steps post again
  const std::int64_t before = traffic_counter::of_process().bytes;
  constexpr int steps = 4;
  for (int i = 0; i < steps; ++i) training.step(on);
  std::int64_t mine = (traffic_counter::of_process().bytes - before) / steps, most = 0;
  PMPI_Allreduce(&mine, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (job.rank() != 0) return;
  const auto gradients = static_cast<double>(4 * network_of<mlp>.parameters());
  std::printf("mlp, %d replicas: the busiest process sends and receives %.3f times the gradients' bytes in a step\n",
              job.ranks(), static_cast<double>(most) / gradients);
  result("replicas.bytes." + std::to_string(job.ranks()), static_cast<double>(most) / gradients, "gradients");
}

}  // namespace bench
#else

namespace bench {

inline void measure_traffic() {}

}  // namespace bench
#endif
