#pragma once

// change: an optimizer
// Training: the trainer, its optimizers, and `fit`.
#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer.hpp>
