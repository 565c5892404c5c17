#pragma once

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/device/contract/address_space.hpp>
#include <gpipe/device/host/gemm/libxsmm_interface.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

namespace gpipe::host {

/// libxsmm's kernels for blocks of products. Each is compiled on first use, checked, and kept for the life of the
/// process. Any thread may call `find`; a known kernel is found without a lock and without libxsmm. libxsmm 1.17 itself
/// must not be called by two threads at once: a thread's cache of recent kernels is shared, without a lock, with thread
/// number 1024 later, which may then get the kernel of another shape.
///
/// A kernel adds the products of each element in ascending order of k by fused operations, in one sum, as gpipe's own
/// products do: a program has the same bits with libxsmm and without. Kernels that add in another order are not used.
class libxsmm_kernels {
 public:
  using shape = block_shape;

  /// Null if libxsmm has no kernel for this processor that adds in order, or no memory for its code. Throws if it
  /// cannot begin: libxsmm 1.17 does not check whether it got memory for its tables.
  static libxsmm_product find(const shape& wanted) { return find_kernel<libxsmm_product>(wanted); }

  /// The same as a sum of products, for float and double: c (+)= sum of a_i b_i.
  template <class T>
  static libxsmm_batch<T> find_batch(const shape& wanted) {
    return find_kernel<libxsmm_batch<T>>(wanted);
  }

 private:
  template <class Kernel>
  struct entry {
    shape key;
    Kernel kernel;
    const entry* next;
  };
  template <class Kernel>
  using chain = std::atomic<const entry<Kernel>*>;

  static std::size_t bucket_of(const shape& key) {
    std::size_t mixed = key.accumulate * 2u + key.transposed;
    for (const int extent : {key.rows, key.columns, key.k, key.lda, key.ldc, key.ldb})
      mixed = mixed * 31 + static_cast<unsigned>(extent);
    return (mixed ^ mixed >> 10) % count;
  }

  template <class Kernel>
  static Kernel find_kernel(const shape& wanted) {
    if (detail::has_masks && splits_sums<Kernel>(wanted)) return {};  // `product_block` is faster than AVX2
    auto& first = chains_<Kernel>[bucket_of(wanted)];
    for (const auto* e = first.load(std::memory_order_acquire); e != nullptr; e = e->next)
      if (e->key == wanted) return e->kernel;
    return add(wanted, first);
  }

  template <class Kernel>
  GPIPE_COLD static Kernel add(const shape& wanted, chain<Kernel>& first) {
    const std::lock_guard lock{adding_};
    for (const auto* e = first.load(); e != nullptr; e = e->next)  // another thread may have added it meanwhile
      if (e->key == wanted) return e->kernel;
    begin();
    auto kernel = dispatch<Kernel>(wanted);
    if (kernel && !adds_in_order(wanted, kernel)) kernel = {};
    first.store(new entry<Kernel>{wanted, kernel, first},
                std::memory_order_release);  // never deleted: threads may outlive statics
    return kernel;
  }

  GPIPE_COLD static void begin() {
    if (begun_) return;
    constexpr std::int64_t tables = 16 << 20;  // it maps 10.4 MiB at once, and a page for each kernel
    if (const std::int64_t left = gpipe::detail::address_space_left(); left < tables)
      gpipe::detail::throw_error(
          {"the address space has ", left, " bytes left, and libxsmm needs ", tables, " for its tables and code"},
          {"raise the limit of addresses (ulimit -v)"});
    begun_ = true;
  }

  template <class Kernel>
  static Kernel dispatch(const shape& wanted) {
    const int target = libxsmm_get_target_archid();
    if (target <= LIBXSMM_X86_AVX2 || target > LIBXSMM_X86_ALLFEAT || !splits_sums<Kernel>(wanted))
      return Kernel(wanted);
    libxsmm_set_target_archid(LIBXSMM_X86_AVX2);
    const Kernel made(wanted);
    libxsmm_set_target_archid(target);
    return made;
  }

  /// Whether a kernel for AVX-512 adds every second or fourth product separately: it does so in a block of one vector
  /// and few rows, where it has spare registers, and in such a remainder of four vectors. Kernels for AVX2 never do.
  template <class Kernel>
  static bool splits_sums(const shape& wanted) {
    const int bytes = wanted.columns * static_cast<int>(sizeof(typename Kernel::number)), last = (bytes - 1) % 256 + 1;
    if (last > 64) return false;
#if LIBXSMM_CONFIG_VERSION_MAJOR < 2
    return bytes > 256 || (wanted.rows > 1 && wanted.rows < 12);
#else
    return bytes > 256 || bytes <= 32 || wanted.rows < 12;
#endif
  }

