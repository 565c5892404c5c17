#pragma once

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/train/checkpoint/name_map.hpp>

namespace gpipe {

/// `resnet<18>` ... `resnet<152>` in the files of torchvision: the same names, and the weights of convolutions in
/// PyTorch's order.
///
///     training.load("resnet50.safetensors", {.names = torchvision_resnet()})
name_map torchvision_resnet();

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE name_map torchvision_resnet() {
  name_map names;
  for (const char* weight : {"conv1.weight", "layer*.*.conv*.weight", "layer*.*.downsample.0.weight"})
    names.rules.push_back({.file = {weight}, .model = weight, .transposed = true});
  return names;
}
#endif

}  // namespace gpipe
