#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "emulator.hpp"

// Streams, events and graphs. CUDA promises the order that streams and events give, and no more: work runs in one of
// the orders that they allow, and clocks find work that nothing orders, in whatever order it ran.
//
//     EMULATED_ORDER    at_once    when it is enqueued; the default
//                       late       when the host waits or asks for any work
//                       needed     the same, and then only the work that the host waits for
//                       a number   the seed of a random order of the work that is ready, also within graphs

namespace emulated {

namespace {

enum class order { at_once, late, needed, random };
const char* order_text() {
  const char* text = std::getenv("EMULATED_ORDER");
  return text == nullptr ? "at_once" : text;
}
const order how = [] {
  const std::string text = order_text();
  return text == "late"      ? order::late
         : text == "needed"  ? order::needed
         : text == "at_once" ? order::at_once
                             : order::random;
}();
unsigned draw(unsigned below) {
  static std::mt19937 random(static_cast<unsigned>(std::strtoul(order_text(), nullptr, 10)));
  return static_cast<unsigned>(random()) % below;
}

u32 lanes = 0;
std::map<std::pair<int, u32>, u32> lane_of_other;  // [process, its lane]
clock_of_lanes host_clock;                         // what the host has waited for

struct operation {
  u32 lane, turn;
  std::string name;
};
std::vector<operation> operations(1);  // [number]
clock_of_lanes* now = nullptr;

// Does a piece of work in a lane; false if it must wait.
bool run_one(work& w, clock_of_lanes& clock, u32 lane) {
  if (w.kind == work::wait) {
    if (!w.at->over) return false;
    merge(clock, w.at->when);
    return true;
  }
  if (w.kind == work::record) {
    w.at->over = true;
    w.at->when = clock;
    return true;
  }
  clock_of_lanes then = clock;
  merge(then, w.host);
  if (then.size() <= lane) then.resize(lane + 1);
  ++then[lane];
  clock_of_lanes* const before = std::exchange(now, &then);
  operations.push_back({lane, then[lane], {}});
  const bool done = sticky != cudaSuccess || w.run();
  now = before;
  if (done) merge(clock, then);
  else operations.pop_back();
  return done;
}
bool run_first(CUstream_st* s) {
  if (s->queue.empty() || !run_one(s->queue.front(), s->clock, s->lane)) return false;
  s->queue.pop_front();
  return true;
}

// Does one piece of work of any stream; false if nothing is ready.
bool run_any() {
  const std::vector<CUstream_st*> streams(CUstream_st::all().begin(), CUstream_st::all().end());
  const auto count = static_cast<unsigned>(streams.size()), first = count == 0 ? 0 : draw(count);
  for (unsigned i = 0; i < count; ++i)
    if (run_first(streams[(first + i) % count])) return true;
  return false;
}

// The stream that will record a moment.
CUstream_st* recorder_of(const std::shared_ptr<moment>& at) {
  for (CUstream_st* s : CUstream_st::all())
    for (const work& w : s->queue)
      if (w.kind == work::record && w.at == at) return s;
  return nullptr;
}
// Does the first work of a stream, or of one that this waits for; false if nothing can be done.
bool run_needed(CUstream_st* s, std::set<CUstream_st*>& tried) {
  if (s == nullptr || s->queue.empty() || !tried.insert(s).second) return false;
  if (run_first(s)) return true;
  const work& w = s->queue.front();
  return w.kind == work::wait && run_needed(recorder_of(w.at), tried);
}

// Does what `over` needs of a stream's work, or more. `asks`: the host does not wait.
void work_for(const std::function<bool()>& over, CUstream_st* s, bool asks = false) {
  if (how == order::random) {
    for (unsigned steps = asks ? draw(8) : ~0u; steps > 0 && !over() && run_any(); --steps) {
    }
  } else {
    if (how == order::needed)
      for (std::set<CUstream_st*> tried; !over() && run_needed(s, tried);) tried.clear();
    if (how != order::needed || !over()) work_off();
  }
  moved.notify_all();
}
void wait_for(std::unique_lock<std::mutex>& held, const std::function<bool()>& over, CUstream_st* s) {
  for (work_for(over, s); !over(); work_for(over, s))
    moved.wait_for(held, std::chrono::milliseconds(1));  // or another process has sent something
}

cudaError_t add(CUstream_st* s, work w) {
  if (sticky != cudaSuccess) return returned(sticky);
  if (s->captures) {
    s->captures->lines.push_back({s, std::move(w)});
    return cudaSuccess;
  }
  w.host = host_clock;
  s->queue.push_back(std::move(w));
  if (how == order::at_once) work_off();
  while (how == order::random && draw(3) == 0 && run_any()) {
  }
  moved.notify_all();
  return cudaSuccess;
}

CUstream_st* default_stream(int gpu) {
  static std::map<int, CUstream_st*> of;
  auto& s = of[gpu];
  if (s == nullptr) s = new CUstream_st(gpu, true);
  return s;
}
CUstream_st* resolve(cudaStream_t s) {
  return s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread ? default_stream(gpu_in_use) : s;
}

// Runs a graph as one operation of a stream; each captured stream has a lane of its own, so that a missing event is
// found within a graph too.
void run_graph(captured& graph, CUstream_st* s) {
  static std::map<std::pair<captured*, cudaStream_t>, u32> lane_of;
  struct part {
    u32 lane;
    clock_of_lanes clock;
    std::vector<captured::line*> lines;
    std::size_t next = 0;
  };
  const clock_of_lanes begin = *now;
  clock_of_lanes end = begin;
  std::vector<part> parts;
  std::map<cudaStream_t, std::size_t> part_of;
  std::vector<std::size_t> in_order;  // of capture
  for (auto& l : graph.lines) {
    if (l.what.at) l.what.at->over = false;
    const auto [it, fresh] = part_of.try_emplace(l.on, parts.size());
    if (fresh) {
      const auto lane = lane_of.try_emplace({&graph, l.on}, lanes).first->second;
      lanes = std::max(lanes, lane + 1);
      parts.push_back({lane, begin, {}});
    }
    parts[it->second].lines.push_back(&l);
    in_order.push_back(it->second);
  }
  const auto run_next = [&](part& p) {
    if (p.next == p.lines.size() || !run_one(p.lines[p.next]->what, p.clock, p.lane)) return false;
    merge(end, p.clock);
    return ++p.next, true;
  };
  for (std::size_t i = 0; i < in_order.size(); ++i)
    if (how != order::random) run_next(parts[in_order[i]]);
    else
      for (auto p = draw(static_cast<unsigned>(parts.size())); !run_next(parts[p]);) p = (p + 1) % parts.size();
  merge(s->clock, end);
}

}  // namespace

void merge(clock_of_lanes& into, const clock_of_lanes& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}
std::vector<known_operation> known_operations() {
  std::vector<known_operation> found;
  for (u32 lane = 0; lane < now->size(); ++lane) {
    if ((*now)[lane] == 0) continue;
    const auto it =
        std::find_if(lane_of_other.begin(), lane_of_other.end(), [lane](const auto& l) { return l.second == lane; });
    const auto [process, its] = it == lane_of_other.end() ? std::pair(::getpid(), lane) : it->first;
    found.push_back({process, its, (*now)[lane]});
  }
  return found;
}
void come_after(const std::vector<known_operation>& others) {
  for (const known_operation& o : others) {
    u32 lane = o.lane;
    if (o.process != ::getpid()) {
      const auto [it, is_new] = lane_of_other.try_emplace({o.process, o.lane}, lanes);
      lanes += is_new;
      lane = it->second;
    }
    if (now->size() <= lane) now->resize(lane + 1);
    (*now)[lane] = std::max((*now)[lane], o.turn);
  }
}
u64 operation_now() { return operations.size() - 1; }
bool is_before_now(u64 number) {
  const operation& o = operations[number];
  return now != nullptr && o.lane < now->size() && (*now)[o.lane] >= o.turn;
}
void name_operation(const std::string& name) { operations.back().name = name; }
const std::string& name_of(u64 number) { return operations[number].name; }

void work_off() {
  for (bool again = true; again;) {
    again = false;
    for (CUstream_st* s : CUstream_st::all())
      while (run_first(s)) again = true;
  }
  moved.notify_all();
}

cudaError_t enqueue(cudaStream_t on, std::function<bool()> run) {
  CUstream_st* const s = resolve(on);
  if (s->gpu != gpu_in_use) return returned(cudaErrorInvalidResourceHandle);
  // The default stream and the streams that follow it wait for each other.
  if (s->with_default && !s->captures)
    for (CUstream_st* other : CUstream_st::all())
      if (other != s && other->gpu == s->gpu && other->with_default &&
          (s == default_stream(s->gpu) || other == default_stream(s->gpu))) {
        const auto at = std::make_shared<moment>();
        add(other, {.kind = work::record, .run = {}, .at = at, .host = {}});
        add(s, {.kind = work::wait, .run = {}, .at = at, .host = {}});
      }
  return add(s, {.run = std::move(run), .at = {}, .host = {}});
}

}  // namespace emulated

