#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/queued_device.hpp"

// The law of gpipe/device/contract/device_concept.hpp, over every model that runs here.

using namespace gpipe;

namespace {

/// Two contexts and an arena of 3 parts, each n numbers long.
template <class Device>
struct bench {
  static constexpr std::size_t n = 1000;
  typename Device::context first = Device::make_context(0), second = Device::make_context(1);
  typename Device::arena memory = Device::make_arena(first, 3 * n * sizeof(float), std::byte{0xff});
  float* at(int part) { return reinterpret_cast<float*>(memory.data()) + static_cast<std::size_t>(part) * n; }

  bench() { first.finish(); }
  ~bench() { first.finish(), second.finish(); }

  static std::byte* bytes(float* of) { return reinterpret_cast<std::byte*>(of); }
  static void upload(const auto& c, std::vector<float>& from, float* into) {
    c.upload(static_cast<std::ptrdiff_t>(from.size() * sizeof(float)), bytes(from.data()), bytes(into));
  }
  static void download(const auto& c, float* from, std::vector<float>& into) {
    c.download(static_cast<std::ptrdiff_t>(into.size() * sizeof(float)), bytes(from), bytes(into.data()));
  }
};

struct add_one {
  float* x;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { x[i] += 1; }
};

template <class Device, class Call>
void at_every_delay(Call&& call) {
  for (const unsigned lazy : {0u, 1u, 2u, ~0u}) {
    if (std::is_same_v<Device, host_device> && lazy > 0) return;
    CAPTURE(lazy);
    queued::lazy = lazy;
    call();
  }
}

}  // namespace

// change: a kernel operation
// change: a device
TEST_CASE_TEMPLATE("a context runs its operations in order, and finish waits for all of them", Device, host_device,
                   queued::device) {
  at_every_delay<Device>([] {
    bench<Device> on;
    std::vector<float> from(on.n, 1.5F), into(on.n), untouched(on.n);
    on.download(on.first, on.at(1), untouched);
    on.upload(on.first, from, on.at(0));
    for (int i = 0; i < 100; ++i) on.first.each(on.n, add_one{on.at(0)});
    on.first.copy(on.n, static_cast<const float*>(on.at(0)), on.at(1));
    on.first.each(on.n, add_one{on.at(0)});
    on.download(on.first, on.at(1), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 101.5F));
    CHECK(std::bit_cast<std::uint32_t>(untouched[0]) == 0xffffffffu);
  });
}

TEST_CASE_TEMPLATE("await waits for a marker's last mark, and returns at once without a mark", Device, host_device,
                   queued::device) {
  at_every_delay<Device>([] {
    bench<Device> on;
    typename Device::marker there{}, back{};
    on.first.await(back);  // never marked
    std::vector<float> zeros(on.n), into(on.n);
    on.upload(on.first, zeros, on.at(0));
    for (int i = 0; i < 50; ++i) {  // back and forth, by two markers that are marked again and again
      on.first.each(on.n, add_one{on.at(0)});
      on.first.mark(there);
      on.second.await(there);
      on.second.each(on.n, add_one{on.at(0)});
      on.second.mark(back);
      on.first.await(back);
    }
    on.download(on.first, on.at(0), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 100));
  });
}

TEST_CASE("the time between two moments of a context is the time of the operations between them") {
  at_every_delay<queued::device>([] {
    bench<queued::device> on;
    queued::moment before, after, end;
    const auto sleep = [](std::ptrdiff_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    on.first.each(1, sleep);
    on.first.note(before);
    on.first.each(1, sleep);
    on.first.note(after);
    on.first.note(end);
    on.first.each(1, sleep);
    on.first.finish();
    CHECK(before.ns_until(after) >= 20'000'000);
    CHECK(after.ns_until(end) < 20'000'000);
  });
}

TEST_CASE("finish throws the error of a later failure, names the layer, and leaves a context that works") {
  at_every_delay<queued::device>([] {
    bench<queued::device> on;
    std::vector<float> zeros(on.n), into(on.n);
    on.upload(on.first, zeros, on.at(0));
    on.first.set_operation({"this layer", 3, 1, 2});
    on.first.each(1, [](std::ptrdiff_t) { throw std::runtime_error("blown"); });
    on.first.set_operation({"the next", 4, 1, 2});
    on.first.each(on.n, add_one{on.at(0)});
    CHECK_THROWS_WITH_AS(on.first.finish(), "layer 3 this layer, stage 1, micro-batch 2: blown", error);
    on.first.each(on.n, add_one{on.at(0)});
    on.download(on.first, on.at(0), into);
    on.first.finish();
    CHECK(into == std::vector<float>(on.n, 1));
  });
}

#ifndef TESTS_THREAD_SANITIZED
namespace {

sigjmp_buf out_of_there;

bool is_caught(volatile float* there, bool writes) {
  if (sigsetjmp(out_of_there, 1) != 0) return true;
  if (writes) *there = 2;
  else static_cast<void>(*there);
  return false;
}

}  // namespace

TEST_CASE("host code that reads or writes the queued device's memory is caught") {
  queued::lazy = ~0u;
  bench<queued::device> on;
  on.first.fill(1, 1.0F, on.at(0));
  struct sigaction caught {
  }, before{};
  caught.sa_handler = [](int) { siglongjmp(out_of_there, 1); };
  sigaction(SIGSEGV, &caught, &before);
  const bool read = is_caught(on.at(0), false), written = is_caught(on.at(0), true);
  sigaction(SIGSEGV, &before, nullptr);
  CHECK(read);
  CHECK(written);
}

TEST_CASE("without a mark a context reads memory that another context has not written yet") {
  queued::lazy = 1;
  bench<queued::device> on;
  std::vector<float> zeros(on.n), into(on.n);
  on.upload(on.first, zeros, on.at(0));
  on.download(on.second, on.at(0), into);
  on.second.finish();
  CHECK(std::isnan(into[0]));
  on.first.finish();
}
#endif
