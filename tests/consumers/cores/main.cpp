#include <gpipe/hwloc.hpp>

#include <iostream>

int main() {
  const gpipe::core_binding cores;
  std::cout << cores.divide(3, {}).size() << " workers have cores\n";
}
