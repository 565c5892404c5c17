#include <gpipe/device/contract/device_concept.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/device/host/host.hpp>

#include "support/queued_device.hpp"

// What they promise at run time: tests/laws/device.cpp.

using namespace gpipe;

namespace {

struct unmarking : host_device {
  struct marker {};  // contexts do not know it
};
struct without_memory : host_device {
  static void memory_left();
};

}  // namespace

static_assert(executing_device<host_device> && !graph_device<host_device> && !timing_device<host_device>);
static_assert(executing_device<queued::device> && graph_device<queued::device> && timing_device<queued::device>);
static_assert(!executing_device<unmarking> && !executing_device<without_memory>);
static_assert(std::is_empty_v<unmarked>);

TEST_CASE("a context of the host is no larger for what it does not need") { CHECK(std::is_empty_v<host::context>); }
