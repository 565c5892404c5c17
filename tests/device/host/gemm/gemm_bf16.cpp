// optimize: kernels

#include <gpipe/device/host/gemm/gemm_bf16.hpp>

#include "support/products.hpp"

using gpipe::bf16;
using portable = gpipe::host::basic_context<gpipe::host::gemm_with_bf16<gpipe::host::portable_tile>>;

TEST_CASE("products agree with plain loops in float, each rounded once") {
  products::agree_with_plain_loops<portable, bf16>();
  products::agree_with_plain_loops<gpipe::host::context, bf16>();
}

TEST_CASE("a row's bits do not depend on the other rows") { products::rows_do_not_matter<portable, bf16>(); }

TEST_CASE("a row's bits do not depend on its neighbours' content") {
  products::neighbours_do_not_matter<gpipe::host::context, bf16>();
}
