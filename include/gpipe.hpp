#pragma once

// change: a component header
// Pipeline-parallel training: everything but the parts that need a library of their own beyond Hana. A program that
// includes only the parts that it uses compiles faster.
#include <gpipe/checkpoint.hpp>
#include <gpipe/data.hpp>
#include <gpipe/generate.hpp>
#include <gpipe/images.hpp>
#include <gpipe/job.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/report.hpp>
#include <gpipe/testing.hpp>
#include <gpipe/train.hpp>
#include <gpipe/version.hpp>
