// Does a head in slices balance stages that no cut balances with a whole one? How much memory does it save, and what
// does it cost in one stage?
//
//     head [rounds]

#include "../emulation.hpp"
#include "../measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace gpipe;

constexpr int words = 50'257, tokens = 1024;

/// GPT-2 with 124 million parameters in its blocks and its embedding, and a head of its own.
template <class... Cut>
struct gpt2_124m : model<input<std::int32_t, tokens>, embedding<words, 768>, repeat<12, gpt2_block<768, 12, 12>>,
                         layer_norm, token_head<words, no_bias, Cut...>> {};

step_plan plan_of(const network& net, int stages) {
  return make_plan(net, {.stages = stages,
                         .micro_batches = 4 * stages,
                         .micro_batch_size = 1,
                         .recompute = recompute_mode::never,
                         .schedule = schedule_kind::one_f_one_b});
}

/// The slowest stage over the mean, in floating-point operations.
double imbalance(const network& net, int stages) {
  const step_plan plan = plan_of(net, stages);
  double all = 0, most = 0;
  for (int s = 0; s < stages; ++s) {
    double stage = 0;
    for (int l = plan.cut().first[s]; l < plan.cut().first[s + 1]; ++l) {
      const work& w = net.type_of(l).cost;
      stage += static_cast<double>(w.forward + w.backward_input + w.backward_parameters);
    }
    all += stage;
    most = (std::max)(most, stage);
  }
  return most * stages / all;
}

struct step_seconds {
  double predicted, measured;
};
/// A step on eight emulated devices: each sleeps for this part of the time that the plan predicts for its stage.
step_seconds emulated_step(const network& net, double part, int steps) {
  const step_plan plan = plan_of(net, bench::max_devices);
  bench::timed_pipeline devices{.micro_batches = plan.options.micro_batches, .recompute = recompute_mode::never};
  devices.links.resize(bench::max_devices - 1);
  for (int s = 0; s < plan.stages(); ++s) {
    const auto its = detail::times_of(plan.costs().of(s), plan.cut().first[s], plan.cut().first[s + 1], false);
    const auto nanoseconds = [part](std::int64_t ps) {
      return static_cast<std::int64_t>(1e-3 * part * static_cast<double>(ps));
    };
    devices.stages.push_back({nanoseconds(its.forward), nanoseconds(its.backward_input + its.backward_parameters), 0});
  }
  return {1e-9 * static_cast<double>(bench::simulated(devices)),
          1e-9 * bench::measured<bench::max_devices>(devices, steps)};
}

/// The bytes that the head's layers keep for backward or use in it, of 4 samples: extras, workspaces, and the values
/// between them. Its input is the layer's before it.
double bytes_of_head(const network& net) {
  std::size_t sum = 0, workspace = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    const auto& type = net.type_of(l);
    if (!type.name.starts_with("token_head") && !type.name.starts_with("vocabulary_slice") &&
        !type.name.starts_with("carried_cross_entropy"))
      continue;
    sum += type.extra_bytes(4);
    workspace = (std::max)(workspace, type.workspace_bytes(4));
    for (int o = 0; o < type.outputs; ++o) sum += 2 * type.out[o].bytes(4);  // with its gradient
  }
  return static_cast<double>(sum + workspace);
}

/// A head alone, so that nothing else takes time.
template <class... Cut>
struct head_alone
    : model<input<std::int32_t, 128>, embedding<words, 256>, layer_norm, token_head<words, no_bias, Cut...>> {};

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 7;
  bench::print_environment();
  std::printf("GPT-2, 1F1B: the slowest stage over the mean\nstages  whole head  4 slices  16 slices\n");
  const network &whole = network_of<gpt2_124m<>>, &four = network_of<gpt2_124m<slices<4>>>,
                &sixteen = network_of<gpt2_124m<slices<16>>>;
  for (const int S : {2, 4, 8, 12})
    std::printf("%6d  %10.3f  %8.3f  %9.3f\n", S, imbalance(whole, S), imbalance(four, S), imbalance(sixteen, S));
  const step_seconds kept_whole = emulated_step(whole, 0.01, 3), sliced = emulated_step(sixteen, 0.01, 3);
  std::printf(
      "\na step on 8 emulated devices, 32 micro-batches: whole head %.0f ms, predicted %.0f; 16 slices %.0f, %.0f\n",
      1e3 * kept_whole.measured, 1e3 * kept_whole.predicted, 1e3 * sliced.measured, 1e3 * sliced.predicted);
  const double before = bytes_of_head(whole), after = bytes_of_head(sixteen);
  std::printf("\nbytes of the head's activations, 4 x 1024 tokens: %s whole, %s in 16 slices\n",
              detail::sized(static_cast<std::uint64_t>(before)).c_str(),
              detail::sized(static_cast<std::uint64_t>(after)).c_str());

  constexpr int M = 2, B = 4;
  std::vector<std::int32_t> inputs, labels;
  for (int i = 0; i < M * B * 128; ++i) inputs.push_back(i * 37 % words), labels.push_back(i * 53 % words);
  const batch on = batch(M * B).with("inputs", inputs).with("labels", labels);
  const auto options = [](recompute_mode mode) {
    return plan_options{
        .micro_batches = M, .micro_batch_size = B, .recompute = mode, .schedule = schedule_kind::one_f_one_b};
  };
  trainer<head_alone<>, sgd> again(options(recompute_mode::always), sgd{}), kept(options(recompute_mode::never), sgd{});
  trainer<head_alone<slices<16>>, sgd> cut(options(recompute_mode::never), sgd{});
  std::vector<double> with_recompute, without, in_slices, ratios;
  again.step(on), kept.step(on), cut.step(on);
  for (int i = 0; i < rounds; ++i) {
    with_recompute.push_back(bench::timed([&] { again.step(on); }));
    in_slices.push_back(bench::timed([&] { cut.step(on); }));
    without.push_back(bench::timed([&] { kept.step(on); }));
    ratios.push_back(in_slices.back() / with_recompute.back());
  }
  std::printf("\none stage, width 256, %d tokens: whole head %.0f ms, with recompute %.0f ms, 16 slices %.0f ms\n\n",
              M * B * 128, 1e3 * bench::median(without), 1e3 * bench::median(with_recompute),
              1e3 * bench::median(in_slices));
  bench::result("head.balance.gpt2_124m.8", imbalance(sixteen, 8), "ratio");
  bench::result("head.balance.gpt2_124m.8.whole", imbalance(whole, 8), "ratio");
  bench::result("head.step.gpt2_124m.8", kept_whole.measured / sliced.measured, "ratio");
  bench::result("head.memory", after / before, "ratio");
  bench::result("head.one_stage", bench::median(ratios), "ratio");
}
