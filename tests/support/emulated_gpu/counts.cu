#include "counts.hpp"

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include <gpipe/cuda/kernels/mma.hpp>

// Kernels whose counts are known by hand. CMake runs this with EMULATED_COUNTS=1.

namespace {

using namespace emulated;

constexpr unsigned blocks = 4, threads = 64, warps = blocks * threads / 32;

__device__ int index_in_grid() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void copy(const float* from, float* into, int stride) {
  const int i = stride * index_in_grid();
  into[i] = from[i];
}
__global__ void copy_four(const float4* from, float4* into) { into[index_in_grid()] = from[index_in_grid()]; }
__global__ void read_one(const float* from, float* into) { into[index_in_grid()] = from[0]; }
__global__ void copy_some(const float* from, float* into, int count) {
  if (index_in_grid() < count) into[index_in_grid()] = from[index_in_grid()];
}
__global__ void through_shared(float* into, int stride) {
  __shared__ float at[1024];
  at[stride * (threadIdx.x % 32)] = 1;
  __syncthreads();
  into[index_in_grid()] = at[stride * (threadIdx.x % 32)];
  __syncthreads();
}
__global__ void four_through_shared(float4* into) {
  __shared__ float4 at[threads];
  at[threadIdx.x] = {1, 2, 3, 4};
  __syncthreads();
  into[index_in_grid()] = at[threadIdx.x ^ 1];
}
/// Each lane multiplies as often as `times` says for it.
__global__ void multiply(float* into, const int* times) {
  float x = 1;
#pragma unroll 1
  for (int i = times[threadIdx.x % 32]; i > 0; --i) x = fmaf(x, x, 2.0f);
  into[index_in_grid()] = x;
}
/// The inner loop takes a lane 3 and 1 turns, and its neighbour 1 and 3.
__global__ void multiply_in_two_loops(float* into) {
  float x = 1;
#pragma unroll 1
  for (unsigned j = 0; j < 2; ++j)
#pragma unroll 1
    for (unsigned i = (threadIdx.x + j) % 2 == 0 ? 3 : 1; i > 0; --i) x = fmaf(x, x, 2.0f);
  into[index_in_grid()] = x;
}
__global__ void take_either_way(float* into, int odd, int even) {
  float x = 1;
  if (threadIdx.x % 2 == 1) {
#pragma unroll 1
    for (int i = odd; i > 0; --i) x = fmaf(x, x, 2.0f);
  } else {
#pragma unroll 1
    for (int i = even; i > 0; --i) x = fmaf(x, x, 3.0f);
  }
  into[index_in_grid()] = fmaf(x, 2.0f, 1.0f);
}
/// Block b has b turns.
__global__ void climb(float* into) {
  float x = 1;
#pragma unroll 1
  for (unsigned i = blockIdx.x; i > 0; --i) x = fmaf(x, x, 2.0f);
  into[index_in_grid()] = x;
}

/// A matrix of 8 x 8 from rows which begin `stride` bytes apart, and a product with it; 16 bytes for each thread are
/// copied before, where `copies` says so.
__global__ void multiply_on_tensor_cores(const float* from, float* into, unsigned stride, bool copies) {
  using namespace gpipe::cuda::detail;
  __shared__ uint4 rows[threads];
  begin_copy(shared_address(rows + threadIdx.x), from + 4 * threadIdx.x, copies ? 16 : 0);
  commit_copies();
  await_copies<0>();
  __syncthreads();
  unsigned word[1];
  load_matrices(word, shared_address(rows) + stride * (threadIdx.x % 8));
  sum_fragment sums{};
  left_fragment left{};
  left.word[0] = word[0];
  multiply_add(sums, left, {});
  into[index_in_grid()] = sums.value[0];
}

/// Zeros on the GPU.
template <class T>
struct zeros {
  T* data = nullptr;
  explicit zeros(std::size_t count) {
    REQUIRE(cudaMalloc(&data, count * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemset(data, 0, count * sizeof(T)) == cudaSuccess);
  }
  ~zeros() { cudaFree(data); }
  zeros(const zeros&) = delete;
  zeros& operator=(const zeros&) = delete;
};

/// The counts of the one launch of a call.
template <class Launch>
launch_counts counts_of(Launch&& launch, std::uint64_t most = ~std::uint64_t{0}) {
  most_blocks = most;
  take_counts();
  launch();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const auto found = take_counts();
  REQUIRE(found.size() == 1);
  return found.front();
}

TEST_CASE("the sectors of copies") {
  zeros<float> from(2048), into(2048);
  auto c = counts_of([&] { copy<<<blocks, threads>>>(from.data, into.data, 1); });
  CHECK(c.sectors == 2 * 256 * 4 / 32);  // read and written
  CHECK(c.needed_sectors == c.sectors);
  CHECK(c.of_pipe[load_store] == 2 * warps);
  CHECK(c.extra_passes == 0);
  CHECK(c.moved_bytes == 2 * 256 * 4);
  CHECK(c.divergent == 0);
  CHECK(c.barriers == 0);
  CHECK(c.rounds == blocks);
  c = counts_of([&] { copy<<<blocks, threads>>>(from.data, into.data, 2); });
  CHECK(c.sectors == 2 * 2 * 256 * 4 / 32);
  CHECK(c.needed_sectors == 2 * 256 * 4 / 32);
  CHECK(c.extra_passes == 2 * warps);  // 64 floats apart: 8 sectors, two passes
  c = counts_of([&] {
    copy_four<<<blocks, threads>>>(reinterpret_cast<float4*>(from.data), reinterpret_cast<float4*>(into.data));
  });
  CHECK(c.sectors == 2 * 256 * 16 / 32);
  CHECK(c.needed_sectors == c.sectors);
  CHECK(c.of_pipe[load_store] == 2 * warps);
  CHECK(c.extra_passes == 2 * warps * 3);  // 512 bytes
  c = counts_of([&] { read_one<<<blocks, threads>>>(from.data, into.data); });
  CHECK(c.sectors == warps + 256 * 4 / 32);
  CHECK(c.needed_sectors == c.sectors);
  CHECK(c.moved_bytes == blocks * 32 + 256 * 4);
}

TEST_CASE("lanes that take no part") {
  zeros<float> from(256), into(256);
  // Warp 3 has 4 of its lanes, and those behind it none.
  auto c = counts_of([&] { copy_some<<<blocks, threads>>>(from.data, into.data, 100); });
  CHECK(c.sectors == 2 * 13);  // 400 bytes
  CHECK(c.of_pipe[load_store] == 2 * 4);
  c = counts_of([&] { copy<<<blocks, 16>>>(from.data, into.data, 1); });
  CHECK(c.of_pipe[load_store] == 2 * blocks);
  CHECK(c.divergent == 0);  // for a warp has only 16 lanes
}

TEST_CASE("the wavefronts of shared memory") {
  zeros<float> into(1024);
  auto c = counts_of([&] { through_shared<<<blocks, threads>>>(into.data, 1); });
  CHECK(c.shared_accesses == 2 * warps);
  CHECK(c.wavefronts == 2 * warps);
  CHECK(c.conflicts == 0);
  CHECK(c.barriers == 2 * warps);
  CHECK(c.shared_bytes >= 4096);
  c = counts_of([&] { through_shared<<<blocks, threads>>>(into.data, 32); });
  CHECK(c.wavefronts == 2 * warps * 32);  // all in one bank
  CHECK(c.conflicts == 2 * warps * 31);
  c = counts_of([&] { through_shared<<<blocks, threads>>>(into.data, 2); });
  CHECK(c.conflicts == 2 * warps);
  c = counts_of([&] { through_shared<<<blocks, threads>>>(into.data, 0); });
  CHECK(c.conflicts == 0);  // one word for all
  c = counts_of([&] { four_through_shared<<<blocks, threads>>>(reinterpret_cast<float4*>(into.data)); });
  CHECK(c.shared_accesses == 2 * warps);
  CHECK(c.wavefronts == 2 * warps * 4);  // 512 bytes
  CHECK(c.conflicts == 0);
}

TEST_CASE("the instructions of loops and branches") {
  zeros<float> into(256);
  zeros<int> times(32);
  std::vector<int> of_lanes(32, 10);
  REQUIRE(cudaMemcpyAsync(times.data, of_lanes.data(), 128, cudaMemcpyHostToDevice, nullptr) == cudaSuccess);
  auto c = counts_of([&] { multiply<<<blocks, threads>>>(into.data, times.data); });
  CHECK(c.of_pipe[single] == 10 * warps);
  CHECK(c.of_pipe[tensor] == 0);
  CHECK(c.of_pipe[doubles] == 0);
  CHECK(c.of_pipe[special] == 0);
  CHECK(c.divergent == 0);
  for (int i = 0; i < 32; ++i) of_lanes[static_cast<std::size_t>(i)] = i + 1;
  REQUIRE(cudaMemcpyAsync(times.data, of_lanes.data(), 128, cudaMemcpyHostToDevice, nullptr) == cudaSuccess);
  const auto uneven = counts_of([&] { multiply<<<blocks, threads>>>(into.data, times.data); });
  CHECK(uneven.of_pipe[single] == 32 * warps);  // as often as the lane with the most
  // A turn has the same instructions in both; all turns but the first lack a lane.
  const auto of_turn = (uneven.issued - c.issued) / (22 * warps);
  CHECK(uneven.divergent == 31 * of_turn * warps);
  c = counts_of([&] { multiply_in_two_loops<<<blocks, threads>>>(into.data); });
  CHECK(c.of_pipe[single] == (3 + 3) * warps);
  c = counts_of([&] { take_either_way<<<blocks, threads>>>(into.data, 3, 5); });
  CHECK(c.of_pipe[single] == (3 + 5 + 1) * warps);
  CHECK(c.divergent >= (3 + 5) * warps);
  CHECK(c.divergent < c.issued - warps);
}

TEST_CASE("tensor cores, and what feeds them") {
  zeros<float> from(256), into(256);
  auto c = counts_of([&] { multiply_on_tensor_cores<<<blocks, threads>>>(from.data, into.data, 16, true); });
  CHECK(c.of_pipe[tensor] == warps * 16 * 8 * 16);
  CHECK(c.sectors == warps * (32 * 16 + 32 * 4) / 32);  // copied, and stored
  CHECK(c.shared_accesses == 2 * warps);
  CHECK(c.wavefronts == (4 + 1) * warps);  // of 512 bytes, and of a matrix
  CHECK(c.conflicts == 0);
  c = counts_of([&] { multiply_on_tensor_cores<<<blocks, threads>>>(from.data, into.data, 128, false); });
  CHECK(c.sectors == warps * 32 * 4 / 32);
  CHECK(c.conflicts == 7 * warps);  // rows of the matrix begin in one bank
}

TEST_CASE("a sample of the blocks has the counts of all") {
  zeros<float> from(1 << 16), into(1 << 16);
  const auto copied = [&] { copy<<<1024, threads>>>(from.data, into.data, 1); };
  auto all = counts_of(copied), some = counts_of(copied, 10);
  CHECK(all.ran == 1024);
  CHECK(some.ran == 10);
  CHECK(some.scale() * static_cast<double>(some.sectors) == doctest::Approx(static_cast<double>(all.sectors)));
  CHECK(some.scale() * static_cast<double>(some.issued) == doctest::Approx(static_cast<double>(all.issued)));
  CHECK(some.moved_bytes == doctest::Approx(all.moved_bytes));
  const auto climbed = [&] { climb<<<1000, threads>>>(into.data); };
  all = counts_of(climbed), some = counts_of(climbed, 32);
  CHECK(all.of_pipe[single] == 2 * 999 * 1000 / 2);
  CHECK(some.ran == 32);
  const double share = some.scale() * static_cast<double>(some.of_pipe[single]) / (999 * 1000);
  CHECK(share > 0.98);
  CHECK(share < 1.02);
}

}  // namespace
