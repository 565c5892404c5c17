#pragma once

// A device of the tests: the host's own operations, run later, by a thread of each context, in memory that nobody else
// may touch.

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

#include <gpipe/core/error.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#include "support/sanitized.hpp"

namespace queued {

/// The device's memory: pages that have no rights but while an operation runs. A host that reads or writes them at
/// another time ends by a signal. (Under the thread sanitizer, which sees such a host itself, they always have rights:
/// what opens and closes them would order all operations, and hide from it those that are not.)
class memory {
 public:
  static memory& all() {
    static memory it;
    return it;
  }

  std::byte* take(std::size_t bytes) {
    const std::lock_guard<std::mutex> inside(door_);
    std::byte* const found = base_ + taken_;
    taken_ += (bytes + gpipe::alignment + page - 1) / page * page;
    if (taken_ > size) throw std::bad_alloc();
    ++arenas_;
    return found;
  }
  void give_back() {
    const std::lock_guard<std::mutex> inside(door_);
    if (--arenas_ == 0) taken_ = 0;
  }

  /// Held by who runs operations.
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
    const std::lock_guard<std::mutex> inside(door_);
    const bool was = running_ > 0;
    running_ += more;
    if (was != (running_ > 0)) mprotect(base_, size, rights(running_ > 0));
  }
#endif

  std::mutex door_;
  std::byte* base_;
  std::size_t taken_ = 0;
  int arenas_ = 0;
  [[maybe_unused]] int running_ = 0;
};

/// How contexts behave that are made from now on, a bit a stage: lazy ones do nothing before somebody waits for it; the
/// others begin at once, and dawdle.
inline std::atomic<unsigned> lazy{0};

/// What is asked for, in order, and the thread that does it. Only pushing and waiting order the thread with others, so
/// that the thread sanitizer sees all that marks do not order.
class queue {
 public:
  explicit queue(int stage)
      : random_(static_cast<std::uint32_t>(stage)), lazy_(lazy >> stage % 32 & 1u), thread_([this] { work(); }) {}
  ~queue() {
    wait(asked_);
    ending_.store(true, std::memory_order_relaxed);
    want(asked_ + 1);
    thread_.join();
    delete done_last_;
  }

  /// One after the other, whoever asks.
  void ask(std::function<void()> what, const gpipe::operation_tag& who, bool always = false) {
    auto* const next = new task{std::move(what), who, always, {nullptr}};
    newest_->next.store(next, std::memory_order_release);
    newest_ = next;
    ++asked_;
    if (!lazy_) want(asked_);
  }
  std::uint64_t asked() const { return asked_; }

  void wait(std::uint64_t number) {
    want(number);
    for (auto now = done_.load(std::memory_order_acquire); now < number; now = done_.load(std::memory_order_acquire))
      done_.wait(now, std::memory_order_relaxed);
  }
  /// What failed first since it was asked last.
  std::exception_ptr failure() { return std::exchange(failure_, nullptr); }

 private:
  struct task {
    std::function<void()> what;
    gpipe::operation_tag who;
    bool always;
    std::atomic<task*> next;
  };

  void want(std::uint64_t number) {
    for (auto now = wanted_.load(std::memory_order_relaxed); now < number;)
      if (wanted_.compare_exchange_weak(now, number, std::memory_order_relaxed)) return wanted_.notify_all();
  }

  void work() {
    for (std::uint64_t number = 0;;) {
      wanted_.wait(number, std::memory_order_relaxed);
      const std::uint64_t until = wanted_.load(std::memory_order_relaxed);
      std::optional<memory::open> while_it_runs(std::in_place);
      while (number < until) {
        task* next = done_last_->next.load(std::memory_order_acquire);
        if (next == nullptr) {
          if (ending_.load(std::memory_order_relaxed)) return;
          std::this_thread::yield();  // wanted before it is seen
          continue;
        }
        delete std::exchange(done_last_, next);
        random_ = random_ * 1664525u + 1013904223u;
        for (std::uint32_t i = lazy_ ? 0 : random_ >> 24; i > 0; --i) gpipe::detail::pause();
        run(*next);
        next->what = nullptr;
        if (number + 1 == until) while_it_runs.reset();  // before a waiter learns that the work is done
        done_.store(++number, std::memory_order_release);
        done_.notify_all();
      }
    }
  }

