#pragma once

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>

namespace gpipe {

/// `resnet<18>` ... `resnet<152>` in the files of torchvision: the same names, and the weights of convolutions in
/// PyTorch's order, even if the file does not record it.
///
///     training.load("resnet50.safetensors", {.names = torchvision_resnet()})
name_map torchvision_resnet();

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/names/torchvision-inl.hpp>
#endif
