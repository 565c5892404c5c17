#pragma once

// The memory of the paper's and torchgpipe's networks of images.

#include "../measure.hpp"
#include "../paper/table_1.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace bench {

using namespace gpipe;

inline double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024 * 1024); }
inline double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

/// One parameter has 12 bytes as torchgpipe measured it, with RMSProp: value, gradient and a moment.
inline plan_options of_one(int stages, int micro_batches, int moments) {
  return {.stages = stages,
          .micro_batches = micro_batches,
          .micro_batch_size = 1,
          .recompute = recompute_mode::always,
          .optimizer_moments = moments,
          .device = p100};
}

inline std::int64_t bytes_of(const step_plan& p, memory_kind kind) {
  std::int64_t sum = 0;
  for (const stage_plan& s : p.stage_plans) sum += s.memory.of(kind);
  return sum;
}

/// Bytes that can be used, by the system's estimate; 0: unknown.
inline std::int64_t available_memory() {
  std::string word;
  for (std::ifstream in("/proc/meminfo"); in >> word;)
    if (std::int64_t kib = 0; word == "MemAvailable:" && in >> kib) return 1024 * kib;
  return 0;
}

/// Trains one step of `micro_batches` images and counts the bytes of the arena that it writes, in lines.
template <class Net>
std::int64_t touched_bytes(int micro_batches, std::int64_t& predicted) {
  constexpr std::byte fill{0xa5};
  training_options how;
  how.arena_fill = fill;
  trainer<Net, sgd> training(of_one(1, micro_batches, sgd::moments), {}, how);
  std::vector<float> images(static_cast<std::size_t>(micro_batches) * 3 * 224 * 224);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(micro_batches));
  for (std::size_t i = 0; i < images.size(); ++i)
    images[i] = static_cast<float>(draw({1, 0, 0, 0}, 0, static_cast<std::uint32_t>(i)).word[0]) * 0x1p-31F - 1;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i);
  training.step(batch(micro_batches).with("inputs", images).with("labels", labels));
  const auto& arena = training.executor().stage(0).arena();
  predicted = training.plan().memory(0).total();
  std::int64_t touched = 0;
  for (std::size_t at = 0; at < arena.size() + detail::alignment; at += detail::alignment)  // and the line behind it
    if (!std::all_of(arena.data() + at, arena.data() + at + detail::alignment, [=](std::byte b) { return b == fill; }))
      touched += static_cast<std::int64_t>(detail::alignment);
  return touched;
}

/// Figures, which come behind all tables.
struct figure {
  std::string name;
  double value;
  const char* unit;
};
using figures = std::vector<figure>;

/// AmoebaNet-D (18, 416) on one stage, 128 micro-batches of one image: by fill-drain all recomputed; and by 1F1B, in
/// half of these activations, the layers that take the least time.
inline void print_largest_of_one_stage(figures& found) {
  using net = amoebanet_d<18, 416>;
  const network& all_layers = network_of<net>;
  const step_plan whole = make_plan(all_layers, of_one(1, 128, 1)), part = make_plan(all_layers, of_one(1, 4, 1));
  const std::int64_t of_whole = example::activations_of(whole), of_part = example::activations_of(part);
  plan_options by_layer = of_one(1, 128, 1);
  by_layer.schedule = schedule_kind::one_f_one_b;
  by_layer.recompute = recompute_mode::never;
  const std::int64_t never = step_time(all_layers, make_plan(all_layers, by_layer));
  by_layer.recompute = recompute_mode::as_needed;
  by_layer.memory_limit = whole.memory(0).total() - of_whole + of_whole / 2;
  const step_plan layers = make_plan(all_layers, by_layer);
  const auto over_never = [&](const step_plan& p) {
    return static_cast<double>(step_time(all_layers, p)) / static_cast<double>(never);
  };
  std::printf(
      "AmoebaNet-D (18, 416), one stage, micro-batches of one image: GiB beside the parameters' 12 bytes and their\n"
      "packed copies; and the predicted step over one that recomputes nothing\n");
  std::vector<std::vector<std::string>> rows{
      {"", "images", "partials", "working set", "other", "all", "step over never"}};
  for (const auto& [name, plan] : {std::pair{"128 micro-batches, always", &whole},
                                   {"128 micro-batches, by layer", &layers},
                                   {"4 micro-batches, always", &part}}) {
    using enum memory_kind;
    const std::int64_t all = example::activations_of(*plan), in = bytes_of(*plan, stash),
                       parts = bytes_of(*plan, partials), set = bytes_of(*plan, kept) + bytes_of(*plan, transient);
    rows.push_back({name, detail::fixed(gib(in), 3), detail::fixed(gib(parts), 3), detail::fixed(gib(set), 3),
                    detail::fixed(gib(all - in - parts - set), 3), detail::fixed(gib(all), 3),
                    plan == &part ? "" : detail::fixed(over_never(*plan), 3)});
  }
  std::fputs(detail::table(rows).c_str(), stdout);
  std::printf("torchgpipe measured 0.91, GPipe 3.46 GB; each further micro-batch adds %.3f MiB\n",
              gib(of_whole - of_part) * 1024 / 124);
  found.push_back({"memory.amoebanet.18x416.activations", gib(example::activations_of(layers)), "GiB"});
  found.push_back({"memory.amoebanet.18x416.activations.over_never", over_never(layers), "ratio"});
  found.push_back({"memory.amoebanet.18x416.always", gib(of_whole), "GiB"});
  found.push_back({"memory.amoebanet.18x416.always.over_never", over_never(whole), "ratio"});
  const std::int64_t needed = part.memory(0).total() + 2'000'000'000;
  if (const std::int64_t free = available_memory(); free < needed) {
    std::printf("not trained: %.1f GB are available, and a step of 4 micro-batches takes %.1f\n\n", gigabytes(free),
                gigabytes(needed));
    return;
  }
  std::int64_t predicted = 0;
  const std::int64_t touched = touched_bytes<net>(4, predicted);
  std::printf("a step of 4 micro-batches touches %lld of the %lld bytes that were predicted\n\n",
              static_cast<long long>(touched), static_cast<long long>(predicted));
  found.push_back(
      {"memory.amoebanet.18x416.touched", static_cast<double>(touched) / static_cast<double>(predicted), "ratio"});
}

