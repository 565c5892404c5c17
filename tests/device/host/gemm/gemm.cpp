// optimize: kernels

#include <gpipe/device/host/gemm/gemm.hpp>

#include <pthread.h>

#include "support/products.hpp"

using context = gpipe::host::basic_context<gpipe::host::gemm_with_bf16<gpipe::host::portable_tile>>;
using gpipe::bf16;

TEST_CASE_TEMPLATE("products agree with plain loops", T, float, double, bf16) {
  products::agree_with_plain_loops<context, T>();
}

TEST_CASE("the host's products of bf16 agree with plain loops in float, each rounded once") {
  products::agree_with_plain_loops<gpipe::host::context, bf16>();
}

TEST_CASE_TEMPLATE("threads that share a product give the bits of one", T, float, double) {
  products::threads_do_not_matter<context, T>();
}

TEST_CASE_TEMPLATE("a transposed product of rows in several parts has the bits of several products", T, float, double) {
  products::parts_do_not_matter<context, T>();
  products::tiny_parts_do_not_matter<context, T>();
}

TEST_CASE("the product with the largest packed block uses less than 256 KiB of its thread's stack") {
  pthread_attr_t small;
  REQUIRE(pthread_attr_init(&small) == 0);
  REQUIRE(pthread_attr_setstacksize(&small, 256 * 1024) == 0);
  pthread_t thread;
  const auto multiply = [](void*) -> void* {
    products::check_transposed_product<context, double>(170, 150, 260);
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &small, multiply, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&small);
}

TEST_CASE_TEMPLATE("a row's bits do not depend on the other rows", T, float, double, bf16) {
  products::rows_do_not_matter<context, T>();
}

TEST_CASE("a row's bits do not depend on its neighbours' content") {
  products::neighbours_do_not_matter<gpipe::host::context, bf16>();
}
