#pragma once

// Pipeline-parallel training: everything but the parts that need a library of their own beyond Thrust and Hana.
#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/device/host/gemm_rate.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/model_summary.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/record/digest_file.hpp>
#include <gpipe/record/layer_report.hpp>
#include <gpipe/record/log/event_folder.hpp>
#include <gpipe/record/log/log_file.hpp>
#include <gpipe/record/measured_profile.hpp>
#include <gpipe/record/median_step.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/record/report.hpp>
#include <gpipe/record/timeline.hpp>
#include <gpipe/train/checkpoint/hugging_face.hpp>
#include <gpipe/train/data/csv.hpp>
#include <gpipe/train/data/generated_data.hpp>
#include <gpipe/train/data/idx.hpp>
#include <gpipe/train/data/mapped_data.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/generation/generator.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/version.hpp>
