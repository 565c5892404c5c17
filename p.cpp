#include <gpipe/layer.hpp>
#include <gpipe/train.hpp>
#include <gpipe/plan.hpp>
