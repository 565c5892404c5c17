#pragma once

#include <cstddef>

namespace gpipe::host {

/// Other threads that take parts of a product. A product that reads much memory for little arithmetic, such as one
/// token times a layer's weight, takes half the time on two cores. Threads divide the columns of the product, so the
/// bits are the same as on one thread.
class product_sharing {
 public:
  virtual int threads() const = 0;
  /// Calls part(data, i) for i in [0, threads()), each on a separate thread, and returns when all have returned.
  virtual void run(void (*part)(const void* data, int i), const void* data) = 0;

 protected:
  ~product_sharing() = default;
};

/// The sharing of the products that this thread computes; null: it computes them alone.
inline constinit thread_local product_sharing* sharing_of_thread = nullptr;

/// A weight of fewer elements is multiplied before another thread has taken a part.
inline constexpr std::ptrdiff_t smallest_shared = 1 << 15;

}  // namespace gpipe::host
