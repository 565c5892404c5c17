#pragma once

// What a training did: reports, traces, timelines, profiles, digests in files, logs.
#include <gpipe/plan/model_summary.hpp>
#include <gpipe/record/digest_file.hpp>
#include <gpipe/record/drawing/least_disturbed_step.hpp>
#include <gpipe/record/drawing/timeline.hpp>
#include <gpipe/record/log/event_folder.hpp>
#include <gpipe/record/log/log_file.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/record/report/layer_report.hpp>
#include <gpipe/record/report/report.hpp>
#include <gpipe/record/write_profile.hpp>
#include <gpipe/record/write_trace.hpp>