using namespace emulated;

CUstream_st::CUstream_st(int g, bool waits_for_default) : gpu(g), with_default(waits_for_default), lane(lanes++) {
  all().insert(this);
}
CUstream_st::~CUstream_st() { all().erase(this); }
std::set<CUstream_st*, bool (*)(const CUstream_st*, const CUstream_st*)>& CUstream_st::all() {
  static auto& found = *new std::set<CUstream_st*, bool (*)(const CUstream_st*, const CUstream_st*)>(
      [](const CUstream_st* a, const CUstream_st* b) { return a->lane < b->lane; });
  return found;
}

struct CUevent_st {
  int gpu;
  bool timed;
  std::shared_ptr<moment> last;
  std::shared_ptr<captured> within;
};
struct CUgraph_st {
  std::shared_ptr<captured> work;
};
struct CUgraphExec_st {
  std::shared_ptr<captured> work;
};

extern "C" {

// Streams
// --------------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  const std::lock_guard held(one_at_a_time);
  return *made = new CUstream_st(gpu_in_use, !(flags & cudaStreamNonBlocking)), cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* made) { return cudaStreamCreateWithFlags(made, 0); }
cudaError_t cudaStreamSynchronize(cudaStream_t on) {
  std::unique_lock held(one_at_a_time);
  CUstream_st* const s = resolve(on);
  if (s->captures) return returned(cudaErrorStreamCaptureUnsupported);
  wait_for(
      held, [&] { return s->queue.empty(); }, s);
  merge(host_clock, s->clock);
  return returned(sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  CUstream_st* const s = resolve(on);
  work_for([&] { return s->queue.empty(); }, s, true);
  if (!s->queue.empty()) return cudaErrorNotReady;
  merge(host_clock, s->clock);
  return returned(sticky);
}
cudaError_t cudaDeviceSynchronize() {
  std::unique_lock held(one_at_a_time);
  for (CUstream_st* s : CUstream_st::all()) {
    if (s->gpu != gpu_in_use) continue;
    work_for([&] { return s->queue.empty(); }, s);
    if (s->queue.empty()) merge(host_clock, s->clock);
  }
  return returned(sticky);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  std::unique_lock held(one_at_a_time);
  wait_for(
      held, [&] { return s->queue.empty(); }, s);
  return delete s, cudaSuccess;
}

// Copies
// ---------------------------------------------------------------------------------------------------------------

static bool copy(void* into, const void* from, std::size_t bytes) {
  const u64 to = reinterpret_cast<u64>(into), at = reinterpret_cast<u64>(from);
  const u8* const source = on_device(at) ? touch(at, bytes, false, "cudaMemcpy") : static_cast<const u8*>(from);
  u8* const target = on_device(to) ? touch(to, bytes, true, "cudaMemcpy") : static_cast<u8*>(into);
  if (source == nullptr || target == nullptr) return sticky = cudaErrorIllegalAddress, true;
  if (on_device(at) && on_device(to)) std::memmove(state_of(to), state_of(at), bytes);  // unwritten stays unwritten
  std::memmove(target, source, bytes);
  return true;
}
static bool is_pinned(const void* at) { return emulated_pinned(reinterpret_cast<u64>(at), 1) != nullptr; }

cudaError_t cudaMemcpyAsync(void* into, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t on) {
  std::unique_lock held(one_at_a_time);
  if (bytes == 0) return cudaSuccess;
  if (into == nullptr || from == nullptr) return returned(cudaErrorInvalidValue);
  const bool from_device = on_device(reinterpret_cast<u64>(from)), to_device = on_device(reinterpret_cast<u64>(into));
  const bool up = !from_device && to_device, down = from_device && !to_device;
  if ((kind == cudaMemcpyHostToDevice && !up) || (kind == cudaMemcpyDeviceToHost && !down) ||
      (kind == cudaMemcpyDeviceToDevice && (up || down)))
    return returned(cudaErrorInvalidValue);
  if (up && !is_pinned(from)) {  // pageable memory has been read when this returns
    const auto* const bytes_there = static_cast<const u8*>(from);
    const auto kept = std::make_shared<std::vector<u8>>(bytes_there, bytes_there + bytes);
    return enqueue(on, [=] { return copy(into, kept->data(), bytes); });
  }
  const cudaError_t queued = enqueue(on, [=] { return copy(into, from, bytes); });
  CUstream_st* const s = resolve(on);
  if (queued == cudaSuccess && down && !s->captures && !is_pinned(into)) {  // and has been written
    wait_for(
        held, [&] { return s->queue.empty(); }, s);
    merge(host_clock, s->clock);
  }
  return queued;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  if (bytes == 0) return cudaSuccess;
  return enqueue(on, [=] {
    u8* const p = touch(reinterpret_cast<u64>(at), bytes, true, "cudaMemset");
    if (p == nullptr) sticky = cudaErrorIllegalAddress;
    else std::memset(p, value, bytes);
    return true;
  });
}
/// Asynchronous to the host, as CUDA's is for a GPU's memory.
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }

