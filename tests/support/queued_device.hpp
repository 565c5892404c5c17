#pragma once

// A device for tests: the host's own operations, run asynchronously by one thread per context, in memory that only
// these threads may access.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#include "support/sanitized.hpp"

namespace queued {

/// The device's memory: its pages have access rights only while an operation runs. A host that reads or writes them at
/// another time ends by a signal. (Under the thread sanitizer, which detects such a host itself, the pages always have
/// rights: changing the rights would order all operations, and hide unordered ones from it.)
class memory {
 public:
  static memory& all() {
    static memory it;
    return it;
  }

  std::byte* allocate(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::byte* const found = base_ + used_;
    used_ += (bytes + gpipe::detail::alignment + page - 1) / page * page;
    if (used_ > size) throw std::bad_alloc();
    ++arenas_;
    return found;
  }
  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--arenas_ == 0) used_ = 0;
  }

  /// Held while operations run.
  class open {
   public:
    open() { all().enter(1); }
    ~open() { all().enter(-1); }
    open(const open&) = delete;
    open& operator=(const open&) = delete;
  };

 private:
  static constexpr std::size_t page = 4096, size = std::size_t{1} << 28;

  memory()
      : base_(static_cast<std::byte*>(
            mmap(nullptr, size, rights(false), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~memory() { munmap(base_, size); }

#ifdef TESTS_THREAD_SANITIZED
  static constexpr int rights(bool) { return PROT_READ | PROT_WRITE; }
  void enter(int) {}
#else
  static constexpr int rights(bool open) { return open ? PROT_READ | PROT_WRITE : PROT_NONE; }
  void enter(int more) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool was = running_ > 0;
    running_ += more;
    if (was != (running_ > 0)) mprotect(base_, size, rights(running_ > 0));
  }
#endif

  std::mutex mutex_;
  std::byte* base_;
  std::size_t used_ = 0;
  int arenas_ = 0;
  [[maybe_unused]] int running_ = 0;
};

/// The behaviour of contexts that are made from now on, one bit per stage: a lazy one does nothing before a thread
/// waits for it; the others begin at once, with random delays.
inline std::atomic<unsigned> lazy{0};

/// The enqueued operations, in order, and the thread that runs them. Only pushing and waiting order the thread with
/// others, so that the thread sanitizer sees all that marks do not order.
class queue {
 public:
  explicit queue(int stage)
      : random_(static_cast<std::uint32_t>(stage)), lazy_(lazy >> stage % 32 & 1u), thread_([this] { work(); }) {}
  ~queue() {
    wait(enqueued_);
    ending_.store(true, std::memory_order_relaxed);
    request(enqueued_ + 1);
    thread_.join();
    delete done_last_;
  }

  /// Callers take turns: they do not call it at the same time.
  void enqueue(std::function<void()> what, const gpipe::operation_tag& operation, bool always = false) {
    auto* const next = new task{std::move(what), operation, always, {nullptr}};
    newest_->next.store(next, std::memory_order_release);
    newest_ = next;
    ++enqueued_;
    if (!lazy_) request(enqueued_);
  }
  std::uint64_t enqueued() const { return enqueued_; }

  void wait(std::uint64_t number) {
    request(number);
    for (auto now = done_.load(std::memory_order_acquire); now < number; now = done_.load(std::memory_order_acquire))
      done_.wait(now, std::memory_order_relaxed);
  }
  /// The first failure since the last call.
  std::exception_ptr failure() { return std::exchange(failure_, nullptr); }

 private:
  struct task {
    std::function<void()> what;
    gpipe::operation_tag operation;
    bool always;
    std::atomic<task*> next;
  };

  void request(std::uint64_t number) {
    for (auto now = requested_.load(std::memory_order_relaxed); now < number;)
      if (requested_.compare_exchange_weak(now, number, std::memory_order_relaxed)) return requested_.notify_all();
  }

  void work() {
    for (std::uint64_t number = 0;;) {
      requested_.wait(number, std::memory_order_relaxed);
      const std::uint64_t until = requested_.load(std::memory_order_relaxed);
      std::optional<memory::open> access(std::in_place);
      while (number < until) {
        task* next = done_last_->next.load(std::memory_order_acquire);
        if (next == nullptr) {
          if (ending_.load(std::memory_order_relaxed)) return;
          std::this_thread::yield();  // requested before it is visible
          continue;
        }
        delete std::exchange(done_last_, next);
        random_ = random_ * 1664525u + 1013904223u;
        for (std::uint32_t i = lazy_ ? 0 : random_ >> 24; i > 0; --i) gpipe::detail::pause();
        run(*next);
        next->what = nullptr;
        if (number + 1 == until) access.reset();  // before a waiter learns that the work is done
        done_.store(++number, std::memory_order_release);
        done_.notify_all();
      }
    }
  }

  // After a failure only the operations that order contexts run.
  void run(const task& it) {
    if (failure_ && !it.always) return;
    try {
      it.what();
    } catch (const std::exception& cause) {
      failure_ = std::make_exception_ptr(gpipe::error(cause.what(), "",
                                                      {.layer = std::string(it.operation.layer),
                                                       .layer_index = it.operation.layer_index,
                                                       .stage = it.operation.stage,
                                                       .micro_batch = it.operation.micro_batch}));
    }
  }

  std::uint32_t random_;
  bool lazy_;
  task* newest_ = new task{{}, {}, false, {nullptr}};
  task* done_last_ = newest_;
  std::uint64_t enqueued_ = 0;
  std::atomic<std::uint64_t> requested_{0}, done_{0};
  std::atomic<bool> ending_{false};
  std::exception_ptr failure_;  // published by done_
  std::thread thread_;
};

/// The number of operations that a context had enqueued when it was marked.
struct marker {
  queue* of = nullptr;
  std::uint64_t number = 0;
};

/// The time at which the context reached it.
struct moment {
  std::int64_t ns = 0;
  std::int64_t ns_until(const moment& later) const { return later.ns - ns; }
};

class context;

/// The captured operations of several contexts, in the order in which they were enqueued.
class graph {
 public:
  /// Enqueues all operations again, each on its context, and records all marks again.
  void launch() {
    ++launches;
    for (const line& it : lines_) {
      if (it.marked != nullptr) *it.marked = {it.of, it.of->enqueued()};
      else if (it.awaited == nullptr) it.of->enqueue(it.what, it.operation);
      else if (it.awaited->of != it.of) it.of->enqueue([m = *it.awaited] { m.of->wait(m.number); }, it.operation, true);
    }
  }
  void refill(std::size_t upload, std::ptrdiff_t bytes, const std::byte* from) {
    if (staged_.at(upload).size() != static_cast<std::size_t>(bytes)) throw std::length_error("another upload");
    std::copy(from, from + bytes, staged_[upload].begin());
  }

  static inline std::atomic<int> captured = 0, launches = 0;

 private:
  friend context;
  // A context joins by awaiting a mark of one that has joined, and before it ends the first awaits a mark of its last.
  void add(queue* of, std::function<void()> what, const gpipe::operation_tag& operation) {
    if (!has_joined(of)) throw std::logic_error("a context has not joined the graph");
    lines_.push_back({of, std::move(what), operation});
  }
  void mark(queue* of, marker& m) {
    if (!has_joined(of)) throw std::logic_error("a context has not joined the graph");
    lines_.push_back({of, {}, {}, &m, nullptr});
  }
  void await(queue* of, marker& m) {
    const auto it = std::find_if(lines_.rbegin(), lines_.rend(), [&m](const line& l) { return l.marked == &m; });
    if (it == lines_.rend()) throw std::logic_error("a graph awaits a marker that it does not mark");
    if (of == joined_.front())
      for (auto before = it; before != lines_.rend(); ++before)
        if (before->of == it->of) before->seen = true;
    if (!has_joined(of)) joined_.push_back(of);
    lines_.push_back({of, {}, {}, nullptr, &m});
  }
  void end(queue* of) {
    for (const line& l : lines_)
      if (of == joined_.front() && l.of != of && !l.seen)
        throw std::logic_error("the first context awaits no last mark of another");
  }
  bool has_joined(const queue* it) const { return std::find(joined_.begin(), joined_.end(), it) != joined_.end(); }

  struct line {
    queue* of;
    std::function<void()> what;
    gpipe::operation_tag operation;
    marker *marked = nullptr, *awaited = nullptr;
    bool seen = false;  // by the first context
  };

  std::vector<line> lines_;
  std::vector<const queue*> joined_;
  std::vector<std::vector<std::byte>> staged_;  // data of the uploads
};

/// A context whose operations run asynchronously on the host. It belongs to its stage: not for two threads at once.
class context {
 public:
  explicit context(int stage) : queue_(std::make_unique<queue>(stage)) {}

  void set_operation(const gpipe::operation_tag& operation) const { operation_ = operation; }
  void upload(std::ptrdiff_t bytes, const std::byte* from, std::byte* into) const {
    if (graph_ != nullptr) from = graph_->staged_.emplace_back(from, from + bytes).data();
    copy(bytes, from, into);
  }
  void download(std::ptrdiff_t bytes, const std::byte* from, std::byte* into) const { copy(bytes, from, into); }
  void mark(marker& m) const {
    if (graph_ != nullptr) graph_->mark(queue_.get(), m);
    else m = {queue_.get(), queue_->enqueued()};
  }
  void await(marker& m) const {
    if (graph_ != nullptr) graph_->await(queue_.get(), m);
    else if (m.of != nullptr && m.of != queue_.get()) queue_->enqueue([m] { m.of->wait(m.number); }, operation_, true);
  }
  void note(moment& now) const {
    queue_->enqueue([&now] { now.ns = gpipe::detail::now_ns(); }, operation_, true);
  }
  void begin(graph& g) const {
    if (g.joined_.empty()) g.joined_.push_back(queue_.get());
    graph_ = &g;
  }
  void end(graph& g) const {
    g.end(queue_.get());
    graph_ = nullptr;
    ++graph::captured;
  }
  void launch(graph& g) const { g.launch(); }
  void finish() const {
    graph_ = nullptr;
    queue_->wait(queue_->enqueued());
    if (const auto cause = queue_->failure()) std::rethrow_exception(cause);
  }

  template <class F>
  void each(std::ptrdiff_t n, F f) const {
    enqueue([=] { gpipe::host::context{}.each(n, f); });
  }
  template <class F>
  void rows(std::ptrdiff_t count, F f) const {
    enqueue([=] { gpipe::host::context{}.rows(count, f); });
  }
  template <class F, class T>
  void columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* into) const {
    enqueue([=] { gpipe::host::context{}.columns(rows, n, f, into); });
  }
  template <class F>
  void sum(std::ptrdiff_t n, F f, double* into) const {
    enqueue([=] { gpipe::host::context{}.sum(n, f, into); });
  }
  template <class F>
  void sum_rows(std::ptrdiff_t n, F f, double* into) const {
    enqueue([=] { gpipe::host::context{}.sum_rows(n, f, into); });
  }
  template <class T>
  void copy(std::ptrdiff_t n, const T* from, T* into) const {
    enqueue([=] { gpipe::host::context{}.copy(n, from, into); });
  }
  template <class T>
  void fill(std::ptrdiff_t n, T value, T* into) const {
    enqueue([=] { gpipe::host::context{}.fill(n, value, into); });
  }
  template <class T>
  void add(std::ptrdiff_t n, const T* from, T* into) const {
    enqueue([=] { gpipe::host::context{}.add(n, from, into); });
  }
  template <class T>
  void add_rows(std::ptrdiff_t count, std::ptrdiff_t width, const std::int32_t* to, const T* from,
                gpipe::compute_type<T> scale, gpipe::compute_type<T>* into) const {
    enqueue([=] { gpipe::host::context{}.add_rows(count, width, to, from, scale, into); });
  }
  template <class T>
  void pack(int k, int n, const gpipe::compute_type<T>* source, int stride, bool transposed, T* into) const {
    enqueue([=] { gpipe::host::context{}.pack(k, n, source, stride, transposed, into); });
  }
  template <class T>
  void multiply(int rows, int n, int k, const T* a, const T* packed_b, T* c, bool accumulate) const {
    enqueue([=] { gpipe::host::context{}.multiply(rows, n, k, a, packed_b, c, accumulate); });
  }
  template <class T>
  void multiply_plus(int rows, int n, int k, const T* a, const T* packed_b, const gpipe::compute_type<T>* row,
                     T* c) const {
    enqueue([=] { gpipe::host::context{}.multiply_plus(rows, n, k, a, packed_b, row, c); });
  }
  template <class T>
  void multiply_transposed(int m, int n, int rows, const T* a, const T* b, gpipe::compute_type<T>* c) const {
    enqueue([=] { gpipe::host::context{}.multiply_transposed(m, n, rows, a, b, c); });
  }
  template <class T>
  void multiply_transposed(int m, int n, int rows, const gpipe::row_parts<T>& a, const gpipe::row_parts<T>& b,
                           gpipe::compute_type<T>* c) const {
    enqueue([=] { gpipe::host::context{}.multiply_transposed(m, n, rows, a, b, c); });
  }
  template <class T>
  void prepare_multiply(int max_rows, int n, int k) const {
    gpipe::host::context{}.prepare_multiply<T>(max_rows, n, k);
  }
  template <class T>
  void prepare_multiply_transposed(int m, int n, int max_rows) const {
    gpipe::host::context{}.prepare_multiply_transposed<T>(m, n, max_rows);
  }

 private:
  template <class What>
  void enqueue(What what) const {
    if (graph_ != nullptr) graph_->add(queue_.get(), std::move(what), operation_);
    else queue_->enqueue(std::move(what), operation_);
  }

  std::unique_ptr<queue> queue_;
  mutable gpipe::operation_tag operation_;
  mutable graph* graph_ = nullptr;  // that captures the operations
};

class arena {
 public:
  arena(const context& on, std::size_t bytes, std::byte fill) : data_(memory::all().allocate(bytes)), bytes_(bytes) {
    on.fill(static_cast<std::ptrdiff_t>(bytes + gpipe::detail::alignment), fill, data_);
  }
  ~arena() { memory::all().release(); }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

struct device {
  using context = queued::context;
  using arena = queued::arena;
  using marker = queued::marker;
  using moment = queued::moment;
  using graph = queued::graph;

  static std::int64_t memory_left() { return std::int64_t{1} << 28; }
  static context make_context(int stage) { return context(stage); }
  static arena make_arena(const context& on, std::size_t bytes, std::byte fill) { return {on, bytes, fill}; }
};

static_assert(gpipe::graph_device<device> && gpipe::timing_device<device>);

}  // namespace queued
