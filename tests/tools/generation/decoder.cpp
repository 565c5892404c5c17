#include <gpipe/tools/generation/decoder.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <gpipe.hpp>

using namespace gpipe;

namespace {

constexpr int width = 128, vocabulary = 300;
struct wide : model<input<std::int32_t, 12>, embedding<vocabulary, width>, learned_positions<12>,
                    residual<layer_norm, causal_attention<4>>, residual<layer_norm, linear<384>, gelu, linear<width>>,
                    layer_norm, linear<vocabulary>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("each thread takes its part, and run returns behind the last") {
  detail::product_threads threads(3);
  struct {
    std::atomic<int> parts[3]{};
    std::thread::id last{};
  } seen;
  for (int i = 1; i <= 100; ++i) {
    threads.run(
        [](const void* of, int part) {
          auto* all = static_cast<decltype(seen)*>(const_cast<void*>(of));
          ++all->parts[part];
          if (part == 2) all->last = std::this_thread::get_id();
        },
        &seen);
    for (const auto& part : seen.parts) CHECK(part == i);
  }
  CHECK(seen.last != std::this_thread::get_id());
}

TEST_CASE("products are shared in a scope, by its thread alone") {
  detail::product_threads threads(2);
  {
    const detail::shared_products sharing(&threads);
    CHECK(host::sharing_of_thread == &threads);
    std::thread([] { CHECK(host::sharing_of_thread == nullptr); }).join();
  }
  CHECK(host::sharing_of_thread == nullptr);
}

TEST_CASE("tokens do not depend on the number of threads") {
  trainer<wide, sgd> training({.micro_batches = 1, .micro_batch_size = 1}, sgd{}, {.seed = 3});
  generator<wide> from(training);
  const std::vector<std::int32_t> prompt{5, 17, 211};
  const auto alone = from.generate(prompt, {.tokens = 9, .temperature = 1, .threads = 1});
  const auto beams = from.beam_search(prompt, {.tokens = 4, .beams = 3, .threads = 1});
  for (const int threads : {2, 3, 5}) {
    CAPTURE(threads);
    CHECK(from.generate(prompt, {.tokens = 9, .temperature = 1, .threads = threads}) == alone);
    const auto found = from.beam_search(prompt, {.tokens = 4, .beams = 3, .threads = threads});
    REQUIRE(found.size() == beams.size());
    for (std::size_t i = 0; i < beams.size(); ++i) {
      CHECK(found[i].tokens == beams[i].tokens);
      CHECK(found[i].log_probability == beams[i].log_probability);
    }
  }
  CHECK_THROWS_WITH_AS(from.generate(prompt, {.tokens = 1, .threads = -1}),
                       doctest::Contains("threads is -1; choose 0 or more"), error);
}
