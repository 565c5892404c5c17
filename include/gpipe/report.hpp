#pragma once

// change: a report or a drawing
// What a training did: reports, traces, timelines, profiles, digests in files, logs.
#include <gpipe/record/progress.hpp>
#include <gpipe/tools/drawing/least_disturbed_step.hpp>
#include <gpipe/tools/drawing/timeline.hpp>
#include <gpipe/tools/log/event_folder.hpp>
#include <gpipe/tools/log/log_file.hpp>
#include <gpipe/tools/report/digest_file.hpp>
#include <gpipe/tools/report/layer_report.hpp>
#include <gpipe/tools/report/model_summary.hpp>
#include <gpipe/tools/report/report.hpp>
#include <gpipe/tools/report/write_profile.hpp>
#include <gpipe/tools/report/write_trace.hpp>
