#include <gpipe/transport/nccl/ends.hpp>
#include <gpipe/transport/nccl/device_identity.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include <gpipe/device/cuda/memory/arena.hpp>

using namespace gpipe;

TEST_CASE("two ranks on one GPU are refused, and named") {
  nccl::identity one, other;
  one.bytes[0] = other.bytes[0] = 1;
  std::string told;
  try {
    nccl::require_apart(2, one, 0, other);
  } catch (const error& refused) {
    told = refused.what();
  }
  CHECK(told.find("ranks 0 and 2 have the same GPU") == 0);
  other.bytes[15] = 1;
  nccl::require_apart(2, one, 0, other);
}

TEST_CASE("the name travels by a file, for which the others wait") {
  const std::string file = "nccl_name_of_a_test";
  std::remove(file.c_str());
  CHECK_THROWS_WITH_AS(nccl::told(file, std::chrono::milliseconds(20)),
                       doctest::Contains("rank 0 has not written it within 20 ms"), error);
  ncclUniqueId name{};
  name.internal[5] = 7;
  std::thread writer([&] { nccl::tell(name, file); });
  const ncclUniqueId found = nccl::told(file, std::chrono::seconds(20));
  writer.join();
  CHECK(found.internal[5] == 7);
  std::remove(file.c_str());
  CHECK_THROWS_AS(nccl::tell(name, "no/such/folder/name"), error);
}

TEST_CASE("micro-batches go from one GPU to another, in two places") {
  if (cuda::gpus() < 2) {
    MESSAGE("SKIPPED, NOTHING WAS SENT: there are no two GPUs here");
    return;
  }
  constexpr int micro_batches = 8, capacity = 1000;
  constexpr std::size_t stride = sizeof(int) * capacity;
  ncclUniqueId name{};
  nccl::check(ncclGetUniqueId(&name), "ncclGetUniqueId");
  std::vector<int> places, arrived(capacity * micro_batches);
  for (int m = 0; m < micro_batches; ++m) places.push_back(m % 2);
  const auto end_at = [&](int rank, const cuda::arena& memory) {
    return route{1 - rank, capacity, {{memory.data(), stride, sizeof(int)}}, places, places, nullptr};
  };
  const auto bytes = [](void* at) { return static_cast<std::byte*>(at); };
  const auto other = [&](int rank, const cuda::stream& stage) {
    return std::make_unique<nccl::communicator>(name, 2, rank, stage.gpu(), std::chrono::seconds(60));
  };
  std::thread sends([&] {
    const cuda::stream stage(0);
    const cuda::arena memory(2 * stride, std::byte{0}, 0);
    nccl::sender to(end_at(0, memory), stage);
    to.join(other(0, stage), 1);
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
    from.join(other(1, stage), 0);
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
