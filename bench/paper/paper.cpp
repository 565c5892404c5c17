// Every table and drawing of the GPipe paper, made again: predictions of the plan and measurements
// of emulated devices, with the paper's numbers. Writes README.md and two drawings into this folder.

#include "sizes.hpp"
#include "throughput.hpp"

#include <cstdio>
#include <string>

namespace {

using namespace paper;

constexpr int steps = 5;

/// Data cross the host's memory on their way between two P100 without fast links: PCIe 3.0 x16, 16 GB/s, twice.
constexpr gpipe::device_spec slow_p100 = [] {
  gpipe::device_spec d = gpipe::p100;
  d.name = "P100 PCIe";
  d.link_bytes_per_second = 8'000'000'000;
  return d;
}();

void add_sizes(page& to) {
  to.heading("Maximum model size (table 1)");
  to.add(
      R"(
AmoebaNet-D (L, D), images of 224 x 224, a mini-batch of 128 in 128 micro-batches, all recomputed; 12 bytes per
parameter (value, gradient, one moment), and here 8 more of packed copies. Activations are those of all devices, in GB;
torchgpipe's (Kim et al., 2020) are converted from GiB. The cut is the one whose largest device is smallest.)");
  add_amoebanets(to);
  to.add(
      R"(
The first row is a run without a pipeline there. The decoder-only Transformer: width 2048, 32 heads, 32,000 words,
1024 tokens, a mini-batch of 32 in 32 micro-batches, all recomputed. The paper prints the memory of its first row in the
wrong cells.)");
  add_transformers(to);
  to.heading("The baseline of 25x, 2.7x and 298x");
  to.add(
      R"(
The paper's ratios are over one device that keeps all activations and runs the mini-batch at once. Here is what that
needs, and what one device fits when it runs micro-batches and recomputes.)");
  add_baseline(to);
  to.add(
      R"(
- **298x**: 83,876.9 million parameters over 282.2 million are 297.2.
- **25x**: AmoebaNet-D (72, 512) on 8 devices has 1,844.9 million parameters, and (18, 208) 81.5: 22.6. The paper does
  not say what its 25 counts.
- **2.7x**: 785.8 million over 282.2 are 2.8, for one device and the Transformer. AmoebaNet-D gains 3.9 on one device.
- A mini-batch of 128 at once needs 34 GB here for (18, 208), of which the paper gives 6.26 GB to activations: its
  baseline must have run smaller batches, or freed more.)");
}

void add_unnamed(page& to) {
  to.heading("Networks that the paper names without a table");
  to.add(
      R"(
Devices of 16 GB, all recomputed, fill-drain. The accuracies of the paper are all of AmoebaNet-B (18, 512), of which it
prints 557 million parameters; the cells of Google's code give 560. Its small form trains in a test.)");
  add_unlisted(to);
  to.add(
      R"(
The paper's batches of 260 thousand, 1 and 4 million words, on 16 devices: the bubble goes, and fill-drain keeps the
inputs of all micro-batches. 1F1B keeps 16 at most.)");
  add_batches(to);
}

void add_formulas(page& to) {
  to.heading("Three formulas that circulate");
  to.table({{"formula", "where it goes wrong", "right", "at K = 2, M = 4", "at K = 8, M = 32"},
            {"efficiency M K / (M K + K - 1)", "it counts the fill in ticks of one micro-batch on all devices",
             "M / (M + K - 1)", percent(4.0 / 5) + ", not " + percent(8.0 / 9),
             percent(32.0 / 39) + ", not " + percent(256.0 / 263)},
            {"no bubble at M >= 4 K", "\"negligible\" in the paper, with overlap of recompute", "(K - 1) / (M + K - 1)",
             percent(1.0 / 5) + " at M = 4, " + percent(1.0 / 9) + " at M = 8", percent(7.0 / 39)},
            {"activations O(N / K)", "it leaves out the inputs of all micro-batches", "O(N + L / K x N / M) per device",
             "", ""}});
}

}  // namespace

int main() {
  bench::print_environment();
  page to;
  double worst = 0;
  to.add(R"(
# The GPipe paper's tables, reproduced

Huang et al., "GPipe: Efficient training of giant neural networks using pipeline parallelism", 2019, arXiv 1811.06965.
This page is made by one command, which also measures:

    bash bench/run paper

K is the number of devices, M that of micro-batches. A predicted step is the simulator's makespan for the best cut, by
data sheets of the devices. A measured step is a training of the library on emulated devices: threads that sleep as long
as a stage or a transfer takes. "GPipe" is what the paper prints.)");
  add_sizes(to);

  to.heading("Speedup of more devices (table 2)");
  to.add(
      R"(
Cores of a TPU v3, fill-drain, all recomputed; one mini-batch for all rows: 128 images, 32 texts. Gains are over K = 2
and M = 1. Why they differ from the paper's: [sweep](../sweep/README.md).)");
  for (const printed_network& of : printed_networks()) {
    to.add(std::string("**") + of.name + "**");
    add_throughput(to, of, gpipe::tpu_v3_core, false, steps, worst);
  }
  to.heading("Without fast links");
  to.add(R"(
P100 whose transfers cross the host's memory, 8 GB/s. The paper prints M = 32, over K = 2.)");
  for (const printed_network& of : printed_networks()) {
    to.add(std::string("**") + of.name + "**");
    add_throughput(to, of, slow_p100, true, steps, worst);
  }

  to.heading("Components of a step");
  to.add(
      R"(
M = 32, TPU v3, predicted. Each cause is what it adds to the step after those to its left. The paper measures
recompute up to 23 %, and an imbalance of 3.2 % at K = 2, both of AmoebaNet-D; recompute that starts before its gradient
arrives hides part of itself in the bubble.)");
  add_breakdowns(to, gpipe::tpu_v3_core);

  to.heading("Sequential and pipelined");
  const std::string folder = std::string(BENCH_ROOT) + "/bench/paper/";
  if (!draw(folder + "naive.svg", "four devices, M = 1: one works at a time", 1) ||
      !draw(folder + "pipelined.svg", "four devices, M = 8: the same work", 8)) {
    std::fprintf(stderr, "paper: the drawings cannot be written into %s\n", folder.c_str());
    return 1;
  }
  to.add(R"(
![one after the other](naive.svg)

![as a pipeline](pipelined.svg)

The same mini-batch on four devices, without recompute: 288 ms in one piece, 99 ms in eight.)");
  add_unnamed(to);
  add_formulas(to);
  to.heading("Quality");
  to.add(
      R"(
The quality of larger models, and of other images, is measured in [accuracy](../accuracy/README.md), against torch, and
in [transfer](../transfer/README.md), the question of the paper's table 3. Translation of many languages by one model,
its quality over capacity, depth and batch: [translate](../translate/README.md).)");
  if (!to.write(folder + "README.md")) {
    std::fprintf(stderr, "paper: %sREADME.md cannot be written\n", folder.c_str());
    return 1;
  }
  std::printf("\n");
  bench::result("paper.worst", worst, "ratio");
}
