#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "emulator.hpp"

// Reports, and the memory of GPUs and of the host.

namespace emulated {

std::mutex one_at_a_time;
std::condition_variable moved;
thread_local int gpu_in_use = 0;
cudaError_t sticky = cudaSuccess;

namespace {

int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

int gpu_count() {
  static const int count = number_from_environment("EMULATED_GPUS", 1);
  return count;
}
int architecture() {
  static const int number = number_from_environment("EMULATED_ARCHITECTURE", 80);
  return number;
}
int shared_of_block() { return (architecture() >= 90 ? 227 : 163) << 10; }

namespace {

// Prints a summary at the end of the program.
struct all_reports {
  std::map<std::string, int> count;
  std::map<std::string, u64> launches;
  ~all_reports() {
    u64 launched = 0;
    for (const auto& [name, n] : launches) launched += n;
    int total = 0;
    for (const auto& [text, n] : count) total += n;
    std::fprintf(stderr, "emulated GPU: %llu launches of %zu kernels; %d findings at %zu places\n",
                 static_cast<unsigned long long>(launched), launches.size(), total, count.size());
    for (const auto& [text, n] : count) std::fprintf(stderr, "emulated GPU:   %d x %s\n", n, text.c_str());
    if (total > 0) {
      std::fflush(nullptr);
      _exit(99);
    }
  }
} reports;

}  // namespace

std::string readable(const std::string& mangled) {
  int status = 0;
  char* plain = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : mangled;
  std::free(plain);
  if (text.size() > 220) text = text.substr(0, 140) + " ... " + text.substr(text.size() - 70);
  return text;
}
void report(const char* kind, const std::string& where, int line, const std::string& text) {
  std::string place = std::string(kind) + " in " + readable(where);
  if (line > 0) place += ", line " + std::to_string(line) + " of its PTX";
  if (reports.count[place]++ == 0) std::fprintf(stderr, "emulated GPU: %s: %s\n", place.c_str(), text.c_str());
}
void count_launch(const std::string& kernel) { ++reports.launches[kernel]; }

namespace {

std::map<u64, allocation> on_gpus;  // [first address]
std::map<u64, std::size_t> pinned;
u64 used[max_gpus];  // bytes of each GPU's part of the region

void map_at(u64 base, u64 bytes, int protection) {
  void* const at = mmap(reinterpret_cast<void*>(base), bytes, protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == reinterpret_cast<void*>(base)) return;
  std::perror("emulated GPU: mmap");
  std::abort();
}
void map_regions() {
  [[maybe_unused]] static const bool once = [] {
    map_at(bytes_base, region_bytes, PROT_READ | PROT_WRITE);
    map_at(state_base, region_bytes, PROT_READ | PROT_WRITE);
    map_at(access_base, region_bytes / 2 * sizeof(access), PROT_READ | PROT_WRITE);
    map_at(device_base, region_bytes, PROT_NONE);  // the host faults where it reads a GPU's memory
    return true;
  }();
}

}  // namespace

u64 allocate(std::size_t bytes, int gpu) {
  map_regions();
  const u64 at = device_base + (static_cast<u64>(gpu) << gpu_shift) + 4096 + used[gpu];
  used[gpu] += (bytes + 8191) / 4096 * 4096;  // an unused page behind it; no address is used again
  // The blocks that a program leaves out when it counts would have written, so it begins with zeros.
  std::memset(state_of(at), counting() ? allocated | written : allocated, bytes);
  if (!counting()) std::memset(bytes_of(at), 0xff, bytes);
  on_gpus[at] = {bytes, gpu};
  return at;
}
bool release(u64 at) {
  const auto it = on_gpus.find(at);
  if (it == on_gpus.end()) return false;
  const std::size_t bytes = (it->second.bytes + 4095) / 4096 * 4096;
  madvise(bytes_of(at), bytes, MADV_DONTNEED);
  madvise(state_of(at), bytes, MADV_DONTNEED);
  madvise(access_of(at), bytes / 2 * sizeof(access), MADV_DONTNEED);
  on_gpus.erase(it);
  return true;
}
std::size_t bytes_in_use(int gpu) {
  std::size_t bytes = 0;
  for (const auto& [first, a] : on_gpus) bytes += a.gpu == gpu ? a.bytes : 0;
  return bytes;
}
std::pair<u64, allocation> allocation_before(u64 at) {
  const auto it = on_gpus.upper_bound(at);
  if (it == on_gpus.begin()) return {};
  return *std::prev(it);
}
void* pin(std::size_t bytes) {
  void* const at = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  std::memset(at, 0xff, bytes);
  pinned[reinterpret_cast<u64>(at)] = bytes;
  return at;
}
bool unpin(void* at) {
  if (pinned.erase(reinterpret_cast<u64>(at)) == 0) return false;
  std::free(at);
  return true;
}

u8* touch(u64 at, std::size_t bytes, bool writes, const char* who) {
  if (!on_device(at)) return emulated_pinned(at, static_cast<u32>(std::min<std::size_t>(bytes, ~0u)));
  if (std::memchr(state_of(at), 0, bytes) != nullptr) {
    report("out of bounds", who, 0, std::to_string(bytes) + " bytes");
    return nullptr;
  }
  name_operation(who);
  if (counting()) return bytes_of(at);
  const u64 mine = operation_now() << operation_shift | u64{1} << block_shift;
  u64 known = 0;  // the other operation that was seen last
  const auto check = [&](u64 other, bool other_writes) {
    const u64 o = other >> operation_shift;
    if (other == 0 || o == operation_now() || o == known) return;
    known = o;
    if (!is_before_now(o))
      report("unordered", who, 0,
             std::string(writes ? "writes" : "reads") + " what " + readable(name_of(o)) +
                 (other_writes ? " writes" : " reads") + " on another stream, without an event between");
  };
  for (access* a = access_of(at & ~u64{1}); a <= access_of((at + bytes - 1) & ~u64{1}); ++a) {
    check(a->write, true);
    if (writes) check(a->read, false), a->write = mine, a->read = 0;
    else a->read = mine;
  }
  if (writes) std::memset(state_of(at), allocated | written, bytes);
  return bytes_of(at);
}

}  // namespace emulated

using namespace emulated;

extern "C" u8* emulated_pinned(u64 at, u32 bytes) {
  const auto it = pinned.upper_bound(at);
  if (it == pinned.begin()) return nullptr;
  const auto& [first, size] = *std::prev(it);
  return at + bytes <= first + size ? reinterpret_cast<u8*>(at) : nullptr;
}
