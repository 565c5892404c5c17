#pragma once

// What the parts of the emulated GPU share: reports, memory, and streams as queues of work.

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counts.hpp"
#include "device_code.hpp"

namespace emulated {

extern std::mutex one_at_a_time;       ///< every call holds it
extern std::condition_variable moved;  ///< some work is done
extern thread_local int gpu_in_use;
int gpu_count();
int architecture();     ///< of the PTX that the emulated GPUs run, such as 80
int shared_of_block();  ///< the most bytes of shared memory that a program may ask for

// Errors and reports
// ---------------------------------------------------------------------------------------------------

extern cudaError_t sticky;                ///< after a kernel's failure every call returns it
cudaError_t returned(cudaError_t found);  ///< keeps it as the last error, unless it is success

/// Something that a correct program does not do. The program's exit status is then 99.
void report(const char* kind, const std::string& where, int line, const std::string& text);
std::string readable(const std::string& mangled);
void count_launch(const std::string& kernel);

// Order
// ----------------------------------------------------------------------------------------------------------------
//
// Each stream is a lane, and each lane counts its operations. A clock has the number of every lane's operations that
// are known to be over; one operation comes before another if the other's clock knows it. An event carries a clock from
// one stream to another, and a wait carries it to the host.

using clock_of_lanes = std::vector<u32>;
void merge(clock_of_lanes& into, const clock_of_lanes& from);

/// One record of an event.
struct moment {
  bool over = false, asked = false;
  clock_of_lanes when;
};

/// A piece of work. `run` returns false while it must wait, as a send does for its receive.
struct work {
  enum { compute, record, wait } kind = compute;
  std::function<bool()> run;
  std::shared_ptr<moment> at;
  clock_of_lanes host;  ///< what the host knew when it enqueued this
};

/// The work of a graph, in the order of its capture.
struct captured {
  struct line {
    cudaStream_t on;
    work what;
  };
  std::vector<line> lines;
  cudaStream_t first = nullptr;
};

/// Enqueues or captures work.
cudaError_t enqueue(cudaStream_t on, std::function<bool()> run);
/// The operations that the one that runs comes after, itself included, for another process; and a wait for these.
struct known_operation {
  int process;
  u32 lane, turn;
};
std::vector<known_operation> known_operations();
void come_after(const std::vector<known_operation>& others);
/// Does all that can be done.
void work_off();

/// The operation that runs, by its number; and whether another one is known to be over.
u64 operation_now();
bool is_before_now(u64 operation);
void name_operation(const std::string& name);
const std::string& name_of(u64 operation);

// Memory
// ---------------------------------------------------------------------------------------------------------------

struct allocation {
  std::size_t bytes;
  int gpu;
};
u32 reachable(int gpu);  ///< a bit for each GPU whose memory its kernels can access
u64 allocate(std::size_t bytes, int gpu);
bool release(u64 at);
std::size_t bytes_in_use(int gpu);
/// The allocation at or before an address; its first address is 0 if there is none.
std::pair<u64, allocation> allocation_before(u64 at);
void* pin(std::size_t bytes);
bool unpin(void* at);

/// The memory that a copy or a product reads or writes; null, and a report, if not all of [at, at + bytes) is
/// allocated.
u8* touch(u64 at, std::size_t bytes, bool writes, const char* who);

// Kernels
// --------------------------------------------------------------------------------------------------------------

struct kernel {
  struct module* of = nullptr;
  std::string name;
  void (*run)(thread&) = nullptr;
  const int *offsets = nullptr, *sizes = nullptr;          ///< of parameters
  const int *shared_at = nullptr, *shared_size = nullptr;  ///< of variables in shared memory
  int waits = 0, shared = 0, local = 0, max_threads = 0, parameter_bytes = 0;
  std::size_t most_dynamic = 0;            ///< bytes of shared memory that the program has asked for
  const counted_block* counted = nullptr;  ///< by number
  const counted_access* accesses = nullptr;
  std::string module_path;  ///< of its PTX
};

/// Runs every block.
void run_kernel(const kernel& k, dim3 grid, dim3 size, const std::vector<u64>& parameters, std::size_t dynamic,
                int gpu);

// Counts (see counts.hpp)
// --------------------------------------------------------------------------------------------------------------

trace* trace_of(u32 thread);
void begin_count(const kernel& k, dim3 grid, dim3 size, std::size_t shared);
bool begin_block(u64 index);  ///< false: it is not in the sample
/// Counts what all threads have done since the last barrier, where each of them waits or has ended.
void count_traces(const std::function<bool(u32)>& has_ended);
void end_count();
bool count_product(u64 m, u64 n, u64 k, std::size_t bytes);  ///< false: the program does not count

}  // namespace emulated

struct CUstream_st {
  CUstream_st(int gpu, bool waits_for_default);
  ~CUstream_st();
  static std::set<CUstream_st*, bool (*)(const CUstream_st*, const CUstream_st*)>& all();  ///< by lane

  const int gpu;
  const bool with_default;
  const emulated::u32 lane;
  emulated::clock_of_lanes clock;
  std::deque<emulated::work> queue;
  std::shared_ptr<emulated::captured> captures;
};
