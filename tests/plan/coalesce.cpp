#include <gpipe/plan/coalesce.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/embedding.hpp>
#include <gpipe/layer/gelu.hpp>
#include <gpipe/layer/linear.hpp>
#include <gpipe/layer/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/run_plan.hpp>

using namespace gpipe;

namespace {

template <int Width>
struct wide : model<input<float, 8>, linear<Width>, gelu, linear<Width>, linear<10>, softmax_cross_entropy> {};
struct words : model<input<std::int32_t, 16>, embedding<1000, 64>> {};
struct of_sequences : model<input<float, 64, 128>, linear<128>> {};

constexpr plan_options with(int B, recompute_mode mode = recompute_mode::never) {
  return {.stages = 2, .micro_batches = 32, .micro_batch_size = B, .recompute = mode};
}
constexpr int together(const plan_options& o) { return coalesced(network_of<wide<256>>, o); }

template <int B, class... Options>
using planned = plan<wide<256>, stages<2>, micro_batches<32>, micro_batch_size<B>, Options...>;

}  // namespace

// As many as make some 256 rows, and at most eight; of gradients in the nearest cache none.
static_assert(together(with(4)) == 8 && together(with(32)) == 8 && together(with(64)) == 4 && together(with(256)) == 1);
static_assert(coalesced(network_of<wide<64>>, with(4)) == 1);
static_assert(coalesced(network_of<of_sequences>, {.micro_batches = 32, .micro_batch_size = 2,
                                                   .recompute = recompute_mode::never}) == 2);
// A table that is looked up is not read whole.
static_assert(coalesced(network_of<words>, {.micro_batches = 32, .micro_batch_size = 4,
                                            .recompute = recompute_mode::never}) == 1);
// Never more than there are, and only where a stage holds them anyway.
static_assert(together({.micro_batches = 3, .micro_batch_size = 4, .recompute = recompute_mode::never}) == 3);
static_assert(together({.micro_batches = 3, .recompute = recompute_mode::never, .coalesce = 64}) == 3);
static_assert(together(with(4, recompute_mode::except_last)) == 1);
static_assert(together({.micro_batches = 32, .micro_batch_size = 4, .recompute = recompute_mode::never,
                        .schedule = schedule_kind::one_f_one_b}) == 1);
static_assert(together({.micro_batches = 32, .micro_batch_size = 4, .recompute = recompute_mode::never,
                        .memory_limit = std::int64_t{1} << 40}) == 1);

TEST_CASE("what is held for it is in the plan, the same while a program compiles and at run time") {
  using alone = planned<4, recompute<recompute_mode::never>, coalesce<1>>;
  using eight = planned<4, recompute<recompute_mode::never>>;
  CHECK(alone::memory(0).of(memory_kind::held) == 0);
  CHECK(eight::memory(0).of(memory_kind::held) > 0);
  CHECK(eight::memory(0).of(memory_kind::returned) > alone::memory(0).of(memory_kind::returned));
  const run_plan made = make_plan(network_of<wide<256>>, with(4));
  CHECK(made.coalesce == 8);
  CHECK(made.options.coalesce == 0);  // for who changes them and plans anew
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(made.terms[s].held == 8);
    for (int kind = 0; kind < memory_kinds; ++kind)
      CHECK(made.memory[s].bytes[kind] == eight::memory(static_cast<int>(s)).bytes[kind]);
  }
}
