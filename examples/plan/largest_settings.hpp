#pragma once

// The command line of `plan largest`, and what it prints.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>

#include <gpipe/core/text/table.hpp>

#include "choice.hpp"
#include "families.hpp"
#include "settings.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

// Schedules that train, and recompute that does not depend on the limit.
inline constexpr auto training_schedules = [] {
  std::array<std::pair<const char*, schedule_kind>, std::size(schedules) - 1> found{};
  std::size_t count = 0;
  for (const auto& it : schedules)
    if (it.second != schedule_kind::forward_only) found[count++] = it;
  return found;
}();

inline constexpr std::pair<const char*, recompute_mode> fixed_recomputes[] = {
    {"always", recompute_mode::always}, {"except-last", recompute_mode::except_last}, {"never", recompute_mode::never}};

struct largest_settings {
  family_kind model = family_kind::amoebanet;
  int devices = 8, micro_batches = 0, micro_batch_size = 1, moments = 1;
  std::int64_t memory = 8_GiB;
  schedule_kind schedule = schedule_kind::fill_drain;
  recompute_mode recompute = recompute_mode::always;

  bool read(int count, char** arguments) {
    return options(
               "plan largest: how large a model fits on a number of devices, by the memory of its plan.\n"
               "Also prints the table of the paper's largest models beside ours.")
        .choice("--model", model, words(families), "the family; own is the model at the top of plan.cpp")
        .number("--devices", devices, 1, 10'000, "devices, each with the stages of the schedule")
        .bytes("--memory", memory, "bytes of each device (8GiB)")
        .number("--micro-batches", micro_batches, 0, 100'000,
                "micro-batches of a step; 0: 128 of images to\n"
                "                            classify, else 32")
        .number("--micro-batch-size", micro_batch_size, 1, 100'000, "samples of a micro-batch")
        .choice("--schedule", schedule, words(training_schedules), "the order of work")
        .choice("--recompute", recompute, words(fixed_recomputes),
                "which micro-batches run forward again before backward")
        .number("--moments", moments, 0, max_moments,
                "arrays of the parameters' size that the optimizer\n"
                "                            keeps: RMSProp and SGD with momentum 1, Adam 2")
        .read(count, arguments);
  }

  plan_options plan(int default_micro_batches) const {
    return {.stages = devices * stages_per_worker(schedule),
            .micro_batches = micro_batches > 0 ? micro_batches : default_micro_batches,
            .micro_batch_size = micro_batch_size,
            .recompute = recompute,
            .schedule = schedule,
            .optimizer_moments = moments};
  }
};

inline void print_largest(const largest_settings& chosen, const network& own) {
  const family all = family_of(chosen.model, own);
  const plan_options o = chosen.plan(all.micro_batches);
  std::cout << "The largest " << all.title << ",\non " << several(chosen.devices, "device") << " of "
            << bytes(chosen.memory) << ": " << name_of(chosen.schedule) << " of "
            << several(o.micro_batches, "micro-batch") << " of " << several(o.micro_batch_size, "sample")
            << ", recompute " << name_of(o.recompute) << ";\na parameter has " << 8 + 4 * o.optimizer_moments
            << " bytes and those of its packed copies.\n\n";
  table rows{{"width", all.depth, "parameters", "activations", "largest device"}};
  constexpr int max_layers = 50'000;
  for (const family_member& it : all.members) {
    int body = 0;
    for (const repetition& r : it.parts) body += r.length();
    const largest_model found =
        largest_of(it, o, chosen.memory, body > 0 ? std::max(0, max_layers - it.net->layer_count) / body : 0);
    if (found.more < 0) {
      rows.push_back({it.width, "-", "not even " + std::to_string(it.depth) + " fits", "", ""});
      continue;
    }
    rows.push_back({it.width, (found.whole ? "" : "at least ") + std::to_string(it.depth_of(found.more)),
                    counted(found.parameters), bytes(found.activations), bytes(found.largest_device)});
  }
  std::cout << gpipe::detail::table(rows);
}

/// The paper's table 1, its half of images, planned with the cut whose largest device is smallest.
inline void print_amoebanets() {
  std::cout << "The paper's AmoebaNet-D (table 1): images of 224 x 224, a batch of 128 in micro-batches of one, all\n"
               "recomputed, fill-drain; 12 bytes a parameter; in GB. \"paper\" is the paper's peak of activations,\n"
               "\"torchgpipe\" what it measured with 128 micro-batches; \"max\" is the largest L that fits 8 GB a "
               "device.\n\n";
  table rows{{"L", "D", "stages", "parameters", "their bytes", "activations", "paper", "torchgpipe", "largest device",
              "fits 8", "max"}};
  const auto giga = [](double count) { return fixed(count * 1e-9, 2); };
  struct paper_row {
    int L, D, stages;
    double paper, torchgpipe;  // GB, GiB; 0: it does not fit
  };
  const family all = family_of(family_kind::amoebanet, network{});
  for (const paper_row& it :
       {paper_row{18, 208, 1, 6.26, 0}, paper_row{18, 416, 1, 3.46, 0.91}, paper_row{18, 544, 2, 8.11, 3.39},
        paper_row{36, 544, 4, 15.21, 6.91}, paper_row{72, 512, 8, 26.24, 10.83}}) {
    const family_member* of = nullptr;
    for (const family_member& m : all.members)
      if (m.width == "D = " + std::to_string(it.D)) of = &m;
    const stretched made(*of->net, of->parts, (it.L - of->depth) / of->step);
    const network net = made.net();
    const plan_options o{.stages = it.stages,
                         .micro_batches = all.micro_batches,
                         .micro_batch_size = 1,
                         .recompute = recompute_mode::always,
                         .optimizer_moments = 1,
                         .device = tpu_v2_core};
    const step_plan p = smallest_devices(net, o);
    const auto n = static_cast<double>(net.parameters());
    const std::int64_t max = largest_device_of(p);
    const largest_model found = largest_of(*of, o, tpu_v2_core.memory_bytes, 1000);
    rows.push_back({std::to_string(it.L), std::to_string(it.D), std::to_string(it.stages), counted(net.parameters()),
                    giga(12 * n), giga(static_cast<double>(activations_of(p))), fixed(it.paper, 2),
                    it.torchgpipe > 0 ? giga(it.torchgpipe * 1024 * 1024 * 1024) : "-", giga(static_cast<double>(max)),
                    max <= tpu_v2_core.memory_bytes ? "yes" : "no",
                    found.more < 0 ? "-" : std::to_string(of->depth_of(found.more))});
  }
  std::cout << gpipe::detail::table(rows);
}

}  // namespace example
