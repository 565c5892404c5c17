// optimize: yes
// check: whole

#include <gpipe/model/vision/resnet.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/same_losses.hpp"

using namespace gpipe;
using namespace gpipe::detail;

static_assert(network_of<resnet<18>>.parameters() == 11'689'512);
static_assert(network_of<resnet<34>>.parameters() == 21'797'672);
static_assert(network_of<resnet<50>>.parameters() == 25'557'032);
static_assert(network_of<resnet<101>>.parameters() == 44'549'160);
static_assert(network_of<resnet<152>>.parameters() == 60'192'808);

namespace {

constexpr laws::trained_images data{3 * 32 * 32, 5};

}  // namespace

TEST_CASE("ResNet trains with the same bits in every plan") {
  using net = resnet<18, 5, 32>;
  const auto whole = data.run<net>({.stages = 1, .micro_batches = 2, .micro_batch_size = 3});
  CHECK(whole[2] < whole[0]);
  for (const int stages : {2, 4}) {
    CAPTURE(stages);
    CHECK(data.run<net>({.stages = stages, .micro_batches = 2, .micro_batch_size = 3}) == whole);
    CHECK(data.run<net>({.stages = stages,
                         .micro_batches = 2,
                         .micro_batch_size = 3,
                         .recompute = recompute_mode::never,
                         .schedule = schedule_kind::one_f_one_b}) == whole);
  }
}

TEST_CASE("ResNet's paths are torchvision's names") {
  trainer<resnet<50, 10, 32>, sgd> training{{.stages = 2, .micro_batches = 1, .micro_batch_size = 1}};
  std::vector<std::string> paths;
  for (const auto& one : training.parameters()) paths.push_back(one.path);
  const auto has = [&](const char* path) { return std::find(paths.begin(), paths.end(), path) != paths.end(); };
  CAPTURE(paths.size());
  for (const char* path :
       {"conv1.weight", "bn1.weight", "layer1.0.conv1.weight", "layer1.0.bn3.bias", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.weight", "layer3.5.conv2.weight", "layer4.2.bn2.weight", "fc.weight", "fc.bias"})
    CHECK(has(path));
  CHECK(paths.size() == 161 + 2 * 53);  // and the averages of the batch norms
}
