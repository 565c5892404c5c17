// sanitizers: none

#include <gpipe/plan/memory/array_location.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/model/model.hpp>

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
