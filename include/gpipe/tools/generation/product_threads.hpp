#pragma once

#include <gpipe/device/host/gemm/product_sharing.hpp>
#include <gpipe/runtime/worker/thread_team.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

/// Threads that share the products of the calling thread. After a product they spin for some time, because the next one
/// comes soon, and then sleep.
class product_threads final : public host::product_sharing {
 public:
  explicit product_threads(int threads) : signals_(threads), team_(signals_, threads) {}

  int threads() const override { return team_.workers(); }
  void run(void (*part)(const void* product, int i), const void* product) override {
    team_.run([part, product](int worker) { part(product, worker); });
  }

 private:
  worker_signals signals_;
  thread_team team_;
};

/// Shares the products of this thread during its lifetime; with null they are not shared.
class shared_products {
 public:
  explicit shared_products(host::product_sharing* sharing) : previous_(host::sharing_of_thread) {
    host::sharing_of_thread = sharing;
  }
  ~shared_products() { host::sharing_of_thread = previous_; }
  shared_products(const shared_products&) = delete;
  shared_products& operator=(const shared_products&) = delete;

 private:
  host::product_sharing* previous_;
};

}  // namespace gpipe::detail
