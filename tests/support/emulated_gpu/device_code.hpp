#pragma once

// What translated kernels include: the state of a thread, checked memory, and the arithmetic of PTX. It includes
// little, since every kernel compiles it. Functions named emulated_... are the emulator's.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace emulated {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

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

// Arithmetic
// -----------------------------------------------------------------------------------------------------------

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return std::bit_cast<To>(from);
}
inline float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline double flush(double x) { return x; }
template <class F>
F saturate(F x) {
  return x > 0 ? (x < 1 ? x : F(1)) : F(0);
}  // NaN gives 0

template <class I>
I shift_left(I x, u32 by) {
  return by >= 8 * sizeof(I) ? I(0) : I(std::make_unsigned_t<I>(x) << by);
}
template <class I>
I shift_right(I x, u32 by) {
  constexpr u32 width = 8 * sizeof(I);
  if (by >= width) return std::is_signed_v<I> && x < 0 ? I(-1) : I(0);
  return I(x >> by);
}
template <class I>
I multiply(I a, I b) {
  using U = std::common_type_t<std::make_unsigned_t<I>, u32>;
  return I(U(a) * U(b));
}
template <class I>
I divide(I a, I b) {
  return b == 0 ? I(-1) : std::is_signed_v<I> && b == I(-1) ? I(0 - std::make_unsigned_t<I>(a)) : I(a / b);
}
template <class I>
I remainder_of(I a, I b) {
  return b == 0 ? a : std::is_signed_v<I> && b == I(-1) ? I(0) : I(a % b);
}
template <class I>
I high_product(I a, I b) {
  if constexpr (sizeof(I) == 8) {
    using wide = std::conditional_t<std::is_signed_v<I>, __int128, unsigned __int128>;
    return I((wide(a) * wide(b)) >> 64);
  } else {
    using wide = std::conditional_t<std::is_signed_v<I>, s64, u64>;
    return I((wide(a) * wide(b)) >> (8 * sizeof(I)));
  }
}

/// min and max return the other operand of a NaN, and order -0 below +0.
template <class F>
F smaller(F a, F b) {
  if constexpr (std::is_floating_point_v<F>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class F>
F larger(F a, F b) {
  if constexpr (std::is_floating_point_v<F>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

/// Rounds other than to nearest: the processor's mode is set for one instruction. Modes: down 0x2000, up 0x4000, to
/// zero 0x6000.
class rounding {
 public:
  explicit rounding(u32 mode) {
    asm volatile("stmxcsr %0" : "=m"(old_));
    const u32 now = (old_ & ~0x6000u) | mode;
    asm volatile("ldmxcsr %0" ::"m"(now) : "memory");
  }
  ~rounding() { asm volatile("ldmxcsr %0" ::"m"(old_) : "memory"); }

 private:
  u32 old_;
};
inline float fma_in(u32 mode, float a, float b, float c) {
  const rounding r(mode);
  asm volatile("vfmadd213ss %2, %1, %0" : "+x"(a) : "x"(b), "x"(c));
  return a;
}
inline double fma_in(u32 mode, double a, double b, double c) {
  const rounding r(mode);
  asm volatile("vfmadd213sd %2, %1, %0" : "+x"(a) : "x"(b), "x"(c));
  return a;
}
inline float narrow_in(u32 mode, double x) {
  const rounding r(mode);
  float found;
  asm volatile("vcvtsd2ss %1, %1, %0" : "=x"(found) : "x"(x));
  return found;
}
template <class F, class I>
F float_of_in(u32 mode, I x) {
  const rounding r(mode);
  volatile I given = x;
  volatile F found = static_cast<F>(given);
  return found;
}

/// To the integer type, rounded already; beyond its range its limit, and NaN 0.
template <class I, class F>
I integer_of(F x) {
  if (std::isnan(x)) return sizeof(I) == 8 ? I(u64{1} << 63) : I(0);
  const F lowest = static_cast<F>(std::numeric_limits<I>::min());
  const F above = std::ldexp(F(1), std::numeric_limits<I>::digits);
  if (x < lowest) return std::numeric_limits<I>::min();
  if (x >= above) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

inline u16 bf16_of(float x) {
  u32 w = bits<u32>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<u16>((w + 0x7fff + ((w >> 16) & 1)) >> 16);
}
inline float of_bf16(u16 x) { return bits<float>(u32{x} << 16); }
inline u16 f16_of(float x) { return bits<u16>(static_cast<_Float16>(x)); }
inline float of_f16(u16 x) { return static_cast<float>(bits<_Float16>(x)); }

// Approximate instructions: the nearest value, which is within the error that PTX allows.
inline float exp2_of(float x) { return static_cast<float>(std::exp2(static_cast<double>(x))); }
inline float log2_of(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
inline float tanh_of(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }
inline float sine_of(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
inline float cosine_of(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
inline float inverse_root(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline double inverse_root(double x) { return 1 / std::sqrt(x); }
inline double coarse(double x) { return bits<double>(bits<u64>(x) & 0xffffffff00000000u); }  // low half is zero

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

inline u32 permute(u32 a, u32 b, u32 how) {
  const u64 all = u64{b} << 32 | a;
  u32 found = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 sel = how >> (4 * i) & 15;
    u32 byte = static_cast<u32>(all >> (8 * (sel & 7))) & 255;
    if (sel & 8) byte = byte & 128 ? 255 : 0;
    found |= byte << (8 * i);
  }
  return found;
}
inline u32 funnel_left(u32 low, u32 high, u32 by) { return static_cast<u32>(((u64{high} << 32 | low) << by) >> 32); }
inline u32 funnel_right(u32 low, u32 high, u32 by) { return static_cast<u32>((u64{high} << 32 | low) >> by); }
inline u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 found = 0;
  for (u32 i = 0; i < 8; ++i)
    if (table >> i & 1) found |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return found;
}
template <class U>
U reversed(U x) {
  U found = 0;
  for (u32 i = 0; i < 8 * sizeof(U); ++i) found |= (x >> i & 1) << (8 * sizeof(U) - 1 - i);
  return found;
}
template <class I>
I field(I x, u32 from, u32 count) {
  using U = std::make_unsigned_t<I>;
  constexpr u32 width = 8 * sizeof(I);
  from &= 255, count &= 255;
  if (count == 0) return 0;
  const bool negative =
      std::is_signed_v<I> && (U(x) >> (from + count - 1 < width - 1 ? from + count - 1 : width - 1) & 1);
  U found = from < width ? U(x) >> from : 0;
  if (count < width) {
    const U mask = (U(1) << count) - 1;
    found &= mask;
    if (negative) found |= ~mask;
  }
  return I(found);
}
template <class U>
U insert(U a, U b, u32 at, u32 count) {
  constexpr u32 width = 8 * sizeof(U);
  at &= 255, count &= 255;
  if (at >= width || count == 0) return b;
  const U mask = (count >= width ? ~U(0) : (U(1) << count) - 1) << at;
  return (b & ~mask) | (a << at & mask);
}

}  // namespace emulated

using namespace emulated;