  // After a failure nothing runs but what orders contexts.
  void run(const task& it) {
    if (failure_ && !it.always) return;
    try {
      it.what();
    } catch (const std::exception& cause) {
      failure_ = std::make_exception_ptr(gpipe::error(
          cause.what(), "",
          {.layer = std::string(it.who.layer), .slot = it.who.slot, .stage = it.who.stage,
           .micro_batch = it.who.micro_batch}));
    }
  }

  std::uint32_t random_;
  bool lazy_;
  task* newest_ = new task{{}, {}, false, {nullptr}};
  task* done_last_ = newest_;
  std::uint64_t asked_ = 0;
  std::atomic<std::uint64_t> wanted_{0}, done_{0};
  std::atomic<bool> ending_{false};
  std::exception_ptr failure_;  // handed over as what was done is
  std::thread thread_;
};

/// As far as a context had been asked when it was marked.
struct marker {
  queue* of = nullptr;
  std::uint64_t number = 0;
};

/// When its context came to where it was noted.
struct moment {
  std::int64_t ns = 0;
  std::int64_t ns_until(const moment& later) const { return later.ns - ns; }
};

class context;

/// What several contexts were asked for, in the order of asking.
class graph {
 public:
  /// As asked for, each by its context, once more. Marks are made as often.
  void launch() {
    ++launches;
    for (const line& it : lines_) {
      if (it.marked != nullptr) *it.marked = {it.of, it.of->asked()};
      else if (it.awaited == nullptr) it.of->ask(it.what, it.who);
      else if (it.awaited->of != it.of) it.of->ask([m = *it.awaited] { m.of->wait(m.number); }, it.who, true);
    }
  }
  void refill(std::size_t upload, std::ptrdiff_t bytes, const std::byte* from) {
    if (staged_.at(upload).size() != static_cast<std::size_t>(bytes)) throw std::length_error("another upload");
    std::copy(from, from + bytes, staged_[upload].begin());
  }

  static inline std::atomic<int> written = 0, launches = 0;

 private:
  friend context;
  // A context joins by awaiting a mark of one that has joined, and before it ends the first awaits a mark of its last.
  void add(queue* of, std::function<void()> what, const gpipe::operation_tag& who) {
    if (!has_joined(of)) throw std::logic_error("a context has not joined the graph");
    lines_.push_back({of, std::move(what), who});
  }
  void mark(queue* of, marker& m) {
    if (!has_joined(of)) throw std::logic_error("a context has not joined the graph");
    lines_.push_back({of, {}, {}, &m, nullptr});
  }
  void await(queue* of, marker& m) {
    const auto it = std::find_if(lines_.rbegin(), lines_.rend(), [&m](const line& l) { return l.marked == &m; });
    if (it == lines_.rend()) throw std::logic_error("what the graph does not mark is awaited in it");
    if (of == joined_.front())
      for (auto before = it; before != lines_.rend(); ++before)
        if (before->of == it->of) before->seen = true;
    if (!has_joined(of)) joined_.push_back(of);
    lines_.push_back({of, {}, {}, nullptr, &m});
  }
  void end(queue* of) {
    for (const line& l : lines_)
      if (of == joined_.front() && l.of != of && !l.seen) throw std::logic_error("a context has not come back");
  }
  bool has_joined(const queue* it) const { return std::find(joined_.begin(), joined_.end(), it) != joined_.end(); }

  struct line {
    queue* of;
    std::function<void()> what;
    gpipe::operation_tag who;
    marker *marked = nullptr, *awaited = nullptr;
    bool seen = false;  // by the first context
  };

  std::vector<line> lines_;
  std::vector<const queue*> joined_;
  std::vector<std::vector<std::byte>> staged_;  // what uploads read
};

