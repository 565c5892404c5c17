#pragma once

// The threads of a block on a processor: they take turns, each until it waits for the others or ends.

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <vector_types.h>

#undef __shared__
#undef __launch_bounds__
#define __shared__ static
#define __launch_bounds__(...)

namespace pretended {

inline thread_local dim3 grid_size, block_at, thread_at;

class block {
 public:
  block(dim3 size, const std::function<void()>& kernel) : kernel_(kernel), threads_(size.x * size.y) {
    for (unsigned t = 0; t < threads_.size(); ++t) {
      threads_[t].at = dim3(t % size.x, t / size.x);
      threads_[t].stack.reset(new char[stack_bytes]);
    }
  }

  /// Runs all threads to their next wait, again and again, until all are done.
  void run() {
    running = this;
    for (fiber& f : threads_) f.begun = f.done = false;
    for (bool left = true; left;) {
      left = false;
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        if (threads_[t].done) continue;
        resume(threads_[t]);
        left = left || !threads_[t].done;
      }
    }
  }
  void wait() {
    if (_setjmp(turn_->there) == 0) _longjmp(here_, 1);
  }
  /// The value of another thread of the warp.
  template <class T>
  T from_warp(T value, int mask) {
    static std::vector<T> given;
    given.resize(threads_.size());
    const std::size_t me = static_cast<std::size_t>(turn_ - threads_.data());
    given[me] = value;
    wait();
    const T found = given[me ^ static_cast<std::size_t>(mask)];
    wait();
    return found;
  }

  static inline thread_local block* running = nullptr;

 private:
  static constexpr std::size_t stack_bytes = 64 << 10;
  struct fiber {
    std::unique_ptr<char[]> stack;
    dim3 at;
    bool begun = false, done = false;
    jmp_buf there;
  };

  // A thread begins on its own stack; from then on fast jumps lead there and back.
  void resume(fiber& f) {
    turn_ = &f;
    thread_at = f.at;
    if (_setjmp(here_) != 0) return;
    if (f.begun) _longjmp(f.there, 1);
    f.begun = true;
    ucontext_t start{};
    getcontext(&start);
    start.uc_stack.ss_sp = f.stack.get();
    start.uc_stack.ss_size = stack_bytes;
    makecontext(&start, &block::enter, 0);
    setcontext(&start);
  }
  static void enter() {
    block& b = *running;
    b.kernel_();
    b.turn_->done = true;
    _longjmp(b.here_, 1);
  }

  const std::function<void()>& kernel_;
  std::vector<fiber> threads_;
  fiber* turn_ = nullptr;
  jmp_buf here_;
};

/// Runs one block after the other. Shared memory exists once in the program, so one grid at a time.
inline void run_grid(dim3 grid, dim3 size, const std::function<void()>& kernel) {
  static std::mutex one;
  const std::lock_guard here(one);
  grid_size = grid;
  block threads(size, kernel);
  for (unsigned x = 0; x < grid.x; ++x) {
    block_at = dim3(x);
    threads.run();
  }
}

}  // namespace pretended

#define threadIdx pretended::thread_at
#define blockIdx pretended::block_at
#define gridDim pretended::grid_size
inline void __syncthreads() { pretended::block::running->wait(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return pretended::block::running->from_warp(value, mask);
}
