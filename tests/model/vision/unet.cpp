// optimize: yes
// check: whole

#include <gpipe/model/vision/unet.hpp>

#include <doctest/doctest.h>

#include "support/same_losses.hpp"

using namespace gpipe;
using namespace gpipe::detail;

static_assert(network_of<unet<5, 64>>.parameters() == 232'687'328);
static_assert(network_of<unet<6, 72>>.parameters() == 362'157'516);
static_assert(network_of<unet<11, 128>>.parameters() == 2'213'834'176);
static_assert(network_of<unet<24, 128>>.parameters() == 4'993'859'008);
static_assert(network_of<unet<24, 160>>.parameters() == 7'802'903'600);
static_assert(network_of<unet<48, 160>>.parameters() == 15'822'206'000);

TEST_CASE("U-Net trains with the same bits in every plan, also with odd sides") {
  using net = unet<2, 4, 36, 1>;  // 36, 18, 9, 4, 2, 1: one side is odd
  constexpr laws::trained_images data{36 * 36, 2, 36 * 36};
  const auto whole = data.run<net>({.stages = 1, .micro_batches = 3, .micro_batch_size = 2});
  CHECK(whole[2] < whole[0]);
  for (const int stages : {2, 3, 7}) {
    CAPTURE(stages);
    CHECK(data.run<net>({.stages = stages, .micro_batches = 3, .micro_batch_size = 2}) == whole);
    CHECK(data.run<net>({.stages = stages,
                         .micro_batches = 2,
                         .micro_batch_size = 3,
                         .recompute = recompute_mode::never,
                         .schedule = schedule_kind::zb_h1}) == whole);
  }
}