/// A host's context whose operations happen later. It is its stage's: not for two threads at once.
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
    else m = {queue_.get(), queue_->asked()};
  }
  void await(marker& m) const {
    if (graph_ != nullptr) graph_->await(queue_.get(), m);
    else if (m.of != nullptr && m.of != queue_.get()) queue_->ask([m] { m.of->wait(m.number); }, operation_, true);
  }
  void note(moment& now) const {
    queue_->ask([&now] { now.ns = gpipe::now_ns(); }, operation_, true);
  }
  void begin(graph& g) const {
    if (g.joined_.empty()) g.joined_.push_back(queue_.get());
    graph_ = &g;
  }
  void end(graph& g) const {
    g.end(queue_.get());
    graph_ = nullptr;
    ++graph::written;
  }
  void launch(graph& g) const { g.launch(); }
  void finish() const {
    graph_ = nullptr;
    queue_->wait(queue_->asked());
    if (const auto cause = queue_->failure()) std::rethrow_exception(cause);
  }

  template <class F>
  void each(std::ptrdiff_t n, F f) const {
    ask([=] { gpipe::host::context{}.each(n, f); });
  }
  template <class F>
  void rows(std::ptrdiff_t count, F f) const {
    ask([=] { gpipe::host::context{}.rows(count, f); });
  }
  template <class F, class T>
  void columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* into) const {
    ask([=] { gpipe::host::context{}.columns(rows, n, f, into); });
  }
  template <class F>
  void sum(std::ptrdiff_t n, F f, double* into) const {
    ask([=] { gpipe::host::context{}.sum(n, f, into); });
  }
  template <class T>
  void copy(std::ptrdiff_t n, const T* from, T* into) const {
    ask([=] { gpipe::host::context{}.copy(n, from, into); });
  }
  template <class T>
  void fill(std::ptrdiff_t n, T value, T* into) const {
    ask([=] { gpipe::host::context{}.fill(n, value, into); });
  }
  template <class T>
  void add(std::ptrdiff_t n, const T* from, T* into) const {
    ask([=] { gpipe::host::context{}.add(n, from, into); });
  }
  template <class T>
  void pack(int k, int n, const gpipe::compute_type<T>* source, int stride, bool transposed, T* into) const {
    ask([=] { gpipe::host::context{}.pack(k, n, source, stride, transposed, into); });
  }
  template <class T>
  void multiply(int rows, int n, int k, const T* a, const T* packed_b, T* c, bool accumulate) const {
    ask([=] { gpipe::host::context{}.multiply(rows, n, k, a, packed_b, c, accumulate); });
  }
  template <class T>
  void multiply_plus(int rows, int n, int k, const T* a, const T* packed_b, const gpipe::compute_type<T>* row,
                     T* c) const {
    ask([=] { gpipe::host::context{}.multiply_plus(rows, n, k, a, packed_b, row, c); });
  }
  template <class T>
  void multiply_transposed(int m, int n, int rows, const T* a, const T* b, gpipe::compute_type<T>* c) const {
    ask([=] { gpipe::host::context{}.multiply_transposed(m, n, rows, a, b, c); });
  }
  template <class T>
  void multiply_transposed(int m, int n, int rows, const gpipe::row_parts<T>& a, const gpipe::row_parts<T>& b,
                           gpipe::compute_type<T>* c) const {
    ask([=] { gpipe::host::context{}.multiply_transposed(m, n, rows, a, b, c); });
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
  void ask(What what) const {
    if (graph_ != nullptr) graph_->add(queue_.get(), std::move(what), operation_);
    else queue_->ask(std::move(what), operation_);
  }

  std::unique_ptr<queue> queue_;
  mutable gpipe::operation_tag operation_;
  mutable graph* graph_ = nullptr;  // where what is asked for is written down
};

class arena {
 public:
  arena(const context& on, std::size_t bytes, std::byte fill) : data_(memory::all().take(bytes)), bytes_(bytes) {
    on.fill(static_cast<std::ptrdiff_t>(bytes + gpipe::alignment), fill, data_);
  }
  ~arena() { memory::all().give_back(); }
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
