#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdio>

// The main function of GPU tests: without a GPU they are skipped, with a message and CTest's skip code.
int main(int count, char** words) {
  int gpus = 0;
  const cudaError_t found = cudaGetDeviceCount(&gpus);
  if (found != cudaSuccess || gpus == 0) {
    std::printf("SKIPPED, NOTHING WAS TESTED: no GPU found (%s)\n", cudaGetErrorString(found));
    return 77;
  }
  return doctest::Context(count, words).run();
}
