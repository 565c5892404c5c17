#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/cuda/cuda.hpp>

/// On an emulated GPU, in the quick check: less of everything that takes long. GPIPE_TEST_SHORT=1 in the environment.
inline const bool short_settings = std::getenv("GPIPE_TEST_SHORT") != nullptr;

/// Numbers of [-1/2, 1/2), the same in every run.
template <class T>
std::vector<T> drawn_numbers(std::size_t size, std::uint32_t stream = 0) {
  std::vector<T> found(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto bits = gpipe::draw({.layer_index = stream}, 0, static_cast<std::uint32_t>(i)).word[0];
    found[i] = static_cast<T>(gpipe::uniform(bits) - 0.5F);
  }
  return found;
}

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
