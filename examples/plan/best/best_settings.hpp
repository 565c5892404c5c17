#pragma once

// The command line of `plan best`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/tools/best/plan_space.hpp>
#include <gpipe/tools/devices/device_file.hpp>

#include "../families.hpp"
#include "../largest_settings.hpp"
#include "../settings.hpp"

namespace example {

using namespace gpipe;

struct best_settings {
  family_kind model = family_kind::own;
  std::string costs, machine;
  int width = 1, depth = 0;
  plan_space space{.devices = 8, .batch = 0};
  std::int64_t memory = 0, link = 0;  // 0: of the device
  const device_spec* device = &this_cpu;
  int schedule = any, moments = 2, effort = 1;
  recompute_mode recompute = recompute_mode::as_needed;
  bool plain = false;

  bool read(int count, char** arguments) {
    if (!options(
             "plan best: chooses stages, replicas, micro-batches, their size, the schedule, the cut and what runs\n"
             "again together, for the shortest step, and says how far it may be from the best. What is given stays.")
             .choice("--model", model, words(families), "the family; own is the model at the top of plan.cpp")
             .number("--width", width, 1, 100, "the member of the family, by width: the first, the second, ...")
             .number("--depth", depth, 0, 100'000,
                     "its depth; 0: that of the family's smallest. Of own: how\n"
                     "                            many repetitions follow those in plan.cpp")
             .text("--costs", "FILE", costs,
                   "instead of a model the table of its layers' costs for one\n"
                   "                            micro-batch: see plan --help. --batch counts these then")
             .number("--devices", space.devices, 1, 65'536, "devices, of all replicas together")
             .number("--batch", space.batch, 0, 1 << 24, "samples of a mini-batch; 0: 32, or the family's")
             .bytes("--memory", memory, "bytes of each device, such as 16GiB (of the device)")
             .choice("--device", device, words(device_names), "its rates, by the data sheet")
             .text("--machine", "FILE.csv", machine, "its rates, by plan measure, instead of --device")
             .number("--link-bytes-per-s", link, 0, INT64_MAX / 1000, "from a device to another; 0: of the device")
             .number("--replicas", space.replicas, 0, 65'536, "copies of the pipeline; 0: chosen, as below")
             .number("--workers", space.workers, 0, 65'536, "devices of each replica")
             .number("--micro-batches", space.micro_batches, 0, 1 << 24, "micro-batches of a step in each replica")
             .number("--micro-batch-size", space.micro_batch_size, 0, 1 << 24, "samples of a micro-batch")
             .number("--min-micro-batch-size", space.min_micro_batch_size, 0, 1 << 24,
                     "the fewest, if it is chosen; 0: 1, or 2 for a\n"
                     "                            model with batch norms: they need several samples")
             .choice("--schedule", schedule, words_or_any(schedules), "the order of work")
             .choice("--recompute", recompute, words(recomputes), "which layers or micro-batches run forward again")
             .number("--moments", moments, 0, max_moments,
                     "arrays of the parameters' size that the optimizer\n"
                     "                            keeps: SGD with momentum 1, Adam 2")
             .number("--effort", effort, 1, 1000, "how long to search: about a second each")
             .flag("--plain", plain, "print for programs: a line a number")
             .read(count, arguments))
      return false;
    if (schedule != any) space.schedule = static_cast<schedule_kind>(schedule - 1);
    const auto has = [&](const char* name) { return given(name, count, arguments); };
    if (!machine.empty()) {
      if (has("--device")) throw error("options --device and --machine are both given", "give one of them");
      measured = read_device(machine);
      device = &measured;
    }
    if (costs.empty()) return true;
    for (const char* const name : {"--model", "--width", "--depth"})
      if (has(name)) throw error(concat({"option ", name, ": a table of --costs is the model"}), "give one of them");
    if (has("--moments"))
      throw error("option --moments: the parameter_bytes of a table of --costs have the optimizer's arrays among them",
                  "leave the option out, and change the table");
    if (space.micro_batch_size > 1)
      throw error("option --micro-batch-size: a table of --costs already holds the costs of one micro-batch",
                  "leave the option out, or give a table for such micro-batches");
    space.micro_batch_size = 1;
    return true;
  }

  device_spec measured{};  // of --machine

  plan_options rest() const {
    plan_options o{.recompute = recompute, .optimizer_moments = costs.empty() ? moments : 0, .device = *device};
    o.memory_limit = memory > 0 ? memory : device->memory_bytes;
    if (link > 0) o.device.link_bytes_per_second = link;
    return o;
  }
};

}  // namespace example
