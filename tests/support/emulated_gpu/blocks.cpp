#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "emulator.hpp"

// Blocks of threads. A thread is a fiber if its kernel has a barrier, a shuffle or a vote; otherwise threads run one
// after the other. The threads of a warp run until none of them can go on.

namespace emulated {

namespace {

enum class state { ready, at_barrier, in_warp, ended };
/// A cp.async that its thread has not awaited: the bytes, as they were when it began.
struct copy {
  u64 into;
  u16 elements[8];
  u32 group;
};
struct fiber {
  void* stack_pointer = nullptr;
  thread self{};
  state is = state::ready;
  u32 barrier = 0, count = 0, mask = 0;
  int line = 0;
  u32 turn = 0;  ///< of the warp's two rows of values
  std::vector<copy> copies;
  u32 groups = 0;  ///< of copies, committed
};
struct gathering {
  u32 values[2][32], present[2], arrived[2], words[2][32][8];
};

constexpr std::size_t stack_bytes = 128 << 10, max_threads = 1024;
u8* stacks = nullptr;
std::vector<fiber> fibers;
std::vector<gathering> warps;
fiber* running = nullptr;
void* scheduler = nullptr;
bool failed = false, alone = false;
u32 live = 0, at_barriers = 0;
block current{};
const kernel* current_kernel = nullptr;

// Saves the callee's registers on the stack, and goes on with another stack.
extern "C" void emulated_switch(void** save, void* to);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

void yield() { emulated_switch(&running->stack_pointer, scheduler); }

void set_thread(thread& t, u32 index) {
  t.in = &current;
  t.index = index;
  t.counted = trace_of(index);
  t.id[0] = index % current.size[0], t.id[1] = index / current.size[0] % current.size[1];
  t.id[2] = index / current.size[0] / current.size[1];
}
std::string place_of(const thread& t) {
  std::ostringstream text;
  text << "block (" << current.id[0] << ", " << current.id[1] << ", " << current.id[2] << "), thread (" << t.id[0]
       << ", " << t.id[1] << ", " << t.id[2] << ")";
  return text.str();
}
void fiber_main() {
  fiber& me = *running;
  const auto bytes = static_cast<std::size_t>(current_kernel->local);
  auto* const memory = bytes == 0 ? nullptr : new std::vector<u64>((bytes + 7) / 8 + 1);
  me.self.local = memory == nullptr ? nullptr : reinterpret_cast<u8*>(memory->data());
  me.self.local_bytes = static_cast<u32>(bytes);
  if (alone)
    for (u32 i = 0; i < current.threads; ++i) set_thread(me.self, i), current_kernel->run(me.self);
  else current_kernel->run(me.self);
  delete memory;
  if (!me.copies.empty())
    report("copy", current.kernel, me.line, place_of(me.self) + " ends, and has not awaited its copies");
  me.is = state::ended;
  --live;
  yield();
  std::abort();
}
void prepare(fiber& f, std::size_t place) {
  void** top = reinterpret_cast<void**>(stacks + (place + 1) * stack_bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that emulated_switch pops
  f.stack_pointer = top;
  f.is = state::ready, f.turn = 0;
  f.copies.clear(), f.groups = 0;
}

void begin_epoch() { current.tag = (current.tag & ~epoch_bits) | ((current.tag + (1 << epoch_shift)) & epoch_bits); }

// Lets the threads of a barrier go on, if all of them are there.
bool release_barrier() {
  for (u32 id = 0; at_barriers > 0 && id < 16; ++id) {
    u32 there = 0, count = 0;
    const fiber* of_warp = nullptr;  // the first of the warp's threads that wait
    for (const fiber& f : fibers) {
      if (f.is != state::at_barrier || f.barrier != id) continue;
      ++there, count = f.count;
      if (of_warp == nullptr || of_warp->self.index / 32 != f.self.index / 32) of_warp = &f;
      if (f.line != of_warp->line)
        report("divergent barrier", current.kernel, f.line,
               "threads of a warp wait at the barriers of lines " + std::to_string(of_warp->line) + " and " +
                   std::to_string(f.line));
    }
    if (there == 0 || there < (count == 0 ? live : count)) continue;
    if (at_barriers == live) count_traces([](u32 i) { return fibers[i].is == state::ended; });
    if (count == 0 && live < current.threads)
      report(
          "divergent barrier", current.kernel, of_warp->line,
          std::to_string(current.threads - live) + " threads have ended before a barrier of " + std::to_string(there));
    for (fiber& f : fibers)
      if (f.is == state::at_barrier && f.barrier == id) f.is = state::ready, --at_barriers;
    begin_epoch();
    return true;
  }
  return false;
}

void run_block(const kernel& k) {
  alone = !k.waits;
  fibers.resize(alone ? 1 : current.threads);
  if (stacks == nullptr)
    stacks = static_cast<u8*>(mmap(nullptr, (max_threads + 1) * stack_bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  warps.assign((current.threads + 31) / 32, {});
  live = current.threads, at_barriers = 0;
  for (std::size_t i = 0; i < fibers.size(); ++i)
    prepare(fibers[i], i), set_thread(fibers[i].self, static_cast<u32>(i));
  do {
    for (std::size_t w = 0; w < fibers.size(); w += 32)
      for (bool again = true; again;) {
        again = false;
        for (std::size_t i = w; i < std::min(w + 32, fibers.size()); ++i) {
          if (fibers[i].is != state::ready) continue;
          running = &fibers[i];
          emulated_switch(&scheduler, running->stack_pointer);
          again = true;
          if (failed) return;
        }
      }
    if (live == 0 || (alone && fibers[0].is == state::ended)) return count_traces([](u32) { return true; });
  } while (release_barrier());
  std::ostringstream text;
  int shown = 0;
  for (const fiber& f : fibers)
    if (f.is != state::ended && shown++ < 4)
      text << place_of(f.self)
           << (f.is == state::at_barrier ? " waits at the barrier of line " : " waits in its warp, line ") << f.line
           << "; ";
  report("deadlock", current.kernel, fibers[0].line, text.str());
  failed = true, sticky = cudaErrorLaunchFailure;
}

[[noreturn]] void fail(cudaError_t with) {
  failed = true;
  sticky = with;
  yield();
  std::abort();
}

}  // namespace

void run_kernel(const kernel& k, dim3 grid, dim3 size, const std::vector<u64>& parameters, std::size_t dynamic,
                int gpu) {
  static std::vector<u64> shared_memory, shared_accesses;
  static std::vector<u8> shared_state;
  count_launch(k.name);
  name_operation(k.name);
  const auto bytes = static_cast<std::size_t>(k.shared) + dynamic;
  shared_memory.resize(bytes / 8 + 3), shared_accesses.assign(bytes + 16, 0), shared_state.resize(bytes + 16);
  current = {};
  current.grid[0] = grid.x, current.grid[1] = grid.y, current.grid[2] = grid.z;
  current.size[0] = size.x, current.size[1] = size.y, current.size[2] = size.z;
  current.threads = size.x * size.y * size.z;
  current.shared_bytes = static_cast<u32>(bytes);
  current.parameters = reinterpret_cast<const u8*>(parameters.data());
  current.parameter_bytes = static_cast<u32>(k.parameter_bytes);
  current.shared = reinterpret_cast<u8*>(shared_memory.data()), current.shared_state = shared_state.data();
  current.shared_access = reinterpret_cast<access*>(shared_accesses.data());
  current.kernel = k.name.c_str();
  current.reachable = reachable(gpu);
  current_kernel = &k;
  failed = false;
  begin_count(k, grid, size, bytes);
  u64 index = 0;
  for (u32 z = 0; z < grid.z; ++z)
    for (u32 y = 0; y < grid.y; ++y)
      for (u32 x = 0; x < grid.x && !failed; ++x, ++index) {
        current.id[0] = x, current.id[1] = y, current.id[2] = z;
        current.tag = operation_now() << operation_shift | (index % max_block_tags + 1) << block_shift;
        std::fill(shared_state.begin(), shared_state.end(), u8{0});
        for (int i = 0; k.shared_at[i] >= 0; ++i)
          std::memset(shared_state.data() + k.shared_at[i], allocated, static_cast<std::size_t>(k.shared_size[i]));
        std::memset(shared_state.data() + k.shared, allocated, dynamic);
        if (begin_block(index)) run_block(k);
      }
  end_count();
}

}  // namespace emulated

using namespace emulated;

// Called by kernels
// ----------------------------------------------------------------------------------------------------

extern "C" {

void emulated_bad_access(thread& t, u64 at, u32 bytes, bool writes, const char* space, int line) {
  std::ostringstream text;
  const bool aligned = at % bytes == 0;
  text << place_of(t) << (writes ? " writes " : " reads ") << bytes << " bytes at " << space << " address 0x"
       << std::hex << at << std::dec << (aligned ? "" : ", which is not aligned");
  if (on_device(at)) {
    const auto [first, a] = allocation_before(at);
    if (first != 0) text << ", " << at - first << " bytes into an allocation of " << a.bytes << " on GPU " << a.gpu;
    if (!(t.in->reachable >> gpu_of(at) & 1)) text << ", without access to that GPU";
  }
  report(aligned ? "out of bounds" : "misaligned", t.in->kernel, line, text.str());
  fail(aligned ? cudaErrorIllegalAddress : cudaErrorMisalignedAddress);
}
void emulated_unwritten(thread& t, u64 at, u32 bytes, const char* space, int line) {
  std::ostringstream text;
  if (space[0] == 's' && (t.in->shared_state[at] & in_flight)) {
    text << place_of(t) << " reads what a cp.async still writes, at shared 0x" << std::hex << at;
    return report("copy", t.in->kernel, line, text.str());
  }
  text << place_of(t) << " reads " << bytes << " bytes of " << space << " memory that nothing has written, at 0x"
       << std::hex << at;
  report("unwritten memory", t.in->kernel, line, text.str());
}
void emulated_race(thread& t, u64 at, u64 other, bool writes, bool other_writes, const char* space, int line) {
  std::ostringstream text;
  const u64 b = (other & block_bits) >> block_shift, i = other & thread_bits;
  text << place_of(t) << (writes ? " writes" : " reads") << " what ";
  if (b == block_bits >> block_shift) text << "several blocks";
  else if (i == thread_bits) text << "several threads of block " << b - 1;
  else text << "thread " << i << " of block " << b - 1;
  text << (other_writes ? " wrote" : " read") << " without a barrier between, at " << space << " 0x" << std::hex << at;
  report("race", t.in->kernel, line, text.str());
}
void emulated_unordered(thread& t, u64 at, u64 other, bool writes, bool other_writes, int line) {
  const u64 o = other >> operation_shift;
  if (is_before_now(o)) {
    t.in->ordered_with = static_cast<u32>(o);
    return;
  }
  std::ostringstream text;
  text << place_of(t) << (writes ? " writes" : " reads") << " what " << readable(name_of(o))
       << (other_writes ? " writes" : " reads") << " on another stream, without an event between, at 0x" << std::hex
       << at;
  report("unordered", t.in->kernel, line, text.str());
}
void emulated_trap(thread& t, const char* why, int line) {
  report("trap", t.in->kernel, line, place_of(t) + ": " + why);
  fail(cudaErrorAssert);
}
void emulated_barrier(thread&, u32 which, u32 count, int line) {
  fiber& me = *running;
  me.is = state::at_barrier, me.barrier = which, me.count = count, me.line = line;
  ++at_barriers;
  yield();
}
const u32* emulated_gather(thread& t, u32 value, u32 mask, u32* present, int line) {
  fiber& me = *running;
  const u32 first = t.index / 32 * 32, lane = t.lane();
  gathering& g = warps[t.index / 32];
  const u32 row = me.turn++ & 1;
  g.values[row][lane] = value;
  if (!(mask >> lane & 1))
    report("shuffle", t.in->kernel, line, place_of(t) + " is not in the mask of its own shuffle, vote or warp barrier");
  me.mask = mask, me.line = line;
  // The last to come lets all go on.
  if (mask == ~0u && first + 32 <= fibers.size() && live == current.threads) {  // the usual case
    g.arrived[row] |= 1u << lane;
    if (g.arrived[row] == mask) {
      g.present[row] = mask, g.arrived[row] = 0;
      for (u32 i = 0; i < 32; ++i)
        if (i != lane) fibers[first + i].is = state::ready;
    } else {
      me.is = state::in_warp;
      yield();
    }
    *present = mask;
    return g.values[row];
  }
  bool complete = true;
  u32 there = 1u << lane;
  for (u32 i = 0; i < 32 && first + i < fibers.size(); ++i) {
    const fiber& other = fibers[first + i];
    if (i == lane || !(mask >> i & 1) || other.is == state::ended) continue;
    if (other.is == state::in_warp && other.mask == mask && other.turn % 2 == me.turn % 2) there |= 1u << i;
    else complete = false;
  }
  if (complete) {
    g.present[row] = there;
    for (u32 i = 0; i < 32 && first + i < fibers.size(); ++i)
      if ((there >> i & 1) && i != lane) fibers[first + i].is = state::ready;
  } else {
    me.is = state::in_warp;
    yield();
  }
  *present = g.present[row];
  return g.values[row];
}
void emulated_warp_barrier(thread& t, u32 mask, int line) {
  u32 present;
  emulated_gather(t, 0, mask, &present, line);
  begin_epoch();
}
u32 emulated_shuffle(thread& t, int mode, u32 value, u32 b, u32 c, u32 mask, bool* valid, int line) {
  u32 present;
  const u32* const of = emulated_gather(t, value, mask, &present, line);
  const u32 lane = t.lane(), segment = c >> 8 & 31, clamp = c & 31, by = b & 31;
  const int max = static_cast<int>((lane & segment) | (clamp & ~segment)), min = static_cast<int>(lane & segment);
  const int from = mode == 0   ? static_cast<int>(lane) - static_cast<int>(by)  // up
                   : mode == 1 ? static_cast<int>(lane + by)                    // down
                   : mode == 2 ? static_cast<int>(lane ^ by)                    // across
                               : min | static_cast<int>(by & ~segment);         // an index
  *valid = mode == 0 ? from >= max : from <= max;
  const u32 source = *valid ? static_cast<u32>(from) : lane;
  if (present >> source & 1) return of[source];
  report("shuffle", t.in->kernel, line,
         place_of(t) + " reads lane " + std::to_string(source) + ", which does not take part");
  return 0xdeadbeef;
}
const u32 (*emulated_collect(thread& t, const u32* words, u32 count, int line))[8] {
  gathering& g = warps[t.index / 32];
  const u32 row = running->turn & 1;
  std::memcpy(g.words[row][t.lane()], words, count * sizeof(u32));
  u32 present;
  const u32* const lines = emulated_gather(t, static_cast<u32>(line), ~0u, &present, line);
  if (present != ~0u || std::any_of(lines, lines + 32, [&](u32 l) { return l != static_cast<u32>(line); }))
    report("warp", t.in->kernel, line, place_of(t) + ": not all lanes of its warp take part");
  return g.words[row];
}
void emulated_copy_begin(thread& t, u64 into, u64 from, u32 used, int line) {
  block& b = *t.in;
  const auto states = [&] { return b.shared_state + into; };
  if (into % 16 != 0 || into + 16 > b.shared_bytes ||
      std::any_of(states(), states() + 16, [](u8 s) { return (s & allocated) == 0; }))
    emulated_bad_access(t, into, 16, true, "shared", line);
  if (used > 16 || from % 16 != 0) emulated_bad_access(t, from, 16, false, "global", line);
  copy c{into, {}, running->groups};
  for (u32 i = 0; 2 * i < used; ++i) c.elements[i] = load_global<u16>(t, from + 2 * i, line);
  if (*states() & in_flight)
    report("copy", b.kernel, line, place_of(t) + " begins a cp.async to where another one still writes");
  for (u32 i = 0; i < 8; ++i) note_write<true>(t, b.shared_access[into / 2 + i], into + 2 * i, false, line);
  std::fill(states(), states() + 16, u8{allocated | in_flight});
  running->copies.push_back(c), running->line = line;
}
void emulated_copy_commit(thread&) { ++running->groups; }
void emulated_copy_wait(thread& t, u32 most, bool all, int line) {
  fiber& me = *running;
  std::vector<copy> left;
  for (const copy& c : me.copies) {
    if (!all && c.group + most >= me.groups) {
      left.push_back(c);
      continue;
    }
    if (!(t.in->shared_state[c.into] & in_flight))
      report("copy", t.in->kernel, line, place_of(t) + " awaits a cp.async to where another store wrote meanwhile");
    for (u32 i = 0; i < 8; ++i) store_shared<u16>(t, c.into + 2 * i, c.elements[i], line);
  }
  me.copies = std::move(left);
}
u32 emulated_print(thread& t, u64, u64) {
  report("printf", t.in->kernel, 0, place_of(t) + " prints");
  return 0;
}

}  // extern "C"
