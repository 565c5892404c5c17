#include <gpipe/device/contract/device_concept.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/device/host/host.hpp>

#include "support/queued_device.hpp"

// tests/laws/device/ checks the promises at run time.

using namespace gpipe;

namespace {

struct unmarking : host_device {
  struct marker {};  // unknown to contexts
};
struct without_memory : host_device {
  static void memory_left();
};

}  // namespace

static_assert(device_concept<host_device> && !graph_device<host_device> && !timing_device<host_device>);
static_assert(device_concept<queued::device> && graph_device<queued::device> && timing_device<queued::device>);
static_assert(!device_concept<unmarking> && !device_concept<without_memory>);
static_assert(std::is_empty_v<unmarked>);

TEST_CASE("a context of the host is an empty class") { CHECK(std::is_empty_v<host::context>); }
