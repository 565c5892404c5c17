#include <gpipe/cuda/nccl/communicator.hpp>

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include <gpipe/cuda/nccl/ends.hpp>
#include <gpipe/cuda/stream/gpu.hpp>

using namespace gpipe;

TEST_CASE("two ranks on one GPU are rejected by name") {
  nccl::device_identity one, other;
  one.bytes[0] = other.bytes[0] = 1;
  std::string text;
  try {
    nccl::require_apart(2, one, 0, other);
  } catch (const error& rejected) {
    text = rejected.what();
  }
  CHECK(text.find("ranks 0 and 2 have the same GPU") == 0);
  other.bytes[15] = 1;
  nccl::require_apart(2, one, 0, other);
}

TEST_CASE("micro-batches go from one GPU to another over two slots") {
  if (cuda::gpus() < 2) {
    MESSAGE("SKIPPED, NOTHING WAS SENT: this machine has fewer than two GPUs");
    return;
  }
  constexpr int micro_batches = 8, capacity = 1000;
  constexpr std::size_t stride = sizeof(int) * capacity;
  ncclUniqueId id{};
  nccl::check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<int> memory_slots, arrived(capacity * micro_batches);
  for (int m = 0; m < micro_batches; ++m) memory_slots.push_back(m % 2);
  const auto end_at = [&](int rank, const cuda::arena& memory) {
    return channel_layout{1 - rank,     capacity,     {{memory.data(), stride, sizeof(int)}},
                          memory_slots, memory_slots, nullptr};
  };
  const auto bytes = [](void* at) { return static_cast<std::byte*>(at); };
  const auto other = [&](int rank, const cuda::stream& stage) {
    return std::make_unique<nccl::communicator>(id, 2, rank, stage.gpu(), std::chrono::seconds(60));
  };
  std::thread sends([&] {
    const cuda::stream stage(0);
    const cuda::arena memory(2 * stride, std::byte{0}, 0);
    nccl::sender to(end_at(0, memory), stage);
    to.connect(other(0, stage), 1);
    std::vector<std::vector<int>> rows;
    for (int m = 0; m < micro_batches; ++m) {
      rows.emplace_back(capacity, m + 1);
      to.acquire(m, {});
      cuda::check(cudaMemcpyAsync(memory.data() + stride * static_cast<std::size_t>(m % 2), rows.back().data(), stride,
                                  cudaMemcpyDefault, stage.get()),
                  "cudaMemcpyAsync");
      to.publish(m, capacity);
    }
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  });
  const cuda::stream stage(1);
  const cuda::arena memory(2 * stride, std::byte{0}, 1);
  {
    nccl::receiver from(end_at(1, memory), stage);
    from.connect(other(1, stage), 0);
    for (int m = 0; m < micro_batches; ++m) {
      from.consume(m, {});
      cuda::check(cudaMemcpyAsync(bytes(arrived.data()) + stride * static_cast<std::size_t>(m),
                                  memory.data() + stride * static_cast<std::size_t>(m % 2), stride, cudaMemcpyDefault,
                                  stage.get()),
                  "cudaMemcpyAsync");
      from.release(m);
    }
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  sends.join();
  int wrong = 0;
  for (std::size_t i = 0; i < arrived.size(); ++i) wrong += arrived[i] == static_cast<int>(i) / capacity + 1 ? 0 : 1;
  CHECK(wrong == 0);
}
