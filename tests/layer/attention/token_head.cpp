// optimise: yes

#include <gpipe/layer/attention/token_head.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using head = bound<token_head<100>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<head::output, bundle<>>);

// The same parameters, fields, partials and operations as linear and softmax_cross_entropy.
using logits = bound<linear<100>, tensor<float, 3, 8>>;
using loss = bound<softmax_cross_entropy, tensor<float, 3, 100>>;
static_assert(head::parameters[0].extents == logits::parameters[0].extents);
static_assert(head::parameters[1].extents == logits::parameters[1].extents);
static_assert(head::fields[0].size == loss::fields[0].size && head::fields[0].below == loss::fields[0].below);
static_assert(head::fields[1].optional && head::partials.size() == loss::partials.size());
static_assert(head::extras[1].size == loss::extras[0].size);
static_assert(logits::cost.forward + loss::cost.forward - head::cost.forward == 3 * 100);  // the bias
static_assert(head::extras[0].size == 300 && head::keeps.input);

TEST_CASE("the partials of the token head are those of a loss") {
  for (std::size_t i = 0; i < 3; ++i) CHECK(doctest::String(head::partials[i].name) == loss::partials[i].name);
}
