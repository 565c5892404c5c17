#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

#include <gpipe/cuda/cuda.hpp>

/// On an emulated GPU, in the quick check: less of everything that takes long. GPIPE_TEST_SHORT=1 in the environment.
inline const bool short_settings = std::getenv("GPIPE_TEST_SHORT") != nullptr;

/// A copy of elements in a GPU's memory, in an allocation of their size: an access beyond them is found.
template <class T>
class on_gpu {
 public:
  on_gpu(const gpipe::cuda::context& context, const T* from, std::size_t size) : context_(context), size_(size) {
    gpipe::cuda::use(context.gpu());
    gpipe::cuda::check(cudaMalloc(&memory_, size * sizeof(T)), "cudaMalloc");
    context.upload(bytes(), reinterpret_cast<const std::byte*>(from), static_cast<std::byte*>(memory_));
  }
  on_gpu(const on_gpu&) = delete;
  on_gpu& operator=(const on_gpu&) = delete;
  ~on_gpu() { gpipe::cuda::ignore(cudaFree(memory_)); }
  on_gpu(const gpipe::cuda::context& context, const std::vector<T>& from) : on_gpu(context, from.data(), from.size()) {}

  operator T*() const { return data(); }
  T* data() const { return static_cast<T*>(memory_); }
  std::size_t size() const { return size_; }

  /// Copies the elements back, once all operations are done.
  std::vector<T> back() const {
    std::vector<T> found(size_);
    context_.download(bytes(), static_cast<const std::byte*>(memory_), reinterpret_cast<std::byte*>(found.data()));
    context_.finish();
    return found;
  }

 private:
  std::ptrdiff_t bytes() const { return static_cast<std::ptrdiff_t>(size_ * sizeof(T)); }

  const gpipe::cuda::context& context_;
  std::size_t size_;
  void* memory_ = nullptr;
};
