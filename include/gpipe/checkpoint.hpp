#pragma once

// Files of weights and checkpoints: `save` and `load` of a trainer, and the names of other programs.
#include <gpipe/train/checkpoint/names/hugging_face.hpp>
#include <gpipe/train/checkpoint/names/torchvision.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>
