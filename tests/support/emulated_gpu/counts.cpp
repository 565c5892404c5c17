#include "counts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "emulator.hpp"

// Counts, from traces. Threads run one after the other, so each leaves a trace of the blocks of instructions that it
// entered. When all threads of a block are at a barrier or have ended, the traces of a warp's lanes are followed side
// by side. Lanes with the same next block go on together; groups with different ones go alone to the block where their
// ways join, which is the nearest post-dominator, as on a GPU that converges there.

namespace emulated {

std::uint64_t most_blocks = ~std::uint64_t{0};

namespace {

std::vector<launch_counts> counted;
launch_counts now;
const kernel* counted_kernel = nullptr;
std::vector<trace> traces;
std::vector<std::vector<u64>> words;                 // [thread]
std::vector<u8> ended;                               // [thread]
std::vector<u64> touched;                            // sectors of this block, twice each, and one more if written
std::map<std::pair<u64, bool>, u64> of_allocations;  // [first address, written]: sectors over the blocks that ran
bool loads_global = false;                           // since the last barrier

/// The distinct numbers of the first `count`, which become sorted.
int distinct(u64* numbers, int count) {
  if (!std::is_sorted(numbers, numbers + count)) std::sort(numbers, numbers + count);
  return static_cast<int>(std::unique(numbers, numbers + count) - numbers);
}

/// An access of a warp to global memory.
void count_global(u64* at, int lanes, counted_access a) {
  const int places = distinct(at, lanes);
  u64 sectors[32];
  for (int i = 0; i < places; ++i) sectors[i] = at[i] / 32;
  const int count = distinct(sectors, places);
  now.sectors += static_cast<u64>(count);
  now.needed_sectors += (static_cast<u64>(places) * a.bytes + 31) / 32;
  now.extra_passes += static_cast<u64>(count + 3) / 4 - 1;
  for (int i = 0; i < count; ++i) touched.push_back(2 * sectors[i] + a.writes);
  loads_global |= !a.writes;
}

/// An access of a warp to shared memory: a pass has 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16.
void count_shared(const u64 (&at)[32], counted_access a) {
  const int of_pass = a.bytes <= 4 ? 32 : 128 / a.bytes, of_lane = a.bytes <= 4 ? 1 : a.bytes / 4;
  u64 wavefronts = 0;
  for (int first = 0; first < 32; first += of_pass) {
    u64 found[32];
    int count = 0;
    for (int i = first; i < first + of_pass; ++i)
      for (int w = 0; at[i] != 0 && w < of_lane; ++w) found[count++] = at[i] / 4 + static_cast<u64>(w);
    count = distinct(found, count);
    u64 of_bank[32]{}, most = 0;
    for (int i = 0; i < count; ++i) most = std::max(most, ++of_bank[found[i] % 32]);
    wavefronts += most, now.conflicts += most == 0 ? 0 : most - 1;
  }
  ++now.shared_accesses;
  now.wavefronts += wavefronts, now.extra_passes += wavefronts - 1;
}

/// Follows the lanes of a warp. Sets of lanes are masks.
class warp_walk {
 public:
  explicit warp_walk(u32 first) : first_(first) {
    for (u32 i = 0; i < 32 && first + i < traces.size(); ++i) {
      at_[i] = words[first + i].data(), end_[i] = traces[first + i].next;
      if (at_[i] != end_[i] || !ended[first + i]) alive_ |= 1u << i;
    }
  }
  /// Goes on to the block `stop`, or to the end.
  void run(u32 lanes, int stop) {
    for (int last = -1;;) {
      lanes = unfinished(lanes);
      if (lanes == 0) return;
      const u64 next = *at_[std::countr_zero(lanes)];
      const u32 together = with_next(lanes, next);
      if (together == lanes) {
        if (static_cast<int>(next) == stop) return;
        enter(last = static_cast<int>(next), lanes);
        continue;
      }
      const int join = last < 0 ? -1 : counted_kernel->counted[last].joins;
      for (u32 left = lanes; left != 0;) {
        const u32 group = with_next(left, *at_[std::countr_zero(left)]);
        run(group, join);
        left &= ~group;
      }
    }
  }

