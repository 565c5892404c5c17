#include <iostream>

#include <gpipe/mpi.hpp>

int main() {
  const gpipe::mpi::job job;
  if (job.rank() == 0) std::cout << job.ranks() << " processes" << std::endl;
}
