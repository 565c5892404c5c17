#pragma once

// Table 1, the baseline of the paper's ratios, and the networks that the paper names without a table.

#include "page.hpp"
#include "table_1.hpp"

#include "../../examples/plan/transformers.hpp"

#include <gpipe/make_plan.hpp>
#include <gpipe/model/vision/amoebanet.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paper {

using namespace gpipe;

/// A mini-batch in micro-batches, all recomputed; 12 bytes per parameter: value, gradient, one moment.
inline plan_options pipelined(int stages, int micro_batches, int size, const device_spec& device) {
  return {.stages = stages,
          .micro_batches = micro_batches,
          .micro_batch_size = size,
          .recompute = recompute_mode::always,
          .optimizer_moments = 1,
          .device = device};
}
/// One device, the whole mini-batch at once, all activations kept.
inline plan_options naive(int batch, const device_spec& device) {
  plan_options o = pipelined(1, 1, batch, device);
  o.recompute = recompute_mode::never;
  return o;
}

inline double gib_to_gb(double gib) { return gib * 1.073741824; }

inline void add_amoebanets(page& to) {
  std::vector<std::vector<std::string>> rows{
      {"(L, D)", "devices", "parameters", "activations", "GPipe", "torchgpipe", "largest device", "fits 8 GB"}};
  for (const bench::measured_model& m : bench::amoebanets_of_table_1()) {
    const example::stretched made(*m.of.net, m.of.parts, (m.depth - m.of.depth) / m.of.step);
    const network net = made.net();
    const step_plan p = example::smallest_devices(net, pipelined(m.stages, 128, 1, p100));
    const std::int64_t max = example::largest_device_of(p);
    rows.push_back({m.name.substr(m.name.find('.') + 1), std::to_string(m.stages), millions(net.parameters()),
                    gigabytes(example::activations_of(p)), fixed(m.gpipe, 2),
                    m.torchgpipe > 0 ? fixed(gib_to_gb(m.torchgpipe), 2) : "out of memory", gigabytes(max),
                    max <= 8'000'000'000 ? "yes" : "no"});
  }
  to.table(rows);
}

inline const example::family_member& transformers() {
  static const example::family_member all = example::member<transformer<3>>("", 3);
  return all;
}

inline void add_transformers(page& to) {
  std::vector<std::vector<std::string>> rows{
      {"blocks", "devices", "parameters", "activations", "GPipe", "largest device", "fits 16 GB", "bubble"}};
  for (const example::printed_transformer& t : example::printed_transformers) {
    const example::stretched made(*transformers().net, transformers().parts, t.blocks - 3);
    const network net = made.net();
    const step_plan p = example::smallest_devices(net, pipelined(t.stages, 32, 1, tpu_v3_core));
    const std::int64_t max = example::largest_device_of(p);
    rows.push_back({std::to_string(t.blocks), std::to_string(t.stages), millions(net.parameters()),
                    gigabytes(example::activations_of(p)), fixed(t.activations, 1), gigabytes(max),
                    max <= tpu_v3_core.memory_bytes ? "yes" : "no",
                    percent(timetable(fill_drain{}, t.stages, 32).bubble())});
  }
  to.table(rows);
}

/// The deepest Transformer of a device's memory, and the widest AmoebaNet-D (18, D) of the compiled widths.
inline void add_baseline(page& to) {
  const auto deepest = [](const plan_options& o, int max) {
    return example::largest_of(transformers(), o, tpu_v3_core.memory_bytes, max);
  };
  const example::largest_model plain = deepest(naive(32, tpu_v3_core), 100),
                               one = deepest(pipelined(1, 32, 1, tpu_v3_core), 100),
                               all = deepest(pipelined(128, 32, 1, tpu_v3_core), 4000);
  const auto blocks = [](const example::largest_model& m) {
    return m.more < 0 ? std::string("none of 3 or more") : std::to_string(transformers().depth_of(m.more));
  };
  const auto ratio = [&](const example::largest_model& m, std::size_t base) {
    return m.more < 0 || base == 0 ? std::string()
                                   : fixed(static_cast<double>(m.parameters) / static_cast<double>(base), 1);
  };
  constexpr std::size_t printed = 282'178'816;  // 3 blocks
  std::vector<std::vector<std::string>> rows{{"Transformer, 16 GB per device", "deepest here, blocks", "parameters",
                                              "over the paper's 282.2 M", "the paper's ratio"}};
  rows.push_back({"one device, the whole mini-batch, all activations kept", blocks(plain),
                  plain.more < 0 ? "" : millions(plain.parameters), ratio(plain, printed), "1"});
  rows.push_back({"one device, 32 micro-batches, all recomputed", blocks(one), millions(one.parameters),
                  ratio(one, printed), "2.7"});
  rows.push_back({"128 devices, 32 micro-batches, all recomputed", blocks(all), millions(all.parameters),
                  ratio(all, printed), "298"});
  to.table(rows);

  rows = {{"AmoebaNet-D on one device of 8 GB, a batch of 128", "activations", "all bytes", "fits"}};
  struct run {
    const char* name;
    const network* net;
    bool naively;
  };
  for (const auto& [name, net, naively] :
       {run{"(18, 208), at once, all kept", &network_of<amoebanet_d<18, 208>>, true},
        {"(18, 208), 128 micro-batches, all recomputed", &network_of<amoebanet_d<18, 208>>, false},
        {"(18, 416), at once, all kept", &network_of<amoebanet_d<18, 416>>, true},
        {"(18, 416), 128 micro-batches, all recomputed", &network_of<amoebanet_d<18, 416>>, false}}) {
    const step_plan p = make_plan(*net, naively ? naive(128, p100) : pipelined(1, 128, 1, p100));
    const std::int64_t bytes = p.memory(0).total();
    rows.push_back(
        {name, gigabytes(example::activations_of(p)), gigabytes(bytes), bytes <= 8'000'000'000 ? "yes" : "no"});
  }
  to.table(rows);
}

/// A row for a network on devices of 16 GB.
inline void add_planned(std::vector<std::vector<std::string>>& rows, const std::string& name, const network& net,
                        int devices, int micro_batches, int size) {
  const step_plan p = example::smallest_devices(net, pipelined(devices, micro_batches, size, tpu_v3_core));
  const std::int64_t max = example::largest_device_of(p);
  rows.push_back({name, std::to_string(devices), std::to_string(micro_batches) + " x " + std::to_string(size),
                  millions(net.parameters()), gigabytes(example::activations_of(p)), gigabytes(max),
                  max <= tpu_v3_core.memory_bytes ? "yes" : "no",
                  percent(timetable(fill_drain{}, devices, micro_batches).bubble())});
}

inline void add_unlisted(page& to) {
  std::vector<std::vector<std::string>> rows{
      {"network", "devices", "micro-batches", "parameters", "activations", "largest device", "fits 16 GB", "bubble"}};
  using wide = amoebanet_b<18, 512, amoebanet_options{.side = 480}>;
  add_planned(rows, "AmoebaNet-B (18, 512), 480 x 480", network_of<wide>, 4, 32, 1);
  const example::stretched language(*transformers().net, transformers().parts, 156 - 3);
  add_planned(rows, "a language model of 8 billion: 156 blocks", language.net(), 16, 32, 1);
  const auto member = example::member<encoder_decoder<3, 16384, 32>>("", 3);
  const example::stretched deep(*member.net, member.parts, 64 - 3);
  add_planned(rows, "T(64, 16384, 32)", deep.net(), 16, 32, 8);
  to.table(rows);
}

/// A step of T(64, 16384, 32) on 16 devices: micro-batches of 32 sentences, 128 words each.
inline void add_batches(page& to) {
  const auto member = example::member<encoder_decoder<3, 16384, 32>>("", 3);
  const example::stretched made(*member.net, member.parts, 64 - 3);
  const network deep = made.net();
  std::vector<std::vector<std::string>> rows{
      {"words per step", "micro-batches of 32 sentences", "bubble", "largest device", "its largest device with 1F1B"}};
  for (const int M : {64, 256, 1024}) {
    plan_options o = pipelined(16, M, 32, tpu_v3_core);
    const step_plan filled = example::smallest_devices(deep, o);
    o.schedule = schedule_kind::one_f_one_b;
    const step_plan early = example::smallest_devices(deep, o);
    rows.push_back({std::to_string(M * 32 * 128), std::to_string(M), percent(timetable(fill_drain{}, 16, M).bubble()),
                    gigabytes(example::largest_device_of(filled)) + " GB",
                    gigabytes(example::largest_device_of(early)) + " GB"});
  }
  to.table(rows);
}

}  // namespace paper
