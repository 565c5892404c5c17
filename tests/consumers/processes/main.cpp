// A job of processes. MPI begins once in a process, and so a second job is refused.

#include <iostream>
#include <string>

#include <gpipe/mpi.hpp>

int main() {
  {
    const gpipe::mpi::job job;
    if (job.rank() == 0) std::cout << job.ranks() << " processes" << std::endl;
  }
  try {
    const gpipe::mpi::job again;
  } catch (const gpipe::error& refused) {
    return std::string(refused.what()).find("MPI has ended in this process") == std::string::npos;
  }
  return 1;
}