// Events
// ---------------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return *made = new CUevent_st{gpu_in_use, !(flags & cudaEventDisableTiming), nullptr, nullptr}, cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* made) { return cudaEventCreateWithFlags(made, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  CUstream_st* const s = resolve(on);
  if (e->gpu != s->gpu || s->gpu != gpu_in_use) return returned(cudaErrorInvalidResourceHandle);
  e->last = std::make_shared<moment>();
  e->within = s->captures;
  return add(s, {.kind = work::record, .run = {}, .at = e->last, .host = {}});
}
cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t e, unsigned) {
  const std::lock_guard held(one_at_a_time);
  CUstream_st* const s = resolve(on);
  if (!e->last) return cudaSuccess;
  if (e->within) {
    if (s->captures && s->captures != e->within) return returned(cudaErrorStreamCaptureMerge);
    if (e->within->first == nullptr) return returned(cudaErrorCapturedEvent);
    s->captures = e->within;
  } else if (s->captures) {
    return returned(cudaErrorStreamCaptureIsolation);
  }
  return add(s, {.kind = work::wait, .run = {}, .at = e->last, .host = {}});
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  std::unique_lock held(one_at_a_time);
  if (e->within) return returned(cudaErrorCapturedEvent);
  if (!e->last) return cudaSuccess;
  wait_for(
      held, [at = e->last] { return at->over; }, recorder_of(e->last));
  merge(host_clock, e->last->when);
  return returned(sticky);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  const std::lock_guard held(one_at_a_time);
  if (!e->last) return cudaSuccess;
  bool known = e->last->over;  // by the host, which has waited for later work
  for (std::size_t i = 0; known && i < e->last->when.size(); ++i)
    known = e->last->when[i] <= (i < host_clock.size() ? host_clock[i] : 0);
  // A GPU is rarely done at the first question. By CUDA's guide this answer is no error, and not kept as one.
  if (!known && !std::exchange(e->last->asked, true)) return cudaErrorNotReady;
  work_for([at = e->last] { return at->over; }, recorder_of(e->last), true);
  if (!e->last->over) return cudaErrorNotReady;
  merge(host_clock, e->last->when);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (!a->timed || !b->timed) return returned(cudaErrorInvalidResourceHandle);
  return *ms = 0.001f, cudaSuccess;
}

