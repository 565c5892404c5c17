#include <gpipe/transport/in_process/thread.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/sanitized.hpp"

using namespace gpipe::detail;

#ifdef __GLIBC__

namespace {

/// The error of `require_stack` in a thread with so large a stack; empty: none.
std::string refused_with(std::size_t stack, bool starts_threads) {
  struct call {
    bool starts_threads;
    std::string found;
  } it{starts_threads, ""};
  pthread_attr_t with;
  REQUIRE(pthread_attr_init(&with) == 0);
  REQUIRE(pthread_attr_setstacksize(&with, stack) == 0);
  pthread_t thread{};
  REQUIRE(pthread_create(
              &thread, &with,
              [](void* to) -> void* {
                auto& of = *static_cast<call*>(to);
                try {
                  require_stack(of.starts_threads);
                } catch (const gpipe::error& failure) {
                  of.found = failure.what();
                }
                return nullptr;
              },
              &it) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&with);
  return it.found;
}

}  // namespace

TEST_CASE("a stack that is too small for kernels is rejected, with what it has, what is needed and the limit") {
  CHECK(refused_with(1 << 20, true) == "");
  const std::string small = refused_with(160 << 10, false);
  CAPTURE(small);
  CHECK(small.find("the calling thread has ") == 0);
  CHECK(small.find(" bytes of stack left, and kernels need 212992; raise the limit (ulimit -s)") != std::string::npos);
}

// Sanitizers give their threads more.
#if !defined(TESTS_SANITIZED)
TEST_CASE("small stacks of new threads are rejected where threads will be started") {
  pthread_attr_t before, low;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&low) == 0);
  REQUIRE(pthread_attr_setstacksize(&low, 128 << 10) == 0);
  REQUIRE(pthread_setattr_default_np(&low) == 0);
  const std::string alone = refused_with(1 << 20, false), found = refused_with(1 << 20, true);
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  pthread_attr_destroy(&before), pthread_attr_destroy(&low);
  CHECK(alone == "");
  CHECK(found ==
        "a new thread has 131072 bytes of stack, and kernels need 212992; raise the limit (ulimit -s, or "
        "pthread_setattr_default_np)");
}
#endif

#endif

TEST_CASE("a thread runs its body") {
  int ran = 0;
  start_thread("a test", [&] { ran = 1; }).join();
  CHECK(ran == 1);
}
