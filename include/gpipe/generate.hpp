#pragma once

// Text from a model that was trained.
#include <gpipe/train/generation/generator.hpp>
