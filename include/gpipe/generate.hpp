#pragma once

// Text from a model that was trained, and how close it is to what is right.
#include <gpipe/train/generation/generator.hpp>
#include <gpipe/train/text_scores.hpp>
