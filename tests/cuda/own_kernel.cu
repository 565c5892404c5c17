#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe.hpp>

#include "support/nets.hpp"
#include "support/on_gpu.hpp"

// A kernel of a user's own in the place of a layer's, on a GPU.

namespace {

__global__ void square(int n, const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] * x[i];
}
__global__ void differentiate_square(int n, const float* x, const float* dy, float* dx) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) dx[i] = 2 * x[i] * dy[i];
}
std::atomic<int> own_calls = 0;

/// y = x^2, as any layer: one text for all devices.
struct squared : gpipe::pointwise<squared> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x * x;
  }
  template <class T>
  GPIPE_HOST_DEVICE static T derivative(T x) {
    return 2 * x;
  }
};

}  // namespace

/// The same by the kernels above, where tensors of floats are on a GPU.
template <int... Extents>
struct gpipe::kernels<squared::on<gpipe::tensor<float, Extents...>>, gpipe::cuda::context>
    : squared::on<gpipe::tensor<float, Extents...>> {
  static constexpr int size = gpipe::tensor<float, Extents...>::size;

  template <class A>
  static void forward(const gpipe::cuda::context& c, const A& a) {
    const int n = a.samples() * size;
    square<<<(n + 255) / 256, 256, 0, c.queue().get()>>>(n, a.in(), a.out());
    ++own_calls;
  }
  template <class A>
  static void backward_input(const gpipe::cuda::context& c, const A& a) {
    const int n = a.samples() * size;
    if (a.in_gradient() == nullptr) return;
    differentiate_square<<<(n + 255) / 256, 256, 0, c.queue().get()>>>(n, a.in(), a.out_gradient(), a.in_gradient());
    ++own_calls;
  }
};

namespace {

using namespace gpipe;

struct net_of_squares : model<input<float, 64>, linear<24>, squared, linear<7>, softmax_cross_entropy> {};

template <class Device>
std::vector<double> losses_of_squares(int S, std::uint64_t& state) {
  trainer<net_of_squares, adamw, Device> training({.stages = S, .micro_batches = 2, .micro_batch_size = 4}, {},
                                                  {.seed = 3});
  const laws::samples<float> data(64, 64, 1);
  std::vector<double> found;
  for (int step = 0; step < 3; ++step) found.push_back(training.step(data.take(8 * step, 8)).loss);
  state = laws::state_of(training);
  return found;
}

}  // namespace

TEST_CASE("a kernel of the user's own takes the place of a layer's, with the same bits for every number of stages") {
  std::uint64_t here = 0, one = 0, two = 0;
  const auto host = losses_of_squares<host_device>(1, here);
  CHECK(own_calls == 0);
  const auto device = losses_of_squares<cuda_device>(1, one);
  CHECK(own_calls == 3 * 2 * 2);  // steps, micro-batches, forward and backward
  CHECK(losses_of_squares<cuda_device>(2, two) == device);
  CHECK(one == two);
  for (std::size_t i = 0; i < host.size(); ++i) CHECK(device[i] == doctest::Approx(host[i]).epsilon(1e-4));
}
