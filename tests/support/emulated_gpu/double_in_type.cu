// A kernel whose type holds a double. nvcc writes it as 1e-05, another double, where it registers the kernel: the one
// that is launched is not found.

namespace {

struct settings {
  double epsilon;
};
template <settings S>
struct layer {
  float* into;
  __device__ void operator()() const { *into = static_cast<float>(S.epsilon); }
};
template <class F>
__global__ void run(F f) {
  f();
}
template <settings S>
void launch(layer<S> f) {
  run<<<1, 1>>>(f);
}

}  // namespace

int main() {
  float* at;
  cudaMalloc(&at, sizeof *at);
  launch(layer<settings{10 * 1e-6}>{at});
  return cudaGetLastError() == cudaErrorInvalidDeviceFunction ? 0 : 1;
}
