#pragma once

// What will happen, at compile time: layers, models and plans, without any device, thread or file.
#include <gpipe/layer.hpp>
#include <gpipe/plan/plan.hpp>
