#pragma once

// The choices of a user of plan, and the words of the command line for it.

#include <cstdint>
#include <utility>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

namespace example {

using namespace gpipe;

struct choice {
  int stages = 4, micro_batches = 8;
  schedule_kind schedule = schedule_kind::fill_drain;
  int chunks = 2;  // stages of a device, for the schedules that have such a number
  recompute_mode recompute = recompute_mode::as_needed;
  std::int64_t limit = INT64_MAX;  // bytes of a stage
  std::int64_t link = 0;           // bytes in a second from a stage to the next; 0: transfers take no time
  double effort = 3e6;             // instructions of simulated steps in the search for a table's cut: a second or so

  schedule_choice order() const { return {schedule, chunks}; }
  /// The options with these choices.
  plan_options in(plan_options o) const {
    o.stages = stages;
    o.micro_batches = micro_batches;
    o.schedule = schedule;
    o.chunks = chunks;
    o.recompute = recompute;
    o.memory_limit = limit;
    return o;
  }
};

// change: a schedule
inline constexpr std::pair<const char*, schedule_kind> schedules[] = {{"fill-drain", schedule_kind::fill_drain},
                                                                      {"1f1b", schedule_kind::one_f_one_b},
                                                                      {"interleaved", schedule_kind::interleaved},
                                                                      {"looped-bfs", schedule_kind::looped_bfs},
                                                                      {"zb-h1", schedule_kind::zb_h1},
                                                                      {"interleaved-zb", schedule_kind::interleaved_zb},
                                                                      {"zb-v", schedule_kind::zb_v},
                                                                      {"dualpipev", schedule_kind::dual_pipe_v},
                                                                      {"v-half", schedule_kind::v_half},
                                                                      {"v-min", schedule_kind::v_min},
                                                                      {"zb-2p", schedule_kind::zb_2p},
                                                                      {"forward-only", schedule_kind::forward_only}};
// change: a recompute mode
inline constexpr std::pair<const char*, recompute_mode> recomputes[] = {{"always", recompute_mode::always},
                                                                        {"except-last", recompute_mode::except_last},
                                                                        {"as-needed", recompute_mode::as_needed},
                                                                        {"never", recompute_mode::never}};

/// The words for devices, by their data sheets.
inline constexpr std::pair<const char*, const device_spec*> device_names[] = {
    {"cpu", &this_cpu},        {"p100", &p100},           {"v100-16gb", &v100_16gb},
    {"v100-32gb", &v100_32gb}, {"a100-40gb", &a100_40gb}, {"a100-80gb", &a100_80gb},
    {"h100", &h100},           {"h200", &h200},           {"l4", &l4},
    {"tpu-v2", &tpu_v2_core},  {"tpu-v3", &tpu_v3_core}};

}  // namespace example
