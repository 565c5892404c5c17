// An encoder and a decoder train as layers of PyTorch's Transformer do: tests/support/reference/encoder_decoder.py says
// what is trained.

#include <gpipe/model/encoder_decoder.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/reference/encoder_decoder.hpp"
#include "support/trained_like_torch.hpp"

using namespace gpipe;
namespace known = reference::encoder_decoder;

namespace {

template <class T>
using net = encoder_decoder<known::layers, known::hidden, known::heads,
                            encoder_decoder_options{.source_tokens = known::source,
                                                    .target_tokens = known::target,
                                                    .vocabulary = known::vocabulary,
                                                    .width = known::width,
                                                    .head_width = known::width / known::heads},
                            T>;

/// count numbers of the formula.
template <class F>
std::vector<std::int32_t> numbers(int count, F f) {
  std::vector<std::int32_t> found;
  for (int i = 0; i < count; ++i) found.push_back(f(i));
  return found;
}

template <class T>
void trains_like_torch(const plan_options& plan) {
  constexpr double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-9;
  trainer<net<T>, sgd> training{plan, sgd{.learning_rate = known::rate, .momentum = known::momentum}};
  std::size_t k = 0;
  for (auto& p : training.parameters()) {
    const bool shared = p.path == "target_words.weight";  // the encoder's words
    p.set(laws::first_values_of<T>(p.extents, p.name, shared ? 0 : k));
    if (!shared) ++k;
  }
  REQUIRE(k == std::size(known::products));

  constexpr int words = known::samples * known::source, targets = known::samples * known::target;
  const auto inputs = numbers(words, [](int i) { return i * i % known::vocabulary; });
  const auto lengths = numbers(known::samples, [](int i) { return known::lengths[i]; });
  const auto before = numbers(targets, [](int i) { return (i * 5 + 3) % known::vocabulary; });
  const auto labels = numbers(targets, [](int i) { return i % 7 == 4 ? -100 : i * 3 % known::vocabulary; });
  batch all(known::samples);
  all.with("inputs", inputs).with("lengths", lengths).with("targets", before).with("labels", labels);
  for (const double want : known::losses) CHECK(std::fabs(training.step(all).loss - want) < tolerance);

  k = 0;
  for (const auto& p : training.parameters())
    if (p.path != "target_words.weight") {
      CAPTURE(p.path);
      CHECK(laws::distance_of_product(p.template values<T>(), known::products[k++]) < tolerance);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("three steps are those of torch.nn.TransformerEncoderLayer and TransformerDecoderLayer", T, double,
                   float) {
  for (const int stages : {1, 3})
    trains_like_torch<T>({.stages = stages, .micro_batches = 2, .micro_batch_size = known::samples / 2});
}
