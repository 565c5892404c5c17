// How good is the choice of a configuration, how sure, and how long does it take? Is its step as predicted?

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/tools/best/find_best.hpp>

#include "../../examples/plan/families.hpp"
#include "../../examples/plan/stretched.hpp"
#include "../result.hpp"
#include "predicted.hpp"

using namespace gpipe;
using example::family_kind;

namespace {

struct mlp_block : residual<layer_norm, linear<4096>, gelu, linear<1024>> {};
struct mlp : model<input<float, 1024>, repeat<16, mlp_block>, layer_norm, linear<10>, softmax_cross_entropy> {};

struct subject {
  const char* name;
  family_kind kind;
  std::size_t width;
  int depth;  ///< 0: as compiled
};
constexpr subject subjects[] = {{"mlp 16", family_kind::own, 0, 0},
                                {"gpt2 768 x 12", family_kind::gpt2, 0, 12},
                                {"gpt2 1600 x 12", family_kind::gpt2, 1, 12},
                                {"gpt2 1600 x 48", family_kind::gpt2, 1, 48},
                                {"transformer 2048 x 6", family_kind::transformer, 0, 6},
                                {"transformer 2048 x 24", family_kind::transformer, 0, 24},
                                {"translation 8192 x 6", family_kind::encoder_decoder, 0, 6},
                                {"resnet 50", family_kind::resnet, 0, 50},
                                {"resnet 101", family_kind::resnet, 0, 101},
                                {"unet 64", family_kind::unet, 0, 0},
                                {"unet 128", family_kind::unet, 1, 0},
                                {"amoebanet 208", family_kind::amoebanet, 0, 0}};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::optional<best_plan> found(const network& net, const plan_space& space, const plan_options& rest) {
  try {
    return find_best(net, space, rest);
  } catch (const error&) {
    return {};
  }
}

/// The bytes of a plan's largest device.
std::int64_t largest_device(const network& net, const best_plan& best) {
  const step_plan p = make_plan(net, best.options, best.cut);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(p.workers()));
  for (int s = 0; s < p.stages(); ++s) bytes[static_cast<std::size_t>(p.worker_of(s))] += p.memory(s).total();
  return *std::max_element(bytes.begin(), bytes.end());
}

struct figures {
  std::vector<double> gaps, over_1f1b, over_newcomer;
  double seconds = 0;

  static double geometric_mean(const std::vector<double>& of) {
    double sum = 0;
    for (const double value : of) sum += std::log(value);
    return std::exp(sum / static_cast<double>(of.size()));
  }
  static double share_of_at_least(const std::vector<double>& of, double value) {
    return static_cast<double>(std::count_if(of.begin(), of.end(), [&](double it) { return it >= value; })) /
           static_cast<double>(of.size());
  }
};

/// A newcomer's plan has as many stages as devices, four micro-batches each, fill-drain, and recompute but for the
/// last.
void measure(const char* name, const network& net, int batch, int devices, figures& all) {
  plan_options rest{.recompute = recompute_mode::except_last, .device = a100_80gb};
  plan_space fixed{.devices = devices, .batch = std::max(batch, 4 * devices), .replicas = 1, .workers = devices};
  fixed.micro_batches = 4 * devices;
  fixed.schedule = schedule_kind::fill_drain;
  const std::optional<best_plan> newcomer = found(net, fixed, rest);
  if (!newcomer) return;
  const std::int64_t needed = largest_device(net, *newcomer);
  rest.recompute = recompute_mode::as_needed;
  for (const int times : {1, 2, 4}) {
    rest.memory_limit = times * needed;
    const double begin = now();
    const std::optional<best_plan> best = found(net, {.devices = devices, .batch = fixed.batch}, rest);
    const double seconds = now() - begin;
    if (!best) {
      std::printf("%-22s %d devices, %d x: none\n", name, devices, times);
      continue;
    }
    fixed.schedule = schedule_kind::one_f_one_b;
    const std::optional<best_plan> usual = found(net, fixed, rest);
    const auto over = [&](const best_plan& other) {
      return static_cast<double>(other.step) / static_cast<double>(best->step);
    };
    all.seconds = std::max(all.seconds, seconds);
    all.gaps.push_back(best->gap());
    all.over_newcomer.push_back(over(*newcomer));
    if (usual) all.over_1f1b.push_back(over(*usual));
    const plan_candidate& it = best->winner;
    std::printf(
        "%-22s %d devices of %7.0f MB: %d x %d %-14s %3d x %-3d gap %5.1f %%, newcomer %.2f, 1F1B %.2f, %.2f s\n", name,
        devices, static_cast<double>(rest.memory_limit) / 1e6, it.replicas, it.workers, name_of(it.schedule),
        it.micro_batches, it.micro_batch_size, 100 * best->gap(), over(*newcomer), usual ? over(*usual) : 0, seconds);
  }
}

}  // namespace

int main() {
  bench::print_environment();
  bench::result("best.predicted", bench::worst_prediction(9), "ratio");
  figures all;
  for (const subject& it : subjects) {
    const example::family family = example::family_of(it.kind, network_of<mlp>);
    const example::family_member& of = family.members[it.width];
    const int more = it.depth == 0 ? 0 : (it.depth - of.depth) / of.step;
    const example::stretched made(*of.net, of.parts, more);
    for (const int devices : {2, 4, 8}) measure(it.name, made.net(), family.micro_batches, devices, all);
  }
  std::sort(all.gaps.begin(), all.gaps.end());
  bench::result("best.gap.90", all.gaps[all.gaps.size() * 9 / 10] * 100, "%");
  bench::result("best.gap.median", all.gaps[all.gaps.size() / 2] * 100, "%");
  bench::result("best.gap.worst", all.gaps.back() * 100, "%");
  bench::result("best.over_1f1b", figures::geometric_mean(all.over_1f1b), "ratio");
  bench::result("best.over_newcomer", figures::geometric_mean(all.over_newcomer), "ratio");
  bench::result("best.over_newcomer.at_least_1.2", figures::share_of_at_least(all.over_newcomer, 1.2), "ratio");
  bench::result("best.seconds", all.seconds, "s");
}
