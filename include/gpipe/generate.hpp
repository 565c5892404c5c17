#pragma once

// Text from a model that was trained, and how close it is to what is right.
#include <gpipe/tools/generation/generator.hpp>
#include <gpipe/tools/scores/text_scores.hpp>
