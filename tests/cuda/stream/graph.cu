#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "support/on_gpu.hpp"

// Steps that fail while they are recorded. The context's test has those that succeed.

using namespace gpipe;

namespace {

/// Later steps work: `each` is Thrust's, which reports an error that an earlier call has left behind.
void check_works(const gpipe::cuda::context& context, const on_gpu<float>& memory) {
  for (const float value : {9.0F, 10.0F}) {
    context.fill(3, value, memory.data());
    context.finish();
    CHECK(memory.back() == std::vector<float>(3, value));
  }
}

}  // namespace

TEST_CASE("a context whose step fails while it is recorded works again after finish") {
  const gpipe::cuda::context one;
  const on_gpu<float> memory(one, {0, 0, 0});
  gpipe::cuda::graph captured;
  one.finish();
  one.begin(captured);
  one.fill(3, 7.0F, memory.data());
  one.copy(3, static_cast<const float*>(nullptr), memory.data());  // fails
  one.end(captured);
  one.launch(captured);
  CHECK_THROWS_AS(one.finish(), error);
  CHECK(memory.back() == std::vector<float>{0, 0, 0});
  check_works(one, memory);
  one.begin(captured);  // the same graph serves again
  one.fill(3, 8.0F, memory.data());
  one.end(captured);
  CHECK(memory.back() == std::vector<float>(3, 10.0F));
  one.launch(captured);
  one.finish();
  CHECK(memory.back() == std::vector<float>(3, 8.0F));
}

TEST_CASE("two contexts work again after a graph that neither ends") {
  const gpipe::cuda::context one, two;
  const on_gpu<float> memory(one, {0, 0, 0});
  one.finish();
  gpipe::cuda::marker forth;
  {
    gpipe::cuda::graph dropped;
    one.begin(dropped), two.begin(dropped);
    one.fill(3, 7.0F, memory.data());
    one.mark(forth), two.await(forth);
    two.fill(3, 8.0F, memory.data());
    one.finish(), two.finish();
  }
  check_works(one, memory);
  check_works(two, memory);
}
