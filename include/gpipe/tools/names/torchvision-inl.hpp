#pragma once

#include <gpipe/tools/names/torchvision.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE name_map torchvision_resnet() {
  name_map names;
  for (const char* weight : {"conv1.weight", "layer*.*.conv*.weight", "layer*.*.downsample.0.weight"})
    names.rules.push_back({.file = {weight}, .model = weight, .transposed = true});
  return names;
}

}  // namespace gpipe
