#include <cublasLt.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <gpipe/cuda/kernels/mma.hpp>

// faults [fault]: a sum of numbers on two streams, correct or with one planted fault. The emulated GPU must find the
// fault, and nothing in the correct program. faults.cmake names what it says.

namespace {

constexpr int n = 1000;

__global__ void add(int count, const float* a, const float* b, float* c) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) c[i] = a[i] + b[i];
}
template <bool Waits, unsigned Mask>
__global__ void sum(const float* a, float* into) {
  __shared__ float of_warp[8];
  float mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 256) mine += a[i];
  for (int apart = 16; apart > 0; apart /= 2) mine += __shfl_xor_sync(Mask, mine, apart);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  if (Waits) __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (float w : of_warp) all += w;
    *into = all;
  }
}
__global__ void end_early(float* a) {
  __shared__ float x[64];
  if (threadIdx.x >= 48) return;
  x[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = x[threadIdx.x ^ 1];
}
__global__ void overrun_shared(float* a) {
  __shared__ float x[32];
  x[threadIdx.x + 1] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = x[threadIdx.x];
}
__global__ void read_before_barrier(float* a) {
  __shared__ float x[64];
  x[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  const float other = x[(threadIdx.x + 1) % 64];
  x[threadIdx.x] = other;  // another thread may still read it
}
__global__ void write_one_place(float* a) { a[0] = static_cast<float>(blockIdx.x); }
__global__ void __launch_bounds__(128) small_blocks(float* a) { a[threadIdx.x] = 1; }
__global__ void misaligned(float* a) { *reinterpret_cast<double*>(a + 1) = 1; }
__global__ void misaligned_vector(float* a) {
  asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(__cvta_generic_to_global(a + 2)), "r"(1) : "memory");
}
__global__ void diverge(float* a) {
  if (threadIdx.x % 2 == 0) {
    a[threadIdx.x] = 1;
    __syncthreads();
  } else {
    a[threadIdx.x] = 2;
    __syncthreads();
  }
}
enum class tensor_fault { none, wait, barrier, lanes, left_running };
/// Two warps copy 16 bytes a thread, and each loads what the other one has copied.
template <tensor_fault Fault>
__global__ void copy_and_load(const float* from, float* into) {
  using namespace gpipe::cuda::detail;
  __shared__ uint4 rows[64];
  const int i = static_cast<int>(threadIdx.x);
  begin_copy(shared_address(rows + i), from + 4 * i, 16);
  commit_copies();
  if (Fault != tensor_fault::wait) await_copies<0>();
  if (Fault != tensor_fault::barrier) __syncthreads();
  left_fragment left{};
  if (Fault != tensor_fault::lanes || i % 32 < 16) load_matrices(left.word, shared_address(rows + (i ^ 32)));
  sum_fragment sums{};
  multiply_add(sums, left, {});
  __syncthreads();
  if (Fault == tensor_fault::left_running) begin_copy(shared_address(rows + i), from, 0);
  into[i] = sums.value[0];
}
__global__ void take_dynamic(float* into) {
  extern __shared__ float taken[];
  taken[threadIdx.x] = 1;
  into[threadIdx.x] = taken[threadIdx.x];
}
float *a, *b, *c;
cudaStream_t one, two;
std::string fault;
bool is(const char* name) { return fault == name; }

/// D = A B of 8 x 8 matrices that begin `offset` elements into their buffers; the heuristic is promised 64 bytes.
void multiply(int offset, int stride) {
  cublasLtHandle_t handle;
  cublasLtCreate(&handle);
  cublasLtMatmulDescOpaque_t how;
  cublasLtMatmulDescInit(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutOpaque_t layout;
  cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, 8, 8, stride);
  cublasLtMatmulPreferenceOpaque_t wish;
  cublasLtMatmulPreferenceInit(&wish);
  const std::uint32_t promised = 64;
  for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    cublasLtMatmulPreferenceSetAttribute(&wish, what, &promised, sizeof promised);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, &how, &layout, &layout, &layout, &layout, &wish, 1, &found, &count);
  const float alpha = 1, beta = 0;
  if (count > 0)
    cublasLtMatmul(handle, &how, &alpha, a + offset, &layout, b, &layout, &beta, c, &layout, c, &layout, &found.algo,
                   nullptr, 0, two);
  cublasLtDestroy(handle);
}

