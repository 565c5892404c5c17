#include <gpipe/plan/complete_plan.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/error_message.hpp"
#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

struct chain : model<input<float, 16>, linear<16>, relu, relu, relu, passing_loss> {};

step_plan made(const plan_options& o) { return make_plan(network_of<chain>, o); }

}  // namespace

TEST_CASE("the error of limits by device names the device, its stage and the smallest limit") {
  struct four : model<input<float, 64>, repeat<4, linear<64>>, passing_loss> {};
  device_spec each[] = {h100, l4.with_limit(2000)};
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 8, .devices = each, .device_count = 2};
  const network& net = network_of<four>;
  std::string text;
  const auto refuses = [&] {
    const std::string refusal = error_message([&] { make_plan(net, o); });
    if (refusal != "") text = refusal;
    return refusal != "";
  };
  REQUIRE(refuses());
  const auto smallest = [&text] { return std::stoll(text.substr(text.find("choose at least ") + 16)); };
  const std::string needed = std::to_string(smallest());
  CHECK(text ==
        "stage 1: devices[1].memory_limit is 2000 bytes (L4): no cut into 2 stages fits, and in the smallest "
        "this stage needs " +
            needed + " bytes; choose at least " + needed + " bytes");
  each[1].memory_limit = smallest();
  CHECK_FALSE(refuses());
  --each[1].memory_limit;
  CHECK(refuses());
  CHECK(smallest() == each[1].memory_limit + 1);
  // Two limits: the smallest cut exceeds both by as much.
  each[0].memory_limit = 150'000;
  each[1].memory_limit = 100'000;
  REQUIRE(refuses());
  const std::size_t other = text.find(" bytes for devices[");
  REQUIRE(other != std::string::npos);
  const int named = text.starts_with("stage 0: devices[0]") ? 0 : 1;
  CHECK(text.substr(other + 11) == "devices[" + std::to_string(1 - named) + "].memory_limit");
  each[1 - named].memory_limit = std::stoll(text.substr(text.rfind(' ', other - 1) + 1));
  each[named].memory_limit = smallest();
  CHECK_FALSE(refuses());
  for (device_spec& d : each) --d.memory_limit;
  CHECK(refuses());
  CHECK_THROWS_WITH_AS(make_plan(net, o, {1}), doctest::Contains("devices[1].memory_limit is "), error);
}

TEST_CASE("the plan's limit and those of devices: the error names each that is too small, or how many") {
  struct eight : model<input<float, 64>, repeat<8, linear<64>>, passing_loss> {};
  const std::vector<device_spec> each(8, l4.with_limit(5000));
  plan_options o{.stages = 2, .micro_batches = 2, .devices = each.data(), .device_count = 2, .memory_limit = 6000};
  const auto message = [&] { return error_message([&] { make_plan(network_of<eight>, o); }); };
  const std::string of_two = message();
  CAPTURE(of_two);
  CHECK(of_two.find("devices[0].memory_limit") != std::string::npos);
  CHECK(of_two.find("devices[1].memory_limit") != std::string::npos);
  CHECK(of_two.ends_with(" bytes for memory_limit"));
  o.stages = o.device_count = 8;
  const std::string of_many = message();
  CAPTURE(of_many);
  CHECK(of_many.ends_with(" bytes more a stage for 8 other limits"));
  o = {.stages = 4, .micro_batches = 2, .schedule = schedule_kind::zb_v};
  o.device = l4.with_limit(5000);
  const std::string shared = message();
  CAPTURE(shared);
  CHECK(shared.find("device.memory_limit is 5000 bytes (L4), for 2 stages: no cut into 4 stages fits, and in the "
                    "smallest these stages need ") != std::string::npos);
  o.device.memory_limit = std::stoll(shared.substr(shared.find("choose at least ") + 16));
  CHECK(message() == "");
}

TEST_CASE("limits of devices that are raised as the error says fit a cut") {
  struct uneven : model<input<float, 64>, linear<96>, relu, linear<32>, relu, linear<64>, linear<16>, passing_loss> {};
  int raised = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const auto limit = [i](std::uint32_t which) {
      return l4.with_limit(2000 + static_cast<std::int64_t>(uniform(draw({}, i, which).word[0]) * 150'000));
    };
    std::vector<device_spec> each{limit(0), limit(1), limit(2)};
    const plan_options o{.stages = 3,
                         .micro_batches = 4,
                         .micro_batch_size = 16,
                         .recompute = i % 2 == 0 ? recompute_mode::as_needed : recompute_mode::never,
                         .devices = each.data(),
                         .device_count = 3};
    const std::string text = error_message([&] { make_plan(network_of<uneven>, o); });
    if (text == "") continue;
    CAPTURE(text);
    const std::size_t choose = text.find("choose at least ") + 16, named = text.find("devices[") + 8;
    const auto device = [&](std::size_t at) -> device_spec& { return each[static_cast<std::size_t>(text[at] - '0')]; };
    device(named).memory_limit = std::stoll(text.substr(choose));
    for (std::size_t at = text.find(" bytes for devices["); at != std::string::npos;
         at = text.find(" bytes for devices[", at + 1))
      device(at + 19).memory_limit = std::stoll(text.substr(text.rfind(' ', at - 1) + 1));
    CHECK_NOTHROW(make_plan(network_of<uneven>, o));
    ++raised;
  }
  CHECK(raised > 10);
}

TEST_CASE("where a limit is too small and nothing is recomputed, the error offers to recompute") {
  plan_options o{.stages = 2, .micro_batches = 4, .recompute = recompute_mode::never, .memory_limit = 1000};
  CHECK_THROWS_WITH_AS(made(o), doctest::Contains("bytes, or recompute as-needed, which may need fewer"), error);
  o.recompute = recompute_mode::always;
  CHECK_THROWS_WITH_AS(made(o), doctest::Contains("; choose at least"), error);
  CHECK(error_message([&] { made(o); }).find("as-needed") == std::string::npos);
  o.recompute = recompute_mode::as_needed;
  o.recompute_layers = {"relu"};
  CHECK_THROWS_WITH_AS(made(o), doctest::Contains("bytes, or leave out recompute_layers, which may need fewer"), error);
  CHECK_THROWS_WITH_AS(make_plan(network_of<chain>, o, {1}),
                       doctest::Contains("the partition, or leave out recompute_layers, which may need fewer"), error);
  o.group_gradients = 2;
  CHECK_THROWS_WITH_AS(made(o), doctest::Contains(", or choose group_gradients 0 and no recompute_layers, which"),
                       error);
  o.group_gradients = 0;
  o.recompute = recompute_mode::never;
  CHECK_THROWS_WITH_AS(made(o), doctest::Contains(", or choose recompute as-needed and no recompute_layers, which"),
                       error);
}
