#include <gpipe/runtime/length_plan.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>

using namespace gpipe;
using host_length = gpipe::detail::length_plan;

namespace {

template <int Rows, int Width = 8>
struct net : model<input<float, Rows, 4>, linear<Width>, linear<5>, softmax_cross_entropy> {};

template <class Net>
step_plan planned(int micro_batch_size) {
  return make_plan(network_of<Net>, {.stages = 2, .micro_batch_size = micro_batch_size}, {1});
}

std::string message(const auto& call) {
  try {
    call();
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a stage of the longest length gets the memory of the largest plan") {
  step_plan longest = planned<net<8>>(2);
  const step_plan alone = longest;
  std::vector<host_length> shorter(2);
  shorter[0].net = &network_of<net<2>>;
  shorter[0].plan = planned<net<2>>(4);  // half of the rows
  shorter[1].net = &network_of<net<4>>;
  shorter[1].plan = planned<net<4>>(12);  // three times as many
  gpipe::detail::share_arenas(longest, shorter);
  for (int s = 0; s < 2; ++s) {
    CHECK(longest.memory(s).total() == shorter[1].plan.memory(s).total());
    CHECK(longest.memory(s).total() > alone.memory(s).total());
    CHECK(alone.memory(s).total() > shorter[0].plan.memory(s).total());
    for (int k = 0; k < memory_kinds; ++k)
      if (k != static_cast<int>(memory_kind::transient)) CHECK(longest.memory(s).bytes[k] == alone.memory(s).bytes[k]);
  }
}

TEST_CASE("plans whose parameters have other sizes share no memory") {
  step_plan longest = planned<net<8>>(2);
  std::vector<host_length> shorter(1);
  shorter[0].plan = planned<net<4, 40>>(4);
  CHECK(message([&] { gpipe::detail::share_arenas(longest, shorter); }).find("bytes of parameters") !=
        std::string::npos);
}

TEST_CASE("a batch has the length whose rows all of its fields have") {
  const std::vector<const network*> nets{&network_of<net<8>>, &network_of<net<2>>, &network_of<net<4>>};
  const auto of = [&](std::size_t inputs, std::size_t labels) {
    static const std::vector<float> x(1000);
    static const std::vector<std::int32_t> y(1000);
    batch data(3);
    data.with("inputs", x.data(), 3 * inputs, dtype::float32).with("labels", y.data(), 3 * labels, dtype::int32);
    return gpipe::detail::length_of(nets, data.with_unread("others", std::vector<float>(2)));
  };
  CHECK(of(32, 8) == 0);
  CHECK(of(8, 2) == 1);
  CHECK(of(16, 4) == 2);
  CHECK(
      message([&] { of(20, 5); }) ==
      "field \"inputs\" of the batch has 60 elements of 3 samples, 20 each: no plan has rows of the batch's sizes; pad "
      "the rows of all fields to one length of the plans: \"inputs\" to 8, 16 or 32");
  CHECK(message([&] { of(32, 4); }).find("field \"labels\" of the batch has 12 elements") == 0);
  CHECK(message([&] { of(16, 8); }).find("no plan has rows") != std::string::npos);
}
