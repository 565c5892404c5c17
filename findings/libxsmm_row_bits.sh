#!/usr/bin/env bash
# libxsmm 1.17: the bits of a row of a product depend on how many other rows are computed with it, under AVX-512.
#
# libxsmm-dev 1.17-2 (Debian 12): the kernel for C[m x 10] = A[m x 40] B[40 x 10] adds the 40 products of an element in
# one sum for 1 row and for 12 to 64 rows, and in several sums for 2 to 11 rows: the same row has other bits there. With
# LIBXSMM_TARGET=hsw, whose kernels are for AVX2, every number of rows has the bits of one row. A batch of predictions
# then differs from the same predictions one by one.
#
# Seen on Debian 12 with a processor that has AVX-512; without it the script says so and ends with 77. Needs a C compiler
# and apt-get download.

set -euo pipefail
version=1.17-2
grep -qw avx512f /proc/cpuinfo || { echo "skipped: this processor has no AVX-512" >&2; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "changed: $*" >&2 && exit 1; }
cd "$scratch"
apt-get download -qq "libxsmm-dev=$version" 2>/dev/null
dpkg -x libxsmm-dev_*.deb root
library=$(dirname "$(find root -name libxsmm.a | head -n 1)")
headers=$(dirname "$(find root -name libxsmm.h | head -n 1)")

cat >rows.c <<'END'
#include <libxsmm.h>
#include <stdio.h>
#include <string.h>
enum { k = 40, n = 10, most = 64 };
int main(void) {
  static float a[most * k], b[k * n], alone[most * n], together[most * n];
  const int lda = k, ldb = n, ldc = n, flags = LIBXSMM_GEMM_FLAG_NONE;
  const float one = 1, zero = 0;
  for (int i = 0; i < most * k; ++i) a[i] = (float)(i * 7919 % 1009) / 1009 - 0.5F;
  for (int i = 0; i < k * n; ++i) b[i] = (float)(i * 104729 % 997) / 997 - 0.5F;
  libxsmm_init();
  // Column-major, as libxsmm sees it, our rows are columns.
  for (int m = 1; m <= most; ++m) {
    const libxsmm_blasint height = m, width = n, depth = k;
    const libxsmm_smmfunction kernel = libxsmm_smmdispatch(width, height, depth, &ldb, &lda, &ldc, &one, &zero, &flags, NULL);
    if (!kernel) return 2;
    kernel(b, a, together);
    if (m == 1)
      for (int row = 0; row < most; ++row) kernel(b, a + row * k, alone + row * n);
    if (memcmp(alone, together, sizeof(float) * m * n) != 0) printf("%d ", m);
  }
  printf("\n");
}
END
${CC:-cc} -O2 -I "$headers" rows.c -o rows -L "$library" -lxsmm -lxsmmnoblas -ldl -lpthread -lm
differing=$(./rows) || fail "the program ended with $?"
[[ " $differing" == *" 2 3 4 5 "* ]] || fail "rows have other bits among these numbers of rows: ${differing:-none}"
[[ " $differing" != *" 12 "* && " $differing" != *" 64 "* ]] || fail "12 and 64 rows have other bits, too: $differing"
narrow=$(LIBXSMM_TARGET=hsw ./rows)
[[ -z ${narrow// /} ]] || fail "kernels for AVX2 differ, too: $narrow"
echo "as seen: rows of a product have other bits among these numbers of rows: $differing; with kernels for AVX2 among none"
