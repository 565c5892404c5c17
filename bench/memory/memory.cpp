// How much memory does a step use, by schedule and recompute mode, and torch for the same network? How large are the
// networks of images that GPipe and torchgpipe measured? How large a model of each family fits?

#include "../networks.hpp"
#include "../peer.hpp"
#include "images.hpp"
#include "largest.hpp"

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/make_plan.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace gpipe;

struct digits : model<input<float, 64>, dropout<10>, linear<64>,
                      repeat<16, residual<layer_norm, linear<256>, gelu, linear<64>, dropout<10>>>, layer_norm,
                      linear<10>, softmax_cross_entropy> {};

constexpr recompute_mode modes[] = {recompute_mode::never, recompute_mode::except_last, recompute_mode::always};

/// A line of the table. "alone": parameter gradients of one micro-batch at a time.
void add_row(std::vector<std::vector<std::string>>& rows, const network& net, const plan_options& options) {
  std::int64_t bytes[memory_kinds]{}, total = 0, largest = 0;
  for (const stage_plan& s : make_plan(net, options).stage_plans) {
    const stage_memory& m = s.memory;
    for (int k = 0; k < memory_kinds; ++k) bytes[k] += m.bytes[k];
    total += m.total();
    largest = (std::max)(largest, m.total());
  }
  const auto of = [&](std::initializer_list<memory_kind> kinds) {
    std::int64_t sum = 0;
    for (const memory_kind k : kinds) sum += bytes[static_cast<int>(k)];
    return detail::sized(static_cast<std::uint64_t>(sum));
  };
  using enum memory_kind;
  rows.push_back({name_of(options.schedule) + std::string(options.group_gradients == 1 ? ", alone" : ""),
                  std::to_string(options.stages), name_of(options.recompute),
                  of({parameters, gradients, moments, derived}), of({stash, returned}), of({kept, held, transient}),
                  detail::sized(static_cast<std::uint64_t>(total)),
                  detail::sized(static_cast<std::uint64_t>(largest))});
}

void print_table(const std::string& name, const network& net, int M, int B,
                 const std::map<std::string, double>& torch) {
  std::printf("%s, %d micro-batches of %d, Adam: bytes of all stages, and of the largest\n", name.c_str(), M, B);
  std::vector<std::vector<std::string>> rows{
      {"schedule", "stages", "recompute", "parameters, Adam", "between stages", "activations", "all", "largest stage"}};
  add_row(rows, net,
          {.micro_batches = M, .micro_batch_size = B, .recompute = recompute_mode::never, .group_gradients = 1});
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b})
    for (const recompute_mode mode : modes)
      add_row(rows, net, {.micro_batches = M, .micro_batch_size = B, .recompute = mode, .schedule = schedule});
  for (const schedule_kind schedule : schedule_kinds)
    for (const recompute_mode mode : modes)
      if (schedule != schedule_kind::forward_only)
        add_row(rows, net,
                {.stages = 4, .micro_batches = M, .micro_batch_size = B, .recompute = mode, .schedule = schedule});
  std::fputs(detail::table(rows).c_str(), stdout);
  for (const char* what : {"plain", "recompute"})
    if (const auto found = torch.find(name + "." + what + ".whole_batch"); found != torch.end()) {
      std::printf("torch, %s: whole batch %s, in micro-batches %s\n", what,
                  detail::sized(static_cast<std::uint64_t>(found->second)).c_str(),
                  detail::sized(static_cast<std::uint64_t>(torch.at(name + "." + what + ".micro_batches"))).c_str());
    }
  std::printf("\n");
}

}  // namespace

int main() {
  bench::print_environment();
  const auto torch = bench::peer("torch/peak_memory.py");
  if (torch.empty()) std::printf("torch is not installed: gpipe alone\n\n");
  print_table("mlp", network_of<bench::mlp>, 32, 32, torch);
  print_table("digits", network_of<digits>, 8, 8, torch);
  bench::figures of_images = bench::print_images();
  bench::print_largest(of_images);
  // One stage that runs backward right after forward, as torch does in micro-batches.
  for (const auto& [name, net, M, B] :
       {std::tuple{"mlp", &network_of<bench::mlp>, 32, 32}, {"digits", &network_of<digits>, 8, 8}}) {
    const stage_memory m =
        make_plan(*net, {.micro_batches = M, .micro_batch_size = B, .schedule = schedule_kind::one_f_one_b}).memory(0);
    const auto packed = static_cast<double>(m.of(memory_kind::derived)), ours = static_cast<double>(m.total());
    const std::string of = std::string("memory.") + name;
    bench::result(of, ours, "bytes");
    bench::result(of + ".packed_weights", packed, "bytes");
    for (const char* way : {"plain.whole_batch", "plain.micro_batches", "recompute.whole_batch"})
      if (!torch.empty())
        bench::result(of + ".over_torch." + way, ours / torch.at(std::string(name) + "." + way), "ratio");
  }
  for (const bench::figure& f : of_images) bench::result(f.name, f.value, f.unit);
}
