// sanitizers: address

#include <gpipe/device/contract/device_functions.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

int made = 0, freed = 0;

/// A device that lacks all that may be null.
struct plain_context {
  int stage = 0;
};
device_functions plain_device() {
  device_functions f{};
  f.context = id_of_context<plain_context>;
  f.make_context = [](int stage) -> void* { return ++made, new plain_context{stage}; };
  f.free_context = [](void* object) noexcept { ++freed, delete static_cast<plain_context*>(object); };
  f.download = [](context_handle, std::ptrdiff_t bytes, const std::byte* source, std::byte* target) {
    for (std::ptrdiff_t i = 0; i < bytes; ++i) target[i] = source[i];
  };
  return f;
}

/// The same with markers that count.
struct counted_marker {
  int marks = 0, awaits = 0;
};
device_functions marking_device() {
  device_functions f = plain_device();
  f.make_marker = []() -> void* { return ++made, new counted_marker; };
  f.free_marker = [](void* object) noexcept { ++freed, delete static_cast<counted_marker*>(object); };
  f.mark = [](context_handle, void* object) { ++static_cast<counted_marker*>(object)->marks; };
  f.await = [](context_handle, void* object) { ++static_cast<counted_marker*>(object)->awaits; };
  return f;
}

}  // namespace

TEST_CASE("a handle refers to a context, whose type has an identity") {
  const plain_context context{3};
  const context_handle handle = context;
  CHECK(&handle.as<plain_context>() == &context);
  CHECK(&context_handle::at(&context).as<plain_context>() == &context);
  CHECK(id_of_context<plain_context> == id_of_context<plain_context>);
  CHECK(id_of_context<plain_context> != id_of_context<counted_marker>);
  CHECK(!std::is_convertible_v<const device_context&, context_handle>);
}

TEST_CASE("an object of a device is freed once, by its last owner") {
  made = freed = 0;
  const device_functions device = marking_device();
  {
    device_object first(device.make_marker(), device.free_marker);
    void* const object = first.get();
    device_object second = std::move(first);
    CHECK(first.get() == nullptr);
    CHECK(second.get() == object);
    device_object third;
    third = std::move(second);
    CHECK(third.get() == object);
    CHECK(freed == 0);
  }
  CHECK(made == 1);
  CHECK(freed == 1);
}

TEST_CASE("a context is made for a stage, and a synchronous device needs no markers") {
  made = freed = 0;
  const device_functions device = plain_device();
  {
    const device_context context(device, 5);
    CHECK(context.handle().as<plain_context>().stage == 5);
    CHECK(&context.device() == &device);
    device_marker marker(device);
    CHECK(marker.get() == nullptr);
    context.mark(marker);
    context.await(marker);
    CHECK(made == 1);
  }
  CHECK(freed == 1);
}

TEST_CASE("a marker is made before its first mark") {
  made = freed = 0;
  const device_functions device = marking_device();
  {
    const device_context context(device, 0);
    device_marker marker(device);
    CHECK(made == 2);
    context.mark(marker);
    context.mark(marker);
    context.await(marker);
    CHECK(made == 2);
    CHECK(static_cast<const counted_marker*>(marker.get())->marks == 2);
    CHECK(static_cast<const counted_marker*>(marker.get())->awaits == 1);
  }
  CHECK(freed == 2);
}

TEST_CASE("what a device lacks is done without it, or reported") {
  const device_functions device = plain_device();
  device_context context(device, 0);
  CHECK(device.is_synchronous());
  CHECK(!device.has_moments());
  CHECK(!device.has_graphs());
  CHECK(!context.takes_operations());
  CHECK(!context.allow_tf32());
  CHECK(context.queue() == nullptr);
  context.set_operation({.stage = 1});

  const std::array<std::byte, 4> rows{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 6> apart{};
  context.download_rows(2, 2, rows.data(), apart.data(), 4);
  CHECK(apart == std::array{std::byte{1}, std::byte{2}, std::byte{0}, std::byte{0}, std::byte{3}, std::byte{4}});
}