// Graphs
// ---------------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  const std::lock_guard held(one_at_a_time);
  s->captures = std::make_shared<captured>();
  s->captures->first = s;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  *status = resolve(s)->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* written_graph) {
  const std::lock_guard held(one_at_a_time);
  const auto graph = s->captures;
  *written_graph = nullptr;
  if (!graph || graph->first != s) return returned(cudaErrorStreamCaptureUnmatched);
  graph->first = nullptr;
  // Every other stream has been joined: its last work is a record that a stream waits for, or a wait.
  bool joined = true;
  for (CUstream_st* other : CUstream_st::all()) {
    if (other->captures != graph) continue;
    other->captures.reset();
    if (other == s) continue;
    const captured::line* last = nullptr;
    for (const auto& l : graph->lines)
      if (l.on == other) last = &l;
    if (last == nullptr || last->what.kind == work::wait) continue;
    joined = joined && last->what.kind == work::record &&
             std::any_of(graph->lines.begin(), graph->lines.end(), [last](const captured::line& l) {
               return l.what.kind == work::wait && l.what.at == last->what.at;
             });
  }
  if (!joined) return returned(cudaErrorStreamCaptureUnjoined);
  return *written_graph = new CUgraph_st{graph}, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t g, unsigned long long) {
  return *made = new CUgraphExec_st{g->work}, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) { return delete g, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { return delete g, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  CUstream_st* const s = resolve(on);
  if (s->gpu != gpu_in_use) return returned(cudaErrorInvalidResourceHandle);
  return add(s, {.run = [graph = g->work, s] { return run_graph(*graph, s), true; }, .at = {}, .host = {}});
}

}  // extern "C"
