#pragma once

// What will happen, at compile time: layers, models and plans, without any device, thread or file.
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/version.hpp>
