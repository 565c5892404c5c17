// Are layouts of public recipes better than ours under the same costs?
//
// Each recipe's layout and the cut of `plan export` are simulated with the same costs of layers, schedule and number of
// micro-batches. The first figure counts the recipes whose step is shorter than ours, the second one those whose
// busiest rank has at least a thousandth less to do.

#include "../result.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "../../examples/plan/export/exported.hpp"
#include "recipes.hpp"

namespace {

using namespace gpipe;

example::cut_list cut_of_layout(const std::vector<std::string>& stages, const example::framework_layers& model) {
  const std::string letters = "EtnmL";
  example::cut_list first{0};
  std::size_t l = 0;
  for (const std::string& stage : stages) {
    for (const char c : stage)
      if (l == model.roles.size() || letters[static_cast<std::size_t>(model.roles[l++])] != c)
        throw error("a layout does not have the model's layers", "correct the recipe");
    first.push_back(static_cast<int>(l));
  }
  if (l != model.roles.size()) throw error("a layout lacks layers of the model", "correct the recipe");
  return first;
}

/// The time of the rank that has most to do, for one micro-batch.
std::int64_t bottleneck(const example::planned& p) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(p.workers));
  for (const example::planned_stage& s : p.stages) of[static_cast<std::size_t>(s.device)] += s.forward + s.backward;
  return *std::max_element(of.begin(), of.end());
}

}  // namespace

int main() {
  int better = 0, better_bottleneck = 0;
  double gain = 1, slowest = 0;
  for (const bench::recipe& r : bench::recipes) {
    const example::framework_layers model = bench::layers_of(std::string_view(r.model));
    const example::subject it = model.planned();
    const example::choice how{.stages = r.ranks * r.chunks,
                              .micro_batches = r.micro_batches,
                              .schedule = r.chunks > 1 ? schedule_kind::interleaved : schedule_kind::one_f_one_b,
                              .chunks = r.chunks,
                              .recompute = recompute_mode::never};
    example::planner plans(it, how);
    const auto begin = std::chrono::steady_clock::now();
    const example::planned ours = example::moved_plan(it, how);
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const example::planned theirs = plans.plan_of(cut_of_layout(bench::stages_of(r.layout), model));
    better += theirs.makespan < ours.makespan;
    better_bottleneck += static_cast<double>(bottleneck(theirs)) < 0.999 * static_cast<double>(bottleneck(ours));
    const double ratio = static_cast<double>(theirs.makespan) / static_cast<double>(ours.makespan);
    gain = std::max(gain, ratio);
    std::printf("%-18s theirs %s: step %s, bottleneck %s\n%-18s ours   %s: step %s, bottleneck %s, bound %s\n", r.name,
                r.layout, example::time(theirs.makespan).c_str(), example::time(bottleneck(theirs)).c_str(), "",
                example::layout_of(model, example::cut_of(ours)).c_str(), example::time(ours.makespan).c_str(),
                example::time(bottleneck(ours)).c_str(), example::time(ours.bound).c_str());
    bench::result("export." + std::string(r.name), ratio, "ratio");
  }
  bench::result("export.better", better, "recipes");
  bench::result("export.better_bottleneck", better_bottleneck, "recipes");
  bench::result("export.gain", gain, "ratio");
  bench::result("export.seconds", slowest, "s");
}
