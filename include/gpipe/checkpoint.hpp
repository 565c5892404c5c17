#pragma once

// Files of weights and checkpoints: `save` and `load` of a trainer, and the names of other programs.
#include <gpipe/tools/names/hugging_face.hpp>
#include <gpipe/tools/names/torchvision.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>
