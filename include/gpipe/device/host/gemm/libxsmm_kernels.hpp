#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include <libxsmm.h>

#include <gpipe/core/error.hpp>
#include <gpipe/device/contract/address_space.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// A kernel of libxsmm that adds up several products, whose operands lie at offsets in bytes: (a, b, c, count,
/// a_offsets, b_offsets). libxsmm's a is the b of our products.
template <class T>
using batch_kernel = std::conditional_t<std::is_same_v<T, float>, libxsmm_smmfunction_reducebatch_offs,
                                        libxsmm_dmmfunction_reducebatch_offs>;

/// libxsmm's kernels for blocks of float products, c[rows x columns] (+)= a[rows x k] * b, where b is a panel unless
/// its rows are `ldb` apart. Each is compiled on first use and kept for the life of the process. Any thread may call
/// `find`; a known kernel is found without a lock and without libxsmm. libxsmm 1.17 itself must not be called by two
/// threads at once: a thread's cache of recent kernels is shared, without a lock, with thread number 1024 later, which
/// may then get the kernel of another shape.
class libxsmm_kernels {
 public:
  struct shape {
    int rows, columns, k, lda, ldc;
    bool accumulate, transposed;
    int ldb = panel_width;
    bool alone = false;  // no panel follows that could be prefetched
    bool operator==(const shape&) const = default;
  };

  /// Null if libxsmm has no kernel for this processor, or no memory for its code. Throws if it cannot begin: libxsmm
  /// 1.17 writes to its tables without a look at whether it got them.
  static libxsmm_smmfunction find(const shape& of) {
    auto& first = chains_[bucket_of(of)];
    for (const entry* e = first.load(std::memory_order_acquire); e != nullptr; e = e->next)
      if (e->of == of) return e->kernel;
    return add(of, first);
  }

  /// The same as a sum of products, for float and double: c (+)= sum of a_i b_i; null if there is none. Nothing is
  /// kept: who needs it keeps it.
  template <class T>
  GPIPE_COLD static batch_kernel<T> compile_batch(const shape& of) {
    const std::lock_guard lock{adding_};
    begin();
    const int flags = of.transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int ahead = LIBXSMM_GEMM_PREFETCH_NONE;
    const T alpha = 1, beta = of.accumulate ? T(1) : T(0);
    if constexpr (std::is_same_v<T, float>)
      return libxsmm_smmdispatch_reducebatch_offs(of.columns, of.rows, of.k, &of.ldb, &of.lda, &of.ldc, &alpha, &beta,
                                                  &flags, &ahead);
    else
      return libxsmm_dmmdispatch_reducebatch_offs(of.columns, of.rows, of.k, &of.ldb, &of.lda, &of.ldc, &alpha, &beta,
                                                  &flags, &ahead);
  }

 private:
  struct entry {
    shape of;
    libxsmm_smmfunction kernel;
    const entry* next;
  };
  using chain = std::atomic<const entry*>;

  static std::size_t bucket_of(const shape& of) {
    std::size_t mixed = of.accumulate * 2u + of.transposed;
    for (const int extent : {of.rows, of.columns, of.k, of.lda, of.ldc, of.ldb})
      mixed = mixed * 31 + static_cast<unsigned>(extent);
    return (mixed ^ mixed >> 10) % count;
  }

  GPIPE_COLD static libxsmm_smmfunction add(const shape& of, chain& first) {
    const std::lock_guard lock{adding_};
    for (const entry* e = first; e != nullptr; e = e->next)  // another thread may have added it meanwhile
      if (e->of == of) return e->kernel;
    begin();
    const auto kernel = dispatch(of);
    first.store(new entry{of, kernel, first}, std::memory_order_release);  // never deleted: threads may outlive statics
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

  /// libxsmm is column-major: its (m, n, k, A, B) are our (columns, rows, k, B, A).
  static libxsmm_smmfunction dispatch(const shape& of) {
    const int flags = of.transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    // In a block of few rows, prefetching the next panel takes longer than it saves.
    const int ahead =
        of.alone || of.transposed || of.rows < panel_width / 2 ? LIBXSMM_GEMM_PREFETCH_NONE : LIBXSMM_GEMM_PREFETCH_AL2;
    const float alpha = 1, beta = of.accumulate ? 1.0F : 0.0F;
    return libxsmm_smmdispatch(of.columns, of.rows, of.k, &of.ldb, &of.lda, &of.ldc, &alpha, &beta, &flags, &ahead);
  }

  static constexpr std::size_t count = 1024;
  static inline chain chains_[count]{};
  static inline std::mutex adding_;
  static inline bool begun_ = false;  // libxsmm has its tables
};

}  // namespace gpipe::host