void add_and_sum(cudaStream_t adds, cudaStream_t sums, cudaEvent_t done, bool waits) {
  add<<<4, 256, 0, adds>>>(is("index") ? n + 1 : n, a, b, c);
  cudaEventRecord(done, adds);
  if (waits) cudaStreamWaitEvent(sums, done, 0);
  if (is("barrier")) sum<false, ~0u><<<1, 256, 0, sums>>>(c, a);
  else if (is("shuffle")) sum<true, 0xffffu><<<1, 256, 0, sums>>>(c, a);
  else sum<true, ~0u><<<1, 256, 0, sums>>>(c, a);
}

void capture_and_launch(cudaEvent_t begun, cudaEvent_t added, cudaEvent_t done) {
  cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed);
  cudaEventRecord(begun, one);
  cudaStreamWaitEvent(two, begun, 0);
  add_and_sum(one, two, added, !is("event of a graph"));
  cudaEventRecord(done, two);
  cudaStreamWaitEvent(one, done, 0);
  cudaGraph_t graph;
  cudaGraphExec_t launched;
  cudaStreamEndCapture(one, &graph);
  cudaGraphInstantiate(&launched, graph, 0);
  cudaGraphLaunch(launched, one);
  cudaStreamSynchronize(one);
  cudaGraphExecDestroy(launched), cudaGraphDestroy(graph);
}

}  // namespace

int main(int count, char** words) {
  fault = count > 1 ? words[1] : "";
  constexpr std::size_t bytes = n * sizeof(float);
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[static_cast<std::size_t>(i)] = static_cast<float>(i);
  cudaMalloc(&a, bytes), cudaMalloc(&b, bytes), cudaMalloc(&c, bytes);
  cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
  cudaEvent_t begun, added, done;
  for (cudaEvent_t* e : {&begun, &added, &done}) cudaEventCreateWithFlags(e, cudaEventDisableTiming);
  if (is("default stream")) cudaMemset(a, 0, bytes);  // the other streams do not wait for it
  cudaMemcpyAsync(a, host.data(), bytes, cudaMemcpyHostToDevice, one);
  if (!is("unwritten")) cudaMemcpyAsync(b, host.data(), bytes, cudaMemcpyHostToDevice, one);
  if (fault.find("graph") != std::string::npos) capture_and_launch(begun, added, done);
  else add_and_sum(one, two, added, !is("event"));
  if (is("early end")) end_early<<<1, 64, 0, two>>>(b);
  if (is("shared")) overrun_shared<<<1, 32, 0, two>>>(b);
  if (is("second barrier")) read_before_barrier<<<1, 64, 0, two>>>(b);
  if (is("blocks")) write_one_place<<<4, 1, 0, two>>>(b);
  if (is("bounds")) small_blocks<<<1, 256, 0, two>>>(b);
  if (is("alignment")) misaligned<<<1, 1, 0, two>>>(b);
  if (is("vector")) misaligned_vector<<<1, 1, 0, two>>>(b);
  if (is("divergence")) diverge<<<1, 32, 0, two>>>(b);
  if (is("tensor cores")) copy_and_load<tensor_fault::none><<<1, 64, 0, two>>>(a, b);
  if (is("wait for a copy")) copy_and_load<tensor_fault::wait><<<1, 64, 0, two>>>(a, b);
  if (is("barrier after a copy")) copy_and_load<tensor_fault::barrier><<<1, 64, 0, two>>>(a, b);
  if (is("lanes")) copy_and_load<tensor_fault::lanes><<<1, 64, 0, two>>>(a, b);
  if (is("running copy")) copy_and_load<tensor_fault::left_running><<<1, 64, 0, two>>>(a, b);
  if (is("asked") || is("not asked")) {
    constexpr int much = 60'000;
    if (is("asked")) cudaFuncSetAttribute(take_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, much);
    take_dynamic<<<1, 64, much, two>>>(b);
  }
  if (is("promise")) multiply(1, 8);
  if (is("stride")) multiply(0, 7);
  if (is("product")) multiply(0, 8);
  if (is("freed")) {
    cudaFree(b);
    add<<<4, 256, 0, one>>>(n, a, b, c);
  }
  if (is("other GPU")) {
    cudaSetDevice(1);
    cudaStream_t three;
    cudaStreamCreateWithFlags(&three, cudaStreamNonBlocking);
    add<<<4, 256, 0, three>>>(n, a, b, c);
    cudaStreamSynchronize(three);
    cudaSetDevice(0);
  }
  float total = -1;
  if (!is("host")) cudaMemcpyAsync(&total, a, sizeof total, cudaMemcpyDeviceToHost, two);
  const cudaError_t end = cudaStreamSynchronize(two);
  if (is("host")) total = *a;  // a GPU's memory
  std::printf("%g, %s\n", total, cudaGetErrorName(end));
  return total == n * (n - 1) ? 0 : 1;
}
