#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdio>

// Of tests that need a GPU: where there is none they are skipped, which is said, and told to CTest.
int main(int count, char** words) {
  int gpus = 0;
  const cudaError_t found = cudaGetDeviceCount(&gpus);
  if (found != cudaSuccess || gpus == 0) {
    std::printf("SKIPPED, NOTHING WAS TESTED: there is no GPU here (%s)\n", cudaGetErrorString(found));
    return 77;
  }
  return doctest::Context(count, words).run();
}
