#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

#include <gpipe/device/cuda/cuda.hpp>

/// On an emulated GPU, in the quick check: less of everything that takes long. GPIPE_TEST_SHORT=1 in the environment.
inline const bool short_settings = std::getenv("GPIPE_TEST_SHORT") != nullptr;

/// A copy of elements in a GPU's memory.
template <class T>
class on_gpu {
 public:
  on_gpu(const gpipe::cuda::context& context, const T* from, std::size_t size)
      : context_(context), size_(size), memory_(size * sizeof(T), std::byte{0}, context.gpu()) {
    context.upload(bytes(), reinterpret_cast<const std::byte*>(from), memory_.data());
  }
  on_gpu(const gpipe::cuda::context& context, const std::vector<T>& from) : on_gpu(context, from.data(), from.size()) {}

  operator T*() const { return data(); }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return size_; }

  /// Copies the elements back, once all operations are done.
  std::vector<T> back() const {
    std::vector<T> found(size_);
    context_.download(bytes(), memory_.data(), reinterpret_cast<std::byte*>(found.data()));
    context_.finish();
    return found;
  }

 private:
  std::ptrdiff_t bytes() const { return static_cast<std::ptrdiff_t>(size_ * sizeof(T)); }

  const gpipe::cuda::context& context_;
  std::size_t size_;
  gpipe::cuda::arena memory_;
};