/// Planned by the cut whose largest stage is smallest, with both packed copies of every weight. "shared": the layers of
/// a stage share the memory of packed weights.
inline void print_models(const std::vector<measured_model>& models, int micro_batches, int moments, std::int64_t device,
                         bool whole, figures& found) {
  std::vector<std::vector<std::string>> rows{{"", "stages", "parameters", whole ? "all" : "activations", "torchgpipe",
                                              "GPipe", "largest stage", "fits", "shared", "fits"}};
  for (const measured_model& m : models) {
    const example::stretched made(*m.of.net, m.of.parts, (m.depth - m.of.depth) / m.of.step);
    const network net = made.net();
    plan_options keeping = of_one(m.stages, micro_batches, moments), sharing = keeping;
    keeping.keep_packed_weights = true;
    sharing.share_packed_weights = true;
    const step_plan p = example::smallest_devices(net, keeping);
    const step_plan shared = example::smallest_devices(net, sharing);
    std::int64_t all = 0;
    for (const stage_plan& s : shared.stage_plans) all += s.memory.total();
    const std::int64_t max = example::largest_device_of(p), of_shared = example::largest_device_of(shared),
                       compared = whole ? all : example::activations_of(p);
    rows.push_back({m.name, std::to_string(m.stages), detail::counted(net.parameters()),
                    detail::fixed(gib(compared), 2), m.torchgpipe > 0 ? detail::fixed(m.torchgpipe, 2) : "-",
                    m.gpipe > 0 ? detail::fixed(gib(static_cast<std::int64_t>(m.gpipe * 1e9)), 2) : "-",
                    detail::fixed(gigabytes(max), 2), max <= device ? "yes" : "no",
                    detail::fixed(gigabytes(of_shared), 2), of_shared <= device ? "yes" : "no"});
    const std::string name = "memory." + m.name;
    found.push_back({name + ".largest_stage", gigabytes(max), "GB"});
    found.push_back({name + ".largest_stage.shared", gigabytes(of_shared), "GB"});
    if (m.torchgpipe > 0) found.push_back({name + ".over_torchgpipe", gib(compared) / m.torchgpipe, "ratio"});
  }
  std::printf("%s\n", detail::table(rows).c_str());
}

inline figures print_images() {
  figures found;
  print_largest_of_one_stage(found);
  std::printf(
      "AmoebaNet-D of the paper's table 1: a batch of 128 in micro-batches of one, all recomputed, fill-drain;\n"
      "activations of all stages in GiB; the largest stage in GB, and whether it fits 8 GB\n");
  print_models(amoebanets_of_table_1(), 128, 1, 8'000'000'000, false, found);
  const auto unet_of = [](int B, int C, example::family_member of, int stages, double torchgpipe) {
    return measured_model{
        "unet." + std::to_string(B) + "x" + std::to_string(C), std::move(of), B, stages, torchgpipe, 0};
  };
  std::printf(
      "U-Net of torchgpipe's table: a batch of 32 in micro-batches of one, all recomputed, 8 bytes a parameter;\n"
      "all bytes with shared packed weights in GiB, beside all that torchgpipe measured; fits 24 GB\n");
  print_models({unet_of(6, 72, example::member<unet<4, 72>>("", 4), 1, 20.3),
                unet_of(11, 128, example::member<unet<4, 128>>("", 4), 1, 20.5),
                unet_of(24, 128, example::member<unet<4, 128>>("", 4), 2, 43.4),
                unet_of(24, 160, example::member<unet<4, 160>>("", 4), 4, 79.1),
                unet_of(48, 160, example::member<unet<4, 160>>("", 4), 8, 154.1)},
               32, 0, 24'000'000'000, true, found);
  return found;
}

}  // namespace bench
