#include <gpipe/layer/contract/operands.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct rich {
  template <class In>
  struct on {
    using output = tensor<float, 4>;
    static constexpr parameter parameters[] = {{"weight", {4, 5}}, {"bias", {4}}};
    static constexpr buffer extras[] = {{"mask", 5, dtype::uint8}, {"mean", 1, dtype::float64}};
    static constexpr buffer backward_extras[] = {{"signs", 5, dtype::uint8}, {"sums", 2, dtype::float64}};
    static constexpr buffer forward_workspace[] = {{"rows", 5, dtype::float32}, {"found", 7, dtype::uint8, true}};
    static constexpr buffer workspace[] = {{"row", 5, dtype::float32}, {"sums", 2, dtype::float64}};
    static constexpr keep keeps{.input = true};
  };
};
using layer = bound<rich, tensor<float, 5>>;

// 80 bytes of weight end before 128; 15 bytes of three samples' masks end before 64.
static_assert(detail::offset_in(layer::parameters, 0, sizeof(float)) == 0);
static_assert(detail::offset_in(layer::parameters, 1, sizeof(float)) == 128);
static_assert(detail::offset_in(layer::extras, 1, 3) == 64);
static_assert(detail::offset_in(layer::workspace, 1, 3) == 64);

}  // namespace

TEST_CASE("operands are typed addresses in the blocks of a call") {
  alignas(alignment) std::byte parameters[192]{}, extras[192]{}, in[64]{};
  bool used_random = false;
  call c;
  c.samples = 2;
  c.capacity = 3;
  c.in[0] = in;
  c.parameters = parameters;
  c.extras = extras;
  c.used_random = &used_random;
  const operands<layer> a(c);
  CHECK(a.samples() == 2);
  CHECK(static_cast<const void*>(a.in()) == in);
  CHECK(static_cast<const void*>(a.parameter<1>()) == parameters + 128);
  CHECK(static_cast<const void*>(a.extra<1>()) == extras + 64);
  CHECK(!used_random);
  CHECK(a.random().seed == 0);
  CHECK(used_random);
}

TEST_CASE("backward and decode have the layer's workspace") {
  alignas(alignment) std::byte workspace[128]{};
  call c;
  c.capacity = 3;
  c.workspace = workspace;
  const operands<layer, pass::backward> again(c);
  static_assert(std::is_same_v<decltype(again.workspace<0>()), float*>);
  CHECK(static_cast<void*>(again.workspace()) == workspace);
  CHECK(static_cast<void*>(again.workspace<1>()) == workspace + 64);
  const operands<layer, pass::decode> one_token(c);
  CHECK(one_token.workspace<1>() == again.workspace<1>());
  CHECK(one_token.in() == nullptr);
}

TEST_CASE("forward has its workspace, and backward has its extras") {
  alignas(alignment) std::byte in_forward[128]{}, in_backward[128]{};
  call c;
  c.capacity = 3;
  c.forward_workspace = in_forward;
  c.backward_extras = in_backward;
  const operands<layer> first(c);
  static_assert(std::is_same_v<decltype(first.forward_workspace<0>()), float*>);
  CHECK(static_cast<void*>(first.forward_workspace()) == in_forward);
  CHECK(static_cast<void*>(first.forward_workspace<1>()) == in_forward + 64);
  const operands<layer, pass::backward> again(c);
  static_assert(std::is_same_v<decltype(again.backward_extra<1>()), double*>);
  CHECK(static_cast<void*>(again.backward_extra()) == in_backward);
  CHECK(static_cast<void*>(again.backward_extra<1>()) == in_backward + 64);
}

TEST_CASE("a recompute reads the recorded partials and writes none") {
  double partials[] = {1, 2, 3, 4};
  call c;
  c.partials = partials;
  const operands<layer> forward(c);
  CHECK(forward.partials() == partials);
  CHECK(forward.recorded_partials() == nullptr);
  c.recompute = true;
  CHECK(forward.partials() == nullptr);
  CHECK(forward.recorded_partials() == partials);
  c.partial_stride = 2;
  c.micro_batches = 2;
  CHECK(operands<layer, pass::update_state>(c).all_partials()[1][1] == 4);
}

TEST_CASE("several operands have the samples of all micro-batches") {
  call calls[3];
  for (call& c : calls) c.samples = 4;
  calls[2].samples = 1;
  const several_operands<layer> all(calls, 3);
  CHECK(all.samples() == 9);
  CHECK(all[2].samples() == 1);
}
