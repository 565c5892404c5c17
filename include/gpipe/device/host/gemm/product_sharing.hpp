#pragma once

#include <cstddef>

namespace gpipe::host {

/// Other threads that take parts of a product. A product that reads much memory for little arithmetic, such as that of
/// one token with a layer's weight, takes half the time on two cores. Columns of the product are divided, so the bits
/// are those of one thread.
class product_sharing {
 public:
  virtual int threads() const = 0;
  /// Calls part(of, i) for i in [0, threads()), each on a thread of its own, and returns when all have returned.
  virtual void run(void (*part)(const void* of, int i), const void* of) = 0;

 protected:
  ~product_sharing() = default;
};

/// The sharing of the products that this thread computes; null: it computes them alone.
inline constinit thread_local product_sharing* sharing_of_thread = nullptr;

/// A weight of fewer elements is multiplied before another thread has taken a part.
inline constexpr std::ptrdiff_t smallest_shared = 1 << 15;

}  // namespace gpipe::host