  /// Compares the kernel's results with the definition.
  template <class Kernel>
  static bool adds_in_order(const shape& wanted, Kernel kernel) {
    using T = typename Kernel::number;
#ifdef __x86_64__
    if (libxsmm_get_target_archid() < LIBXSMM_X86_AVX2) return !GPIPE_HAS_FMA;  // it fuses nothing
#endif
    constexpr bool batch = std::is_same_v<Kernel, libxsmm_batch<T>>;
    constexpr int products = batch ? 3 : 1;
    constexpr std::uint32_t of_c = 3;
    const auto rows = static_cast<std::size_t>(wanted.rows), columns = static_cast<std::size_t>(wanted.columns);
    const auto k = static_cast<std::size_t>(wanted.k), lda = static_cast<std::size_t>(wanted.lda);
    const auto ldb = static_cast<std::size_t>(wanted.ldb), ldc = static_cast<std::size_t>(wanted.ldc);
    const std::size_t a_rows = wanted.transposed ? k : rows, a_columns = (wanted.transposed ? rows : k) + products - 1;
    const numbers<T> a(a_rows, a_columns, lda, 1), b(k, columns + products - 1, ldb, 2), c(rows, columns, ldc, of_c);
    // Product i begins at element i of a and of b.
    if constexpr (batch) {
      constexpr unsigned long long offsets[] = {0, sizeof(T), 2 * sizeof(T)};
      kernel(a.first, b.first, c.first, products, offsets, offsets);
    } else {
      kernel(a.first, b.first, c.first, b.first);
    }
    const std::unique_ptr<T[]> sums(new T[columns]);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t j = 0; j < columns; ++j) sums[j] = wanted.accumulate ? random<T>(of_c, row, j) : T(0);
      for (std::size_t i = 0; i < products; ++i)
        add_products(wanted.columns, wanted.k, a.first + i + row * (wanted.transposed ? 1 : lda),
                     wanted.transposed ? lda : 1, b.first + i, ldb, sums.get());
      if (std::memcmp(sums.get(), c.first + row * ldc, sizeof(T) * columns) != 0) return false;
    }
    return true;
  }

  /// In [-0.5, 0.5], by a hash that compilers compute in vectors.
  template <class T>
  static T random(std::uint32_t seed, std::size_t row, std::size_t column) {
    std::uint32_t bits = (seed + static_cast<std::uint32_t>(row * 8191 + column)) * 0x9e3779b1u;
    bits = (bits ^ bits >> 15) * 0x85ebca77u;
    const float value = std::bit_cast<float>(0x3f800000u | bits >> 9);
    return static_cast<T>(value - 1.5F) + static_cast<T>(value) * T(0x1p-20);
  }

  /// Rows of numbers, mapped so that the memory between them is never touched.
  template <class T>
  struct numbers {
    T* first;

    numbers(std::size_t rows, std::size_t columns, std::size_t stride, std::uint32_t seed)
        : bytes_(((rows - 1) * stride + columns) * sizeof(T)) {
      void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapped == MAP_FAILED)
        gpipe::detail::throw_error(
            {"the address space has no room for ", bytes_, " bytes, which check a kernel of libxsmm"},
            {"raise the limit of addresses (ulimit -v)"});
      first = static_cast<T*>(mapped);
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t column = 0; column < columns; ++column)
          first[row * stride + column] = random<T>(seed, row, column);
    }
    ~numbers() { ::munmap(first, bytes_); }
    numbers(const numbers&) = delete;

   private:
    std::size_t bytes_;
  };

  /// sums[j] += the products of a column of a and the columns j of b.
  template <class T>
#if !GPIPE_HAS_FMA && defined(__x86_64__)
  [[gnu::target("fma")]]  // which libxsmm's kernels use where the processor has it
#endif
  static void
  add_products(int columns, int k, const T* a, std::size_t a_step, const T* b, std::size_t ldb, T* sums) {
    for (int p = 0; p < k; ++p, a += a_step, b += ldb)
      for (int j = 0; j < columns; ++j)
        if constexpr (std::is_same_v<T, float>) sums[j] = __builtin_fmaf(*a, b[j], sums[j]);
        else sums[j] = __builtin_fma(*a, b[j], sums[j]);
  }

  static constexpr std::size_t count = 1024;
  template <class Kernel>
  static inline chain<Kernel> chains_[count]{};
  static inline std::mutex adding_;
  static inline bool begun_ = false;  // libxsmm has its tables
};

}  // namespace gpipe::host
