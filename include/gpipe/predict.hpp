#pragma once

// The forward pass of a model that was trained, without a training.
#include <gpipe/train/predictor.hpp>
