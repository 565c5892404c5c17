#include <gpipe/device/host/gemm_portable.hpp>

#include "products.hpp"

using context = gpipe::host::basic_context<gpipe::host::gemm<gpipe::host::portable_tile>>;

TEST_CASE_TEMPLATE("products agree with plain loops", T, float, double) {
  products::agree_with_plain_loops<context, T>();
}

TEST_CASE_TEMPLATE("a transposed product of rows in several places has the bits of several", T, float, double) {
  products::parts_do_not_matter<context, T>();
  products::tiny_parts_do_not_matter<context, T>();
}

TEST_CASE_TEMPLATE("a row's bits do not depend on the other rows", T, float, double) {
  products::rows_do_not_matter<context, T>();
}
