#include <gpipe/layer/contract/bound.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct minimal {
  template <class In>
  struct on {
    using output = In;
  };
};

struct full {
  template <class In>
  struct on {
    using output = tensor<bf16, 2>;
    static constexpr parameter parameters[] = {{"weight", {2, 3}}, {"bias", {2}}};
    static constexpr buffer extras[] = {{"mask", 3, dtype::uint8}};
    static constexpr buffer backward_extras[] = {{"signs", 7, dtype::uint8}};
    static constexpr buffer forward_workspace[] = {{"rows", 6, dtype::bf16}};
    static constexpr buffer workspace[] = {{"sums", 5, dtype::float64}};
    static constexpr partial partials[] = {"loss"};
    static constexpr keep keeps{.output = true};
    static constexpr work cost{.forward = 12};
  };
};

using small = bound<minimal, tensor<double, 3>>;
static_assert(small::parameters.empty() && small::state.empty() && small::derived.empty() && small::extras.empty());
static_assert(small::backward_extras.empty() && small::forward_workspace.empty() && small::workspace.empty());
static_assert(small::fields.empty() && small::partials.empty() && !small::view && small::cost.forward == 0);
static_assert(!small::keeps.input && !small::keeps.output);

using large = bound<full, tensor<float, 3>>;
static_assert(large::parameters.size() == 2 && large::parameters[0].extents == shape{2, 3});
static_assert(large::workspace[0].size == 5 && large::workspace[0].type == dtype::float64);
static_assert(large::backward_extras[0].size == 7 && large::forward_workspace[0].type == dtype::bf16);
static_assert(large::lists.backward_extras[0].size == 7 && large::lists.forward_workspace[0].size == 6);
static_assert(large::extras[0].size == 3 && large::keeps.output && large::cost.forward == 12);

// The element type is that of the output, else of the input; parameters of bf16 layers are float.
static_assert(std::is_same_v<small::value_type, double>);
static_assert(std::is_same_v<large::edge_type, bf16> && std::is_same_v<large::value_type, float>);
static_assert(std::is_same_v<bound<minimal, bundle<tensor<float, 2>, tensor<std::int32_t>>>::value_type, float>);

}  // namespace

TEST_CASE("a bound layer has its layer's name") {
  CHECK(large::name.ends_with("full"));
  CHECK(large::partials[0].size == 1);
}
