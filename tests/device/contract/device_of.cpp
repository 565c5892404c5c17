// sanitizers: address

#include <gpipe/device/contract/device_of.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gpipe/device/host/host.hpp>

#include "support/queued_device.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// A context and an arena of a device, which the host reads and writes by transfers alone.
template <class Device>
struct fixture {
  const device_functions& device = device_of<Device>;
  device_context context{device, 0};
  device_arena memory{context, 1024, std::byte{0x5a}};

  template <class T>
  T* at(std::size_t byte) const {
    return reinterpret_cast<T*>(memory.data() + byte);
  }
  template <class T>
  void upload(const std::vector<T>& values, std::size_t byte) const {
    context.upload(static_cast<std::ptrdiff_t>(values.size() * sizeof(T)),
                   reinterpret_cast<const std::byte*>(values.data()), memory.data() + byte);
    context.finish();
  }
  template <class T>
  std::vector<T> download(std::size_t count, std::size_t byte) const {
    std::vector<T> values(count);
    context.download(static_cast<std::ptrdiff_t>(count * sizeof(T)), memory.data() + byte,
                     reinterpret_cast<std::byte*>(values.data()));
    context.finish();
    return values;
  }
};

}  // namespace

TEST_CASE("the functions that a device lacks are null") {
  const device_functions &host = device_of<host_device>, &queued = device_of<queued::device>;
  CHECK(host.is_synchronous());
  CHECK((host.mark == nullptr));
  CHECK(!host.has_moments());
  CHECK(!host.has_graphs());
  CHECK((host.set_operation == nullptr));
  CHECK((host.allow_tf32 == nullptr));
  CHECK(!queued.is_synchronous());
  CHECK((queued.mark != nullptr));
  CHECK(queued.has_moments());
  CHECK(queued.has_graphs());
  CHECK((queued.set_operation != nullptr));
  CHECK(host.context == id_of_context<host::context>);
  CHECK(host.context != queued.context);
  CHECK(host.memory_left() > 0);
}

TEST_CASE_TEMPLATE("an arena is filled, copied and exchanged", Device, host_device, queued::device) {
  const fixture<Device> f;
  CHECK(f.memory.size() == 1024);
  CHECK(f.template download<std::byte>(1024, 0) == std::vector<std::byte>(1024, std::byte{0x5a}));
  f.context.fill(3, std::byte{7}, f.memory.data());
  f.context.copy(4, f.memory.data(), f.memory.data() + 8);
  CHECK(f.template download<std::uint8_t>(4, 8) == std::vector<std::uint8_t>{7, 7, 7, 0x5a});

  f.upload(std::vector<std::int32_t>{1, 2, 3, 4}, 0);
  f.context.exchange(8, f.memory.data(), f.memory.data() + 8);
  CHECK(f.template download<std::int32_t>(4, 0) == std::vector<std::int32_t>{3, 4, 1, 2});

  f.context.fill(2, std::int32_t{-9}, f.template at<std::int32_t>(0));
  f.context.fill(2, 0.1F, f.template at<float>(8));
  f.context.fill(2, 0.1, f.template at<double>(16));
  CHECK(f.template download<std::int32_t>(2, 0) == std::vector<std::int32_t>{-9, -9});
  CHECK(f.template download<float>(2, 8) == std::vector<float>{0.1F, 0.1F});
  CHECK(f.template download<double>(2, 16) == std::vector<double>{0.1, 0.1});
}

TEST_CASE_TEMPLATE("sums are those of the type that is given", Device, host_device, queued::device) {
  const fixture<Device> f;
  f.upload(std::vector<float>{1, 2, 3, 4}, 0);
  f.context.add(2, dtype::float32, f.template at<float>(0), f.template at<float>(8));
  CHECK(f.template download<float>(4, 0) == std::vector<float>{1, 2, 4, 6});

  double* const sum = f.template at<double>(64);
  const auto squares = [&](int first, int second) {
    f.context.sum_squares(dtype::float32, first, f.template at<float>(0), second, f.template at<float>(8), sum);
    return f.template download<double>(1, 64).front();
  };
  CHECK(squares(2, 0) == 5);
  CHECK(squares(0, 2) == 52);
  CHECK(squares(2, 1) == 21);

  f.upload(std::vector<double>{3, -4}, 128);
  f.context.sum_squares(dtype::float64, 2, f.template at<double>(128), 0, nullptr, sum);
  CHECK(f.template download<double>(1, 64).front() == 25);
}

TEST_CASE_TEMPLATE("a sum finds numbers that are not finite", Device, host_device, queued::device) {
  const fixture<Device> f;
  double* const sum = f.template at<double>(64);
  for (const float last : {1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    f.upload(std::vector<float>{1, last}, 0);
    f.context.sum_nonfinite(dtype::float32, 2, f.template at<float>(0), sum);
    CHECK(std::isfinite(f.template download<double>(1, 64).front()) == std::isfinite(last));
  }
}

TEST_CASE_TEMPLATE("averages move by a share of the difference", Device, host_device, queued::device) {
  const fixture<Device> f;
  f.upload(std::vector<float>{8, 0, 4, 4}, 0);
  f.context.move_averages(dtype::float32, 2, f.template at<float>(0), f.template at<float>(8), 0.25);
  CHECK(f.template download<float>(4, 0) == std::vector<float>{8, 0, 5, 3});
}

TEST_CASE("marks order two contexts, and moments measure one") {
  const fixture<queued::device> f;
  const device_context other(f.device, 1);
  device_marker marker(f.device);
  const device_object moments(f.device.make_moments(2), f.device.free_moments);
  f.context.note(moments.get(), 0);
  f.context.fill(4, std::byte{1}, f.memory.data());
  f.context.note(moments.get(), 1);
  f.context.mark(marker);
  other.await(marker);
  other.copy(4, f.memory.data(), f.memory.data() + 4);
  other.finish();
  CHECK(f.download<std::uint8_t>(4, 4) == std::vector<std::uint8_t>{1, 1, 1, 1});
  CHECK(f.device.ns_between(moments.get(), 0, moments.get(), 1) >= 0);
}

TEST_CASE("a graph repeats its operations with other uploads") {
  const fixture<queued::device> f;
  const device_object graph(f.device.make_graph(), f.device.free_graph);
  const std::byte first{1}, second{2};
  f.context.begin(graph.get());
  f.context.upload(1, &first, f.memory.data());
  f.context.copy(1, f.memory.data(), f.memory.data() + 1);
  f.context.end(graph.get());
  f.context.launch(graph.get());
  CHECK(f.download<std::byte>(2, 0) == std::vector<std::byte>{first, first});
  f.device.refill(graph.get(), 0, 1, &second);
  f.context.launch(graph.get());
  CHECK(f.download<std::byte>(2, 0) == std::vector<std::byte>{second, second});
}
