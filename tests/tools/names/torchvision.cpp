// sanitizers: none
// optimize: yes

#include <gpipe/tools/names/torchvision.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/model/vision/resnet.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/temporary_folder.hpp"

using namespace gpipe;

TEST_CASE("a ResNet's file has the convolutions' weights in PyTorch's order, and loads again") {
  using net = resnet<18, 10, 32>;
  trainer<net, sgd> one{{.stages = 2, .micro_batches = 1, .micro_batch_size = 1}, sgd{}, {.seed = 3}},
      other{{.stages = 3, .micro_batches = 1, .micro_batch_size = 1}, sgd{}, {.seed = 4}};
  const temporary_folder folder;
  const std::string path = folder.beside("resnet.safetensors");
  one.save(path, {.names = torchvision_resnet()});

  const safetensors_file file(path);
  const safetensors_entry* entry = file.find("layer2.0.conv1.weight");
  REQUIRE(entry != nullptr);
  CHECK(entry->shape == std::vector<std::uint64_t>{128, 64, 3, 3});
  std::vector<float> in_file(128 * 64 * 9);
  file.read(*entry, 0, std::span(in_file));
  const auto ours = one.parameter<float>("layer2.0.conv1.weight");  // {3, 3, 64, 128}
  for (const int k : {0, 5, 127})
    for (const int c : {0, 63})
      for (int tap = 0; tap < 9; ++tap)
        CHECK(in_file[static_cast<std::size_t>((k * 64 + c) * 9 + tap)] ==
              ours[static_cast<std::size_t>((tap * 64 + c) * 128 + k)]);

  CHECK(other.parameter_hash() != one.parameter_hash());
  other.load(path, {.names = torchvision_resnet()});
  CHECK(other.parameter_hash() == one.parameter_hash());
}