 private:
  u32 unfinished(u32 lanes) const {
    u32 found = 0;
    for (u32 left = lanes; left != 0; left &= left - 1)
      if (const int i = std::countr_zero(left); at_[i] != end_[i]) found |= 1u << i;
    return found;
  }
  u32 with_next(u32 lanes, u64 block) const {
    u32 found = 0;
    for (u32 left = lanes; left != 0; left &= left - 1)
      if (const int i = std::countr_zero(left); at_[i] != end_[i] && *at_[i] == block) found |= 1u << i;
    return found;
  }
  void enter(int number, u32 lanes) {
    const counted_block& b = counted_kernel->counted[number];
    u64 issued = 0;
    for (int p = 0; p < pipes; ++p) {
      now.of_pipe[p] += b.of_pipe[p];
      issued += p == tensor ? (b.of_pipe[p] + 2047) / 2048 : b.of_pipe[p];  // the largest product of bf16
    }
    now.issued += issued, now.barriers += b.barriers;
    if (lanes != alive_) now.divergent += issued;
    for (u32 a = 0; a < b.accesses; ++a) {
      u64 at[32]{}, together[32];
      int count = 0;
      for (u32 left = lanes; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        at[i] = at_[i][1 + a];
        if (at[i] != 0) together[count++] = at[i];
      }
      const counted_access& access = counted_kernel->accesses[b.first + a];
      if (count == 0) continue;
      if (together[0] - shared_window < shared_limit) count_shared(at, access);
      else if (on_device(together[0])) count_global(together, count, access);
    }
    for (u32 left = lanes; left != 0; left &= left - 1) {
      const auto i = static_cast<u32>(std::countr_zero(left));
      at_[i] += 1 + b.accesses;
      if (at_[i] == end_[i] && ended[first_ + i]) alive_ &= ~(1u << i);
    }
  }

  u32 first_, alive_ = 0;
  const u64 *at_[32]{}, *end_[32]{};
};

void end_block() {
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const u64 t : touched) ++of_allocations[{allocation_before(t / 2 * 32 + 31).first, t & 1}];
  touched.clear();
}

}  // namespace

bool counting() {
  static const bool asked = std::getenv("EMULATED_COUNTS") != nullptr;
  return asked;
}
std::vector<launch_counts> take_counts() { return std::exchange(counted, {}); }

trace* trace_of(u32 thread) { return counting() ? &traces[thread] : nullptr; }

void begin_count(const kernel& k, dim3 grid, dim3 size, std::size_t shared) {
  if (!counting()) return;
  counted_kernel = &k, now = {};
  now.kernel = k.name, now.module_path = k.module_path;
  now.blocks = u64{grid.x} * grid.y * grid.z, now.threads = u64{size.x} * size.y * size.z, now.shared_bytes = shared;
  words.resize(now.threads), traces.assign(now.threads, {}), ended.assign(now.threads, 0);
  of_allocations.clear();
}
bool begin_block(u64 index) {
  if (!counting()) return true;
  // A block of each of `most` equal parts of the grid: in part i at the fraction of i times the golden ratio, for
  // any period of the blocks' work.
  if (const u64 most = std::min(most_blocks, now.blocks); most < now.blocks) {
    const u64 part = index * most / now.blocks, first = (part * now.blocks + most - 1) / most,
              end = ((part + 1) * now.blocks + most - 1) / most;
    const double fraction = std::fmod(0.6180339887498949 * static_cast<double>(part + 1), 1.0);
    if (index != first + static_cast<u64>(fraction * static_cast<double>(end - first))) return false;
  }
  ++now.ran;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (words[i].empty()) words[i].resize(1024);
    traces[i] = {words[i].data(), words[i].data() + words[i].size()};
    ended[i] = 0;
  }
  return true;
}
void count_traces(const std::function<bool(u32)>& has_ended) {
  if (!counting()) return;
  bool all = true;
  for (u32 i = 0; i < traces.size(); ++i) ended[i] = has_ended(i), all &= ended[i] != 0;
  loads_global = false;
  for (u32 first = 0; first < traces.size(); first += 32) warp_walk(first).run(~0u, -1);
  now.rounds += loads_global;
  for (std::size_t i = 0; i < traces.size(); ++i) traces[i].next = words[i].data();
  if (all) end_block();
}
void end_count() {
  if (!counting()) return;
  for (const auto& [place, sectors] : of_allocations)
    now.moved_bytes += std::min(32 * now.scale() * static_cast<double>(sectors),
                                static_cast<double>(allocation_before(place.first).second.bytes));
  counted.push_back(now);
}
bool count_product(u64 m, u64 n, u64 k, std::size_t bytes) {
  if (!counting()) return false;
  launch_counts c;
  c.kernel = "cublasLtMatmul", c.m = m, c.n = n, c.k = k, c.element_bytes = bytes, c.blocks = c.ran = 1;
  counted.push_back(c);
  return true;
}

}  // namespace emulated

extern "C" void emulated_longer(emulated::trace& of) {
  auto& all = emulated::words[static_cast<std::size_t>(&of - emulated::traces.data())];
  const auto used = static_cast<std::size_t>(of.next - all.data());
  all.resize(2 * all.size());
  of = {all.data() + used, all.data() + all.size()};
}
