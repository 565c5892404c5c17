#include <gpipe/plan/cost/profile_promises.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>

using namespace gpipe;

namespace {

struct net : model<input<float, 8>, linear<8>, relu> {};

struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}};
};

// tests/compile_fail has the messages for profiles that do not match.
static_assert(detail::require_profile<measured, net, 4>());

}  // namespace

TEST_CASE("a layer's name in a profile is printed as a type") {
  using name = decltype(detail::letters_of<measured, 1>(std::make_index_sequence<4>{}));
  CHECK(std::is_same_v<name, detail::letters<'r', 'e', 'l', 'u'>>);
}
