#pragma once

// The largest model of each family on 1, 2, 4 and 8 devices, by all configurations and by one alone.

#include "../../examples/plan/families.hpp"
#include "../measure.hpp"

#include <gpipe/core/text/quantity.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "images.hpp"

namespace bench {

/// Each family at one width. The baseline is fill-drain, recompute always, packed copies of every weight.
inline void print_largest(figures& found) {
  using example::family_kind;
  constexpr std::int64_t memory = 8_GiB;
  constexpr int max_layers = 50'000;
  std::printf(
      "The largest model on devices of 8 GiB, micro-batches of one sample, 12 bytes a parameter beside packed copies:\n"
      "fill-drain, recompute always, packed copies of every weight; and the best of all configurations\n");
  std::printf("%-16s %7s %11s %11s %6s %10s %12s %-12s %-7s %s\n", "family", "devices", "plain", "best", "ratio",
              "bytes each", "activations", "schedule", "packed", "out first");
  for (const auto& [name, kind, width] : {std::tuple{"amoebanet", family_kind::amoebanet, 1},
                                          {"resnet", family_kind::resnet, 0},
                                          {"unet", family_kind::unet, 0},
                                          {"transformer", family_kind::transformer, 0},
                                          {"gpt2", family_kind::gpt2, 1},
                                          {"encoder_decoder", family_kind::encoder_decoder, 0}}) {
    const example::family all = example::family_of(kind, network{});
    const example::family_member& of = all.members[static_cast<std::size_t>(width)];
    const plan_options o{.micro_batches = all.micro_batches, .micro_batch_size = 1, .optimizer_moments = 1};
    for (const std::size_t devices : {1U, 2U, 4U, 8U}) {
      example::largest_search search(of, o, std::vector<std::int64_t>(devices, memory));
      const int max_more = of.max_more(max_layers);
      const example::largest_model plain =
          search.find({{schedule_kind::fill_drain, recompute_mode::always, example::packed_copies::kept}}, max_more);
      const example::largest_model best = search.find(example::all_configurations(devices), max_more);
      const double ratio = static_cast<double>(best.parameters) / static_cast<double>(plain.parameters);
      std::printf("%-16s %7zu %11s %11s %6.2f %10.1f %12s %-12s %-7s device %d\n", name, devices,
                  detail::counted(plain.parameters).c_str(), detail::counted(best.parameters).c_str(), ratio,
                  static_cast<double>(best.plan.parameter_bytes()) / static_cast<double>(best.parameters),
                  detail::sized(static_cast<std::uint64_t>(best.plan.activation_bytes())).c_str(),
                  gpipe::name_of(best.with.schedule),
                  best.with.packed == example::packed_copies::shared ? "shared" : "automatic", best.next.device);
      found.push_back({std::string("memory.largest.") + name + "." + std::to_string(devices), ratio, "ratio"});
    }
  }
  std::printf("\n");
}

}  // namespace bench
