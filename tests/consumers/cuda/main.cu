#include <iostream>

#include <gpipe/cuda/cuda.hpp>

int main() {
  try {
    std::cout << gpipe::cuda_device::memory_left() << " bytes on GPUs\n";
  } catch (const gpipe::error& e) {
    std::cout << "as there is no GPU: " << e.what() << '\n';
  }
}
