#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>

namespace gpipe {

/// `resnet<18>` ... `resnet<152>` in the files of torchvision: the same names, and the weights of convolutions in
/// PyTorch's order, even if the file does not record it.
///
///     training.load("resnet50.safetensors", {.names = torchvision_resnet()})
GPIPE_COLD inline name_map torchvision_resnet() {
  name_map names;
  for (const char* weight : {"conv1.weight", "layer*.*.conv*.weight", "layer*.*.downsample.0.weight"})
    names.rules.push_back({.file = {weight}, .model = weight, .transposed = true});
  return names;
}

}  // namespace gpipe
