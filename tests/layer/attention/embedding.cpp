// optimise: yes

#include <gpipe/layer/attention/embedding.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using words = bound<embedding<100, 16>, tensor<std::int32_t, 5>>;
static_assert(std::is_same_v<words::output, tensor<float, 5, 16>>);
static_assert(words::parameters.size() == 1 && words::parameters[0].extents == shape{100, 16});
static_assert(words::keeps.input && words::cost.backward_input == 0 && words::cost.backward_parameters == 80);
static_assert(std::is_same_v<words::value_type, float>);

TEST_CASE("an embedding's name contains the extents of its weight") { CHECK(words::name == "embedding<100, 16>"); }
