#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/contract/device_of.hpp>
#include <gpipe/device/host/arena.hpp>
#include <gpipe/device/host/context.hpp>

namespace gpipe {

// change: a device
/// The processor that this program runs on: the oracle that every other device is tested against.
struct host_device {
  using context = host::context;
  using arena = host::arena;
  using marker = unmarked;

  /// Bytes that the machine has available; the largest number if unknown.
  static std::int64_t memory_left() { return host::memory_left(); }

  static context make_context(int /*stage*/) { return {}; }
  static arena make_arena(const context&, std::size_t bytes, std::byte fill) { return arena(bytes, fill); }
};

static_assert(device_concept<host_device>);

#if GPIPE_COMPILED && !(GPIPE_COMPILED_SOURCE & 1)
extern template struct detail::device_value<host_device>;
#endif

}  // namespace gpipe
