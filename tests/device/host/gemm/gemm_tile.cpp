// compiled: alone
// optimize: kernels

#include <gpipe/device/host/gemm/gemm_tile.hpp>

#include "support/products.hpp"
#include "support/sanitized.hpp"

#if GPIPE_WITH_LIBXSMM

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

// Counts every allocation of this thread. A sanitizer replaces the allocating functions itself.
#if defined(__GLIBC__) && !defined(TESTS_SANITIZED)
#define GPIPE_COUNTS_ALLOCATIONS 1
#else
#define GPIPE_COUNTS_ALLOCATIONS 0
#endif

namespace {
thread_local int allocations = 0;
}

#if GPIPE_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t n) noexcept { return ++allocations, __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t m) noexcept { return ++allocations, __libc_calloc(n, m); }
void* realloc(void* p, std::size_t n) noexcept { return ++allocations, __libc_realloc(p, n); }
void* memalign(std::size_t b, std::size_t n) noexcept { return ++allocations, __libc_memalign(b, n); }
void* aligned_alloc(std::size_t b, std::size_t n) noexcept { return ++allocations, __libc_memalign(b, n); }
int posix_memalign(void** p, std::size_t b, std::size_t n) noexcept {
  return ++allocations, (*p = __libc_memalign(b, n)) != nullptr ? 0 : 12;
}
}
#endif

using context = gpipe::host::basic_context<gpipe::host::gemm_with_bf16<gpipe::host::libxsmm_tile>>;

TEST_CASE_TEMPLATE("products agree with plain loops", T, float, double) {
  products::agree_with_plain_loops<context, T>();
}

TEST_CASE_TEMPLATE("a row's bits do not depend on the other rows", T, float, double) {
  products::rows_do_not_matter<context, T>();
}

// A program for processors without fused multiply-add rounds twice; libxsmm's kernels fuse where they run on others.
#if GPIPE_HAS_FMA
TEST_CASE_TEMPLATE("random products have the bits of the portable tile", T, float, double) {
  using portable = gpipe::host::basic_context<gpipe::host::gemm<gpipe::host::portable_tile>>;
  products::contexts_do_not_matter<context, portable, T>(std::is_same_v<T, float> ? 1000 : 50);
}
#endif

TEST_CASE("libxsmm's kernels are used but for blocks of one vector whose sums it splits") {
  using gpipe::host::libxsmm_kernels;
  if (libxsmm_get_target_archid() < LIBXSMM_X86_AVX2) return;
  for (int rows = 1; rows <= 32; ++rows)
    for (int columns = 1; columns <= 32; ++columns)
      for (const bool transposed : {false, true}) {
        const libxsmm_kernels::shape shape{rows, columns, 37, transposed ? 32 : 41, 43, true, transposed};
        if (gpipe::host::detail::has_masks && (columns <= 8 || (columns <= 16 && rows < 12))) continue;
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(transposed);
        CHECK(static_cast<bool>(libxsmm_kernels::find(shape)));
      }
}

TEST_CASE_TEMPLATE("threads that share a product give the bits of one", T, float, double) {
  products::threads_do_not_matter<context, T>();
}

TEST_CASE_TEMPLATE("a transposed product of rows in several parts has the bits of several products", T, float, double,
                   gpipe::bf16) {
  products::parts_do_not_matter<context, T>();
  products::tiny_parts_do_not_matter<context, T>();
}

TEST_CASE_TEMPLATE("after prepare, no number of rows compiles or allocates anything", T, float, gpipe::bf16) {
  constexpr int max_rows = 300, n = std::is_same_v<T, float> ? 74 : 76, k = 1100;  // shapes of this test only
  const context c;
  products::matrix<T> a(products::cells(max_rows, k)), packed(gpipe::packed_size(k, n)),
      b(products::cells(max_rows, n));
  products::matrix<float> gradient(products::cells(n, k));
  c.template prepare_multiply<T>(max_rows, n, k);
  c.template prepare_multiply_transposed<T>(n, k, max_rows);

  libxsmm_registry_info before{}, after{};
  libxsmm_get_registry_info(&before);
  int counted = -1;
  std::thread([&] {  // a stage's thread that has prepared nothing itself
    allocations = 0;
    for (int rows = 1; rows <= max_rows; rows += 1 + rows / 40) {
      c.template multiply<T>(rows, n, k, a, packed, b, false);
      c.template multiply<T>(rows, n, k, a, packed, b, true);
      c.template multiply_plus<T>(rows, n, k, a, packed, gradient, b);
      c.template multiply_transposed<T>(n, k, rows, b, a, gradient);
    }
    counted = allocations;
  })
      .join();
  libxsmm_get_registry_info(&after);
  CHECK(before.size == after.size);
  CHECK(before.nbytes == after.nbytes);
  CHECK(counted == 0);
}

TEST_CASE("each of thousands of threads finds the requested kernel") {
  // libxsmm's own look-up confuses shapes once a process has made a thousand threads.
  constexpr int shapes = 24, threads = 1100;
  const auto find = [](int i) {
    return gpipe::host::libxsmm_kernels::find({1 + i % 4, 8 * (1 + i % 3), 4 * (1 + i), 256, 256, false, false});
  };
  std::vector<gpipe::host::libxsmm_product> kernels;
  for (int i = 0; i < shapes; ++i) kernels.push_back(find(i));
  std::atomic<int> wrong = 0;
  const auto find_kernel = [&] {
    for (int i = 0; i < shapes; ++i) wrong += !(find(i) == kernels[static_cast<std::size_t>(i)]);
  };
  std::atomic<bool> over = false;
  std::thread concurrent([&] {
    while (!over) find_kernel();
  });
  for (int i = 0; i < threads; ++i)
    std::thread([&] {
      for (int round = 0; round < 100; ++round) find_kernel();
    }).join();
  over = true;
  concurrent.join();
  CHECK(wrong == 0);
}

#if GPIPE_COUNTS_ALLOCATIONS
TEST_CASE("the counter counts") {
  static void* volatile kept;  // else the compiler removes the pairs
  allocations = 0;
  kept = std::malloc(8);
  std::free(kept);
  kept = ::operator new(8);
  ::operator delete(kept);
  kept = ::operator new (64, std::align_val_t{64});
  ::operator delete (kept, std::align_val_t{64});
  CHECK(allocations == 3);
}
#endif

#else
TEST_CASE("libxsmm") { MESSAGE("skipped: built without GPIPE_WITH_LIBXSMM"); }
#endif
