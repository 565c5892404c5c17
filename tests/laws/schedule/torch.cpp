// sanitizers: none

// Our tables are PyTorch's: the same cells in the same order on every worker. The hashes are printed by
// bench/schedules/torch_tables.py, which says how they are made.

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <gpipe/plan/schedule/contract/label.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct hashed {
  schedule_kind kind;
  int workers, chunks, tables;
  std::uint64_t hash;
};

// clang-format off
constexpr hashed torch_tables[] = {
// PyTorch 2.15.0+cu132: kind, K, V, the number of tables, their hash.
    {schedule_kind::zb_h1, 1, 1, 16, 0x6a5e94acc3212231},
    {schedule_kind::zb_h1, 2, 1, 9, 0xbb3063b0284406c7},
    {schedule_kind::zb_h1, 3, 1, 8, 0x8331049478916327},
    {schedule_kind::zb_h1, 4, 1, 9, 0x15c67930ed6da3f8},
    {schedule_kind::zb_h1, 5, 1, 9, 0xb8b38798e5034531},
    {schedule_kind::zb_h1, 6, 1, 9, 0x4825cc4023896f6a},
    {schedule_kind::zb_h1, 7, 1, 9, 0x6031bb7ebad213bf},
    {schedule_kind::zb_h1, 8, 1, 9, 0x3c08a93eb2626a4e},
    {schedule_kind::interleaved_zb, 1, 2, 16, 0x4b9b2b7db744d198},
    {schedule_kind::interleaved_zb, 2, 2, 9, 0xa49b7b7f52b2b304},
    {schedule_kind::interleaved_zb, 3, 2, 8, 0x579654085adedf91},
    {schedule_kind::interleaved_zb, 4, 2, 9, 0x4b8b6cd9198321e0},
    {schedule_kind::interleaved_zb, 1, 3, 16, 0x2a760d2b532e0459},
    {schedule_kind::interleaved_zb, 2, 3, 9, 0xae5d669c88a1e31b},
    {schedule_kind::zb_v, 1, 2, 16, 0x4b9b2b7db744d198},
    {schedule_kind::zb_v, 2, 2, 15, 0x7f79502999395865},
    {schedule_kind::zb_v, 3, 2, 14, 0x160e098bedcac162},
    {schedule_kind::zb_v, 4, 2, 13, 0xa5a97824cc56a496},
    {schedule_kind::dual_pipe_v, 1, 2, 15, 0xfd7bc7d4a9301395},
    {schedule_kind::dual_pipe_v, 2, 2, 13, 0x9d67755406f19f08},
    {schedule_kind::dual_pipe_v, 3, 2, 11, 0xcf1961aa98579c1f},
    {schedule_kind::dual_pipe_v, 4, 2, 9, 0x433c74815ef89248},
    {schedule_kind::interleaved, 1, 2, 16, 0x0331b15f367c9380},
    {schedule_kind::interleaved, 2, 2, 9, 0x053ed257f9645f18},
    {schedule_kind::interleaved, 3, 2, 8, 0xbd3c35d97f3f022b},
    {schedule_kind::interleaved, 4, 2, 9, 0x2afca85fd6cbee12},
    {schedule_kind::interleaved, 1, 3, 16, 0x0443b7ee853e8308},
    {schedule_kind::interleaved, 2, 3, 9, 0x97785d4a25042efa},
    {schedule_kind::looped_bfs, 1, 2, 16, 0x55122f08e41abb22},
    {schedule_kind::looped_bfs, 2, 2, 15, 0x94531e401f923011},
    {schedule_kind::looped_bfs, 3, 2, 14, 0x95edc6eebec5d4f7},
    {schedule_kind::looped_bfs, 4, 2, 13, 0xeb98e6e8f6e2729a},
    {schedule_kind::looped_bfs, 1, 3, 16, 0xf148d25a64d26e52},
    {schedule_kind::looped_bfs, 2, 3, 15, 0x079b8400e46adc03},
};
// clang-format on

/// "M", and a line of cells for each worker.
std::string text_of(const schedule_choice& schedule, int S, int M) {
  std::string text = std::to_string(M) + "\n";
  for (int w = 0; w < schedule.workers(S); ++w) {
    bool first = true;
    for (int t = 0; t < schedule.ticks(S, M); ++t)
      if (const cell c = schedule.at(S, M, w, t); c.kind != action_kind::idle) {
        if (!first) text += ',';
        text += label_of(c, true).text();
        first = false;
      }
    text += '\n';
  }
  return text;
}

std::uint64_t fnv(const std::string& text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

TEST_CASE("the tables are those of PyTorch") {
  for (const hashed& torch : torch_tables) {
    const bool interleaves = torch.kind == schedule_kind::interleaved;
    const schedule_choice schedule = interleaves ? schedule_choice(interleaved{torch.chunks, warmup_kind::longest})
                                                 : schedule_choice(torch.kind, torch.chunks);
    const int S = torch.workers * torch.chunks;
    CAPTURE(schedule.name());
    CAPTURE(S);
    std::uint64_t hash = 0xcbf29ce484222325u;
    int tables = 0;
    for (int M = torch.workers; M <= 16; ++M) {
      // PyTorch refuses DualPipeV with fewer micro-batches than stages, and ZB-H1 where interleaved-ZB is refused.
      if (torch.kind == schedule_kind::dual_pipe_v && M < S) continue;
      if (torch.kind == schedule_kind::zb_h1 && !interleaved_zb{1}.admits(S, M)) continue;
      if (!schedule.admits(S, M)) continue;
      hash = fnv(text_of(schedule, S, M), hash);
      ++tables;
    }
    CHECK(tables == torch.tables);
    CHECK(hash == torch.hash);
  }
}
