#pragma once

// What translated kernels include: the state of a thread, and checked memory. It includes little, since every kernel
// compiles it. Functions named emulated_... are the emulator's.

#include "arithmetic.hpp"

namespace emulated {

// Addresses
// ------------------------------------------------------------------------------------------------------------
//
// Device addresses are a region that no host code can touch: nothing is mapped there. Their bytes, the state of each
// byte and the last accesses are mapped elsewhere, at fixed distances. Each GPU has a part of the region.

inline constexpr u64 region_bytes = u64{1} << 40;
inline constexpr int gpu_shift = 36, max_gpus = 16;
inline constexpr u64 device_base = 0x2000'0000'0000, bytes_base = 0x2200'0000'0000, state_base = 0x2400'0000'0000,
                     access_base = 0x2800'0000'0000;
inline constexpr u64 shared_window = 0x2600'0000'0000, shared_limit = 256 << 10;  // shared memory in generic addresses

inline constexpr u8 allocated = 1, written = 2, in_flight = 4;  // the state of a byte; the last: of a cp.async

/// The operation that last wrote and read an element. A tag: operation 24 bits, block 16, epoch 13, thread 11. An epoch
/// of a block is the time between two barriers.
struct access {
  u64 write, read;
};
inline constexpr u64 thread_bits = 0x7ff, block_bits = u64{0xffff} << 24, operation_shift = 40, block_shift = 24,
                     epoch_shift = 11, epoch_bits = u64{0x1fff} << epoch_shift, max_block_tags = 65534;

inline u64 gpu_of(u64 at) { return (at - device_base) >> gpu_shift; }
inline bool on_device(u64 at) { return at - device_base < region_bytes; }
inline u8* bytes_of(u64 at) { return reinterpret_cast<u8*>(at - device_base + bytes_base); }
inline u8* state_of(u64 at) { return reinterpret_cast<u8*>(at - device_base + state_base); }
inline access* access_of(u64 at) {
  return reinterpret_cast<access*>((at - device_base) / 2 * sizeof(access) + access_base);
}

struct warp;

struct block {
  u32 grid[3], size[3], id[3];
  u32 threads, shared_bytes;
  const u8* parameters;
  u32 parameter_bytes;
  u8 *shared, *shared_state;
  access* shared_access;
  u64 tag;           ///< operation, block and epoch
  u32 reachable;     ///< a bit for each GPU whose memory this one can access
  bool atomic;       ///< atomics do not race with each other
  u32 ordered_with;  ///< an operation that is known to have ended before this one began
  const char* kernel;
};

/// What a thread has done since the last barrier, while a program counts: the numbers of the blocks of instructions
/// that it has entered, each followed by the addresses of the block's accesses, or 0 where a guard left one out.
struct trace {
  u64 *next = nullptr, *end = nullptr;
};
/// A block of instructions, and its accesses from the number `first` on (see counts.py).
struct counted_block {
  u32 of_pipe[7], barriers, first, accesses;
  int joins;  ///< the block where its ways out join, or -1
};
struct counted_access {
  u8 bytes, writes;
};

struct thread {
  block* in;
  u32 id[3], index;
  u32 cc = 0;  ///< carry
  u8* local = nullptr;
  u32 local_bytes = 0;
  trace* counted = nullptr;
  u32 lane() const { return index % 32; }
  u64 tag() const { return in->tag | index; }
};

/// A variable of a module: where its address is kept, and its first bytes.
struct variable {
  u64* address;
  const void* bytes;
  u64 size;
};

extern "C" {
[[noreturn]] void emulated_bad_access(thread&, u64 at, u32 bytes, bool writes, const char* space, int line);
void emulated_unwritten(thread&, u64 at, u32 bytes, const char* space, int line);
void emulated_race(thread&, u64 at, u64 other, bool writes, bool other_writes, const char* space, int line);
void emulated_unordered(thread&, u64 at, u64 other, bool writes, bool other_writes, int line);
u8* emulated_pinned(u64 at, u32 bytes);  ///< null if the host has not pinned it
[[noreturn]] void emulated_trap(thread&, const char* why, int line);
void emulated_barrier(thread&, u32 which, u32 count, int line);
void emulated_warp_barrier(thread&, u32 mask, int line);
u32 emulated_shuffle(thread&, int mode, u32 value, u32 b, u32 c, u32 mask, bool* valid, int line);
const u32* emulated_gather(thread&, u32 value, u32 mask, u32* present, int line);  ///< the values of a warp's lanes
/// Words of all lanes of a warp, of which each gives `count`, up to 8.
const u32 (*emulated_collect(thread&, const u32* words, u32 count, int line))[8];
void emulated_copy_begin(thread&, u64 into, u64 from, u32 used, int line);  ///< cp.async of 16 bytes
void emulated_copy_commit(thread&);
void emulated_copy_wait(thread&, u32 most, bool all, int line);  ///< all: also those that no group has yet
u32 emulated_print(thread&, u64 format, u64 values);
void emulated_longer(trace&);
}

#ifdef EMULATED_COUNTS
inline void keep(thread& t, u64 word) {
  trace& into = *t.counted;
  if (into.next == into.end) [[unlikely]]
    emulated_longer(into);
  *into.next++ = word;
}
#else
inline void keep(thread&, u64) {}
#endif

// Memory
// ---------------------------------------------------------------------------------------------------------------

inline bool same_time(u64 a, u64 b) { return ((a ^ b) & ~thread_bits) == 0; }

template <bool Shared>
inline void check_one(thread& t, u64 at, u64 other, bool writes, bool other_writes, int line) {
  const u64 me = t.tag();
  if (other == 0 || other == me) return;
  if (same_time(me, other)) {
    emulated_race(t, at, other, writes, other_writes, Shared ? "shared" : "global", line);
  } else if (!Shared && other >> operation_shift == me >> operation_shift) {
    if ((other ^ me) & block_bits) emulated_race(t, at, other, writes, other_writes, "global", line);
  } else if (!Shared && (other >> operation_shift) != t.in->ordered_with) {
    emulated_unordered(t, at, other, writes, other_writes, line);
  }
}

template <bool Shared>
inline void note_read(thread& t, access& last, u64 at, int line) {
  const u64 me = t.tag();
  if (last.write != me) check_one<Shared>(t, at, last.write, false, true, line);
  const u64 r = last.read;
  if (r >> operation_shift != me >> operation_shift) last.read = me;
  else if ((r ^ me) & block_bits) last.read = Shared ? me : r | block_bits;  // several blocks
  else if (same_time(r, me)) last.read = r == me ? me : r | thread_bits;     // several threads
  else last.read = me;
}
template <bool Shared>
inline void note_write(thread& t, access& last, u64 at, bool same_value, int line) {
  const u64 me = t.tag();
  // Threads of a block may write one value to one place.
  if (last.write != me && !(same_value && same_time(last.write, me)))
    check_one<Shared>(t, at, last.write, true, true, line);
  check_one<Shared>(t, at, last.read, true, false, line);
  last.write = me, last.read = 0;
}

template <class V>
inline bool all(const u8* states, u8 want) {
  if constexpr (sizeof(V) == 1) return (*states & want) == want;
  using word =
      std::conditional_t<sizeof(V) == 1, u8,
                         std::conditional_t<sizeof(V) == 2, u16, std::conditional_t<sizeof(V) == 4, u32, u64>>>;
  word w;
  std::memcpy(&w, states, sizeof w);
  const word pattern = static_cast<word>(0x0101010101010101u * want);
  return (w & pattern) == pattern;
}

template <class V>
V from_parameter(const u8* at) {
  V value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class V>
bool is_accessible(const thread& t, u64 at) {
  return on_device(at) && at % sizeof(V) == 0 && all<V>(state_of(at), allocated) && (t.in->reachable >> gpu_of(at) & 1);
}
template <class V>
V load_global(thread& t, u64 at, int line) {
  if (!is_accessible<V>(t, at)) [[unlikely]] {
    const u8* pinned = at % sizeof(V) == 0 ? emulated_pinned(at, sizeof(V)) : nullptr;
    if (pinned == nullptr) emulated_bad_access(t, at, sizeof(V), false, "global", line);
    V value;
    std::memcpy(&value, pinned, sizeof value);
    return value;
  }
  if (!all<V>(state_of(at), written)) [[unlikely]]
    emulated_unwritten(t, at, sizeof(V), "global", line);
  if (!t.in->atomic && sizeof(V) > 1) note_read<false>(t, *access_of(at), at, line);
  V value;
  std::memcpy(&value, bytes_of(at), sizeof value);
  return value;
}
template <class V>
void store_global(thread& t, u64 at, V value, int line) {
  if (!is_accessible<V>(t, at)) [[unlikely]] {
    u8* pinned = at % sizeof(V) == 0 ? emulated_pinned(at, sizeof(V)) : nullptr;
    if (pinned == nullptr) emulated_bad_access(t, at, sizeof(V), true, "global", line);
    std::memcpy(pinned, &value, sizeof value);
    return;
  }
  if (!t.in->atomic && sizeof(V) > 1)
    note_write<false>(t, *access_of(at), at, std::memcmp(bytes_of(at), &value, sizeof value) == 0, line);
  std::memset(state_of(at), allocated | written, sizeof(V));
  std::memcpy(bytes_of(at), &value, sizeof value);
}
template <class V>
V load_shared(thread& t, u64 at, int line) {
  block& b = *t.in;
  if (at + sizeof(V) > b.shared_bytes || at % sizeof(V) != 0 || !all<V>(b.shared_state + at, allocated)) [[unlikely]]
    emulated_bad_access(t, at, sizeof(V), false, "shared", line);
  if (!all<V>(b.shared_state + at, written)) [[unlikely]]
    emulated_unwritten(t, at, sizeof(V), "shared", line);
  if (!b.atomic && sizeof(V) > 1) note_read<true>(t, b.shared_access[at / 2], at, line);
  V value;
  std::memcpy(&value, b.shared + at, sizeof value);
  return value;
}
template <class V>
void store_shared(thread& t, u64 at, V value, int line) {
  block& b = *t.in;
  if (at + sizeof(V) > b.shared_bytes || at % sizeof(V) != 0 || !all<V>(b.shared_state + at, allocated)) [[unlikely]]
    emulated_bad_access(t, at, sizeof(V), true, "shared", line);
  if (!b.atomic && sizeof(V) > 1)
    note_write<true>(t, b.shared_access[at / 2], at, std::memcmp(b.shared + at, &value, sizeof value) == 0, line);
  std::memset(b.shared_state + at, allocated | written, sizeof(V));
  std::memcpy(b.shared + at, &value, sizeof value);
}
template <class V>
u8* local_at(thread& t, u64 at, bool writes, int line) {
  u8* const p = reinterpret_cast<u8*>(at);
  if (p < t.local || p + sizeof(V) > t.local + t.local_bytes || at % sizeof(V) != 0) [[unlikely]]
    emulated_bad_access(t, at, sizeof(V), writes, "local", line);
  return p;
}
template <class V>
V load_local(thread& t, u64 at, int line) {
  V value;
  std::memcpy(&value, local_at<V>(t, at, false, line), sizeof value);
  return value;
}
template <class V>
void store_local(thread& t, u64 at, V value, int line) {
  std::memcpy(local_at<V>(t, at, true, line), &value, sizeof value);
}
inline bool is_local(const thread& t, u64 at) { return at - reinterpret_cast<u64>(t.local) < t.local_bytes; }
template <class V>
V load_generic(thread& t, u64 at, int line) {
  if (at - shared_window < shared_limit) return load_shared<V>(t, at - shared_window, line);
  if (is_local(t, at)) return load_local<V>(t, at, line);
  if (at - reinterpret_cast<u64>(t.in->parameters) < t.in->parameter_bytes)
    return from_parameter<V>(reinterpret_cast<const u8*>(at));
  return load_global<V>(t, at, line);
}
template <class V>
void store_generic(thread& t, u64 at, V value, int line) {
  if (at - shared_window < shared_limit) return store_shared<V>(t, at - shared_window, value, line);
  if (is_local(t, at)) return store_local<V>(t, at, value, line);
  store_global<V>(t, at, value, line);
}

/// The old value is returned; atomics do not race with each other, and are not compared with other accesses.
template <class V, class F>
V atomic(thread& t, u64 at, bool shared, F next, int line) {
  t.in->atomic = true;
  if (shared) at += shared_window;
  const V old = load_generic<V>(t, at, line);
  store_generic<V>(t, at, next(old), line);
  t.in->atomic = false;
  return old;
}

/// ldmatrix: lane 8 m + r gives the address of row r of matrix m. Each element is read as itself, so that it is
/// compared with what wrote it.
template <int Count, bool Turned>
void load_matrices(thread& t, u32 (&words)[Count], u32 row, int line) {
  const u32(*const rows)[8] = emulated_collect(t, &row, 1, line);
  const u32 across = t.lane() / 4, along = 2 * (t.lane() % 4);
  for (u32 m = 0; m < Count; ++m) {
    const auto element = [&](u32 of_row, u32 column) {
      const u64 first = rows[8 * m + of_row][0];
      if (first % 16 != 0) [[unlikely]]
        emulated_bad_access(t, first, 16, false, "shared", line);
      return u32{load_shared<u16>(t, first + 2 * column, line)};
    };
    words[m] = Turned ? element(along, across) | element(along + 1, across) << 16
                      : element(across, along) | element(across, along + 1) << 16;
  }
}

/// mma.m16n8k16 of bf16. A GPU adds the products of an element in an order that is unspecified: here one after the
/// other, rounded each time.
inline void add_products(thread& t, const u32 (&given)[6], float (&sums)[4], int line) {
  const u32(*const of)[8] = emulated_collect(t, given, 6, line);
  for (u32 i = 0; i < 4; ++i) {
    const u32 row = t.lane() / 4, lower = i / 2, column = 2 * (t.lane() % 4) + i % 2;
    for (u32 k = 0; k < 16; ++k) {
      const u32 lane = k % 8 / 2, half = 16 * (k % 2), upper = k / 8;
      const u32 a = of[4 * row + lane][lower + 2 * upper] >> half, b = of[4 * column + lane][4 + upper] >> half;
      sums[i] = std::fma(of_bf16(static_cast<u16>(a)), of_bf16(static_cast<u16>(b)), sums[i]);
    }
  }
}

}  // namespace emulated

using namespace emulated;
