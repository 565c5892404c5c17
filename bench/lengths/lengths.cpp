// One training of plans for 16, 32 and 64 tokens: how much faster is it than padding all sentences to 64?
//
//     lengths [rounds [stages]]

#include "../../examples/translate/model.hpp"
#include "../measure.hpp"

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string>
#include <vector>

namespace {

using namespace gpipe;

constexpr int longest = 64, sentences = 1024, in_batch = 32;

using example::all_pieces;
template <int Tokens>
using net = example::by_pieces<Tokens>;

double uniform_number(std::uint32_t i, std::uint32_t j) { return (draw({}, i, j).word[0] + 0.5) * 0x1p-32; }

/// Sentence pairs as long as those that Debian's packages hold (1,031,168 pairs of program messages and prose): of 4
/// words or more, half of them with at most 7; 53 bytes of English and 75 of the source on average, 4 bytes a piece. A
/// log-normal distribution of the words has these numbers.
struct corpus {
  std::vector<std::int32_t> inputs, targets, labels, lengths;
  std::vector<int> positions;  ///< of the longer side
  dataset data;
  double tokens = 0;  ///< of both sides, without padding

  corpus() {
    double source_bytes = 0, english_bytes = 0;
    std::vector<double> words;
    for (std::uint32_t s = 0; s < sentences; ++s) {
      const double normal =
          std::sqrt(-2 * std::log(uniform_number(s, 0))) * std::cos(2 * std::numbers::pi * uniform_number(s, 1));
      words.push_back(std::max(4.0, std::round(7 * std::exp(0.7 * normal))));
      const double english = words.back() * 5.9, source = english * 75 / 53 * (0.8 + 0.4 * uniform_number(s, 2));
      english_bytes += english, source_bytes += source;
      const auto in_pieces = [](double bytes) { return std::clamp(static_cast<int>(bytes / 4) + 1, 2, longest); };
      const int own = in_pieces(source), right = in_pieces(english);
      lengths.push_back(own);
      positions.push_back(std::max(own, right));
      tokens += own + right;
      for (int t = 0; t < longest; ++t) {
        const auto piece = [&](std::uint32_t j) {
          return static_cast<std::int32_t>(3 + draw({}, 8 * s + j, static_cast<std::uint32_t>(t)).word[0] %
                                                   (all_pieces - 3));
        };
        inputs.push_back(t < own ? piece(0) : 0);
        targets.push_back(t < right ? piece(1) : 0);
        labels.push_back(t < right ? piece(2) : -100);
      }
    }
    data.with("inputs", longest, inputs)
        .with("targets", longest, targets)
        .with("labels", longest, labels)
        .with("lengths", 1, lengths);
    std::printf("%d pairs: median %.0f words, %.0f bytes of English and %.0f of the source on average\n", sentences,
                bench::median(words), english_bytes / sentences, source_bytes / sentences);
  }
};

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 7, stages = count > 2 ? std::atoi(arguments[2]) : 2;
  bench::print_environment();
  const corpus from;
  const plan_options plan{.stages = stages, .micro_batches = 4, .micro_batch_size = in_batch / 4};
  trainer<lengths<net, 16, 32, longest>, adamw> training(plan, adamw{});
  trainer<net<longest>, adamw> padded(plan, adamw{});
  const batches_by_length sorted(from.data, from.positions,
                                 {.lengths = {16, 32, longest}, .tokens = in_batch * longest});
  std::printf("%ld batches of %d tokens with padding: %d of 16, %d of 32, %d of 64; padded to 64 %d batches\n",
              sorted.own().count, in_batch * longest, sorted.batches_of(16), sorted.batches_of(32),
              sorted.batches_of(longest), sentences / in_batch);
  std::int64_t ours = 0, theirs = 0;
  for (int s = 0; s < stages; ++s) ours += training.plan().memory(s).total(), theirs += padded.plan().memory(s).total();
  std::printf("memory of all stages: %.1f MiB, padded %.1f MiB\n\n", static_cast<double>(ours) / (1 << 20),
              static_cast<double>(theirs) / (1 << 20));

  std::vector<double> by_length, all_padded, ratios;
  std::printf("round   tokens/s   padded\n");
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const fit_options how{.batch = in_batch, .seed = static_cast<std::uint64_t>(round + 1)};
    const double a = bench::timed([&] { fit(training, sorted, how); });
    const double b = bench::timed([&] { fit(padded, from.data, how); });
    if (round < 0) continue;
    by_length.push_back(from.tokens / a), all_padded.push_back(from.tokens / b), ratios.push_back(b / a);
    std::printf("%5d  %9.0f  %7.0f\n", round, by_length.back(), all_padded.back());
  }
  std::printf("\n");
  bench::result("lengths.tokens", bench::median(by_length), "1/s");
  bench::result("lengths.over_padded", bench::median(ratios), "ratio");
}
