// sanitizers: none

#include <gpipe/plan/memory/array_location.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 7>, tied<"w", linear<7>>, batch_norm<>, tied<"w", linear<7>, "weight">,
                   softmax_cross_entropy> {};
constexpr const network& k = network_of<net>;
constexpr auto state = array_kind::state;
constexpr std::size_t weight = aligned(49 * 4), row_of_7 = aligned(7 * 4);

static_assert(locate(k, {0, 0}) == array_location{memory_kind::parameters, 0, 0, 0, 196});
static_assert(locate(k, {0, 1}) == array_location{memory_kind::parameters, 0, 0, weight, 28});
static_assert(locate(k, {1, 1, state}) == array_location{memory_kind::state, 1, 0, row_of_7, 28});
// A tied parameter lies at its owner; the layer's own bias begins its own block.
static_assert(locate(k, {2, 0}) == locate(k, {0, 0}));
static_assert(locate(k, {2, 1}) == array_location{memory_kind::parameters, 2, 0, 0, 28});

static_assert(locate(k, {0, 1}).part(4, 8) == array_location{memory_kind::parameters, 0, 0, weight + 4, 8});
static_assert(locate(k, {0, 1}).in(memory_kind::moments, 1) == array_location{memory_kind::moments, 0, 1, weight, 28});
static_assert(value_bytes(k) == 196 + 28 + 4 * 28 + 28);

}  // namespace

TEST_CASE("values are visited in model order, a tied one once") {
  std::vector<array_location> found;
  each_value(k, [&](const array_location& value) { found.push_back(value); });
  const std::vector<array_location> want{locate(k, {0, 0}), locate(k, {0, 1}),        locate(k, {1, 0}),
                                         locate(k, {1, 1}), locate(k, {1, 0, state}), locate(k, {1, 1, state}),
                                         locate(k, {2, 1})};
  CHECK((found == want));
}

namespace {

struct two_linear : model<input<float, 20>, linear<10>, relu, linear<5>, softmax_cross_entropy> {};
constexpr const network& n = network_of<two_linear>;
constexpr auto& rule = tensor_memory_of<adafactor>;

// Weight 10 x 20: row 64, column 128, 33 sums 320 bytes. Bias 10: square 64, 3 sums 64.
static_assert(arrays_before(n, 0, rule, 0) == 0 && arrays_before(n, 0, rule, 1) == 64 + 128 + 320);
static_assert(arrays_before(n, 0, rule) == 64 + 128 + 320 + 64 + 64);

// A tied parameter has its arrays at its owner.
struct partly : model<input<float, 20>, tied<"w", linear<20, no_bias>>, tied<"w", linear<20>>, softmax_cross_entropy> {
};
static_assert(arrays_before(network_of<partly>, 1, rule, 1) == 0);
static_assert(arrays_before(network_of<partly>, 1, rule) == 128 + 64);
static_assert(plan<partly, optimizer<adafactor>>::memory(0).of(memory_kind::arrays) ==
              static_cast<std::int64_t>(arrays_before(network_of<partly>, 0, rule) + 128 + 64));

// A plan in the compiler counts rows, columns and the average exactly.
using planned = plan<two_linear, stages<2>, optimizer<adafactor>, with_average_weights>;
constexpr std::int64_t arrays = planned::memory(0).of(memory_kind::arrays) + planned::memory(1).of(memory_kind::arrays);
static_assert(arrays == 64 + 128 + 320 + 64 + 64 + (64 + 64 + 192) + (64 + 64));
static_assert(planned::memory(0).of(memory_kind::moments) == 0 && planned::memory(1).of(memory_kind::moments) == 0);
static_assert(planned::memory(0).of(memory_kind::averages) == planned::memory(0).of(memory_kind::parameters));
using momentum = plan<two_linear, stages<2>, optimizer<adafactor_with_momentum>>;
static_assert(momentum::memory(0).of(memory_kind::moments) == momentum::memory(0).of(memory_kind::parameters));
static_assert(momentum::memory(0).of(memory_kind::averages) == 0);
using elementwise = plan<two_linear, stages<2>, optimizer<adam>>;
static_assert(elementwise::memory(0).of(memory_kind::arrays) == 0);

}  // namespace

TEST_CASE("a plan made at run time has the same bytes") {
  const step_plan made = make_plan(
      network_of<two_linear>, {.stages = 2, .optimizer_moments = 0, .tensor_rule = &rule, .average_weights = true});
  for (int s = 0; s < 2; ++s)
    for (int kind = 0; kind < memory_kinds; ++kind) CHECK(made.memory(s).bytes[kind] == planned::memory(s).bytes[kind]);
}
