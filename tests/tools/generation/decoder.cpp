#include <gpipe/tools/generation/decoder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/job.hpp>
#include <gpipe/model/encoder_decoder.hpp>

#include "support/temporary_folder.hpp"
#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace std::chrono_literals;

namespace {

constexpr int tokens = 16, vocabulary = 13, width = 16;

struct block
    : sequence<residual<layer_norm, causal_attention<2>>, residual<layer_norm, linear<24>, gelu, linear<width>>> {};
/// The outer skip goes over several stages.
struct skipping : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<tokens>,
                        residual<repeat<4, block>>, layer_norm, linear<vocabulary>, softmax_cross_entropy> {};
/// The last stage reads the weight of the first one, and its loss makes the logits.
struct headed : model<input<std::int32_t, tokens>, tied<"words", embedding<vocabulary, width>>,
                      learned_positions<tokens>, repeat<3, block>, layer_norm, tied<"words", token_head<vocabulary>>> {
};
/// The logits come from layers of several stages.
struct sliced : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<tokens>, block,
                      layer_norm, token_head<vocabulary, slices<5>>> {};
/// Slices in the last stages read rows of the first one's weight.
struct tied_slices
    : model<input<std::int32_t, tokens>, tied<"words", embedding<vocabulary, width>>, learned_positions<tokens>, block,
            layer_norm, tied<"words", token_head<vocabulary, slices<5>>>> {};
/// Stages of the encoder, of the decoder, and one with the end of the first and the begin of the second.
template <class... Head>
constexpr encoder_decoder_options sizes{.source_tokens = 7,
                                        .target_tokens = tokens,
                                        .vocabulary = vocabulary,
                                        .width = width,
                                        .head_width = 8,
                                        .final_norms = true,
                                        .tied_head = sizeof...(Head) == 0,
                                        .head_slices = 1 + 2 * sizeof...(Head)};
constexpr encoder_decoder_options sizes_of_tied = [] {
  encoder_decoder_options of = sizes<>;
  of.head_slices = 4;
  return of;
}();
struct translating : encoder_decoder<2, 24, 2, sizes<>> {};
struct tied_translating : encoder_decoder<1, 24, 2, sizes_of_tied> {};
struct sliced_translating : encoder_decoder<1, 24, 2, sizes<int>> {};
/// Throws for one token in the process that has it, when a test says so.
struct throwing {
  static inline std::atomic<int> at{-1};
  template <class In>
  struct on {
    using layer = throwing;
    using input = In;
    using output = In;
    static constexpr keep keeps{};
    static constexpr work cost{.forward = 1, .backward_input = 1};
    static void forward(const auto& c, const auto& a) { c.copy(a.samples() * size, a.in(), a.out()); }
    static void decode(const auto& c, const auto& a, int position) {
      if (position == at) throw std::runtime_error("thrown here");
      c.copy(a.samples() * width, a.in(), a.out());
    }
    static void backward_input(const auto& c, const auto& a) {
      if (a.in_gradient() != nullptr) c.copy(a.samples() * size, a.out_gradient(), a.in_gradient());
    }
    static constexpr auto size = static_cast<std::ptrdiff_t>(In::size);
    static constexpr int kept_extras = 0;
  };
};
struct failing : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<tokens>,
                       repeat<2, block>, throwing, linear<vocabulary>, softmax_cross_entropy> {};

const std::vector<std::int32_t> prompt{3, 4, 8};

batch texts(std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& labels, const char* name) {
  for (int i = 0; i < 8; ++i)
    for (int t = 0; t < tokens; ++t) {
      inputs.push_back((i + t * (i + 2)) % vocabulary);
      labels.push_back((i + (t + 1) * (i + 2)) % vocabulary);
    }
  return batch{8}.with(name, inputs).with("labels", labels);
}

/// All that a generator may return, before and after a step, and after a load.
struct written {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<double> log_probabilities;
  std::size_t bytes = 0;

  bool operator==(const written& other) const {
    return texts == other.texts && log_probabilities == other.log_probabilities;
  }
  template <class Net>
  void write(const generator<Net>& from) {
    if (from.max_source_tokens() > 0) return translate(from);
    texts.push_back(from.generate(prompt, {.tokens = 13}));
    texts.push_back(from.generate(prompt, {.tokens = 9, .temperature = 2, .top_k = 5, .seed = 4}));
    texts.push_back(from.generate(std::vector<std::int32_t>{1}, {.tokens = 12, .temperature = 1, .end = 7}));
    texts.push_back(from.generate(prompt, {.tokens = 0}));
    for (const double power : {0., .7})
      for (const continuation& text :
           from.beam_search(prompt, {.tokens = 8, .beams = 3, .end = 7, .length_power = power})) {
        texts.push_back(text.tokens);
        log_probabilities.push_back(text.log_probability);
      }
    bytes = from.parameter_bytes();
  }
  template <class Net>
  void translate(const generator<Net>& from) {
    for (const std::vector<std::int32_t>& source : {std::vector<std::int32_t>{5}, {1, 2, 9}, {1, 2, 9, 4, 4, 0, 12}}) {
      texts.push_back(from.generate({1}, {.tokens = 14, .end = 2, .source = source}));
      texts.push_back(from.generate({1, 3}, {.tokens = 9, .temperature = 2, .top_k = 5, .end = 2, .source = source}));
      for (const continuation& text :
           from.beam_search({1}, {.tokens = 8, .beams = 3, .end = 2, .length_power = .7, .source = source})) {
        texts.push_back(text.tokens);
        log_probabilities.push_back(text.log_probability);
      }
    }
    bytes = from.parameter_bytes();
  }
};

batch sources(batch data, std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& lengths) {
  for (int i = 0; i < 8; ++i) {
    lengths.push_back(1 + i % 7);
    for (int t = 0; t < 7; ++t) inputs.push_back((i * t + 3) % vocabulary);
  }
  return data.with("inputs", inputs).with("lengths", lengths);
}

template <class Net>
written write(const plan_options& options, process_group* job, const std::string& weights,
              const generator_options& how = {}) {
  std::vector<std::int32_t> words, labels, inputs, lengths;
  constexpr bool encodes = network_of<Net>.values[0].part.size < tokens;
  batch data = texts(words, labels, encodes ? "targets" : "inputs");
  if constexpr (encodes) data = sources(std::move(data), inputs, lengths);
  training_options of;
  of.seed = 5;
  if (job != nullptr) of.job = static_cast<threaded::member*>(job);
  trainer<Net, adam> training(options, adam{.learning_rate = 1e-2}, of);
  generator<Net> from(training, how);
  written found;
  found.write(from);
  for (int i = 0; i < 3; ++i) training.step(data);
  from.refresh(training);
  found.write(from);
  if (job == nullptr) training.save(weights);
  training.step(data);
  training.load(weights);
  from.refresh(training);
  found.write(from);
  return found;
}

plan_options plan_of(int stages, int replicas = 1) {
  return {.stages = stages, .micro_batches = 2, .micro_batch_size = 4 / replicas, .replicas = replicas};
}

/// Runs `call(group)` in each rank, and returns the errors.
std::vector<std::string> errors_of(threaded::job& job, const std::function<void(process_group&)>& call) {
  std::vector<std::string> said(static_cast<std::size_t>(job.ranks()), "none");
  job.run([&](process_group& here) {
    try {
      call(here);
    } catch (const error& cause) {
      said[static_cast<std::size_t>(here.rank())] = cause.what();
    }
  });
  return said;
}

struct wide : model<input<std::int32_t, 12>, embedding<300, 128>, learned_positions<12>,
                    residual<layer_norm, causal_attention<4>>, residual<layer_norm, linear<384>, gelu, linear<128>>,
                    layer_norm, linear<300>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE_TEMPLATE("processes that share a model write the bits of one, and each has its share of the parameters", Net,
                   skipping, headed, sliced, tied_slices, translating, sliced_translating, tied_translating) {
  const temporary_folder folder;
  const std::string weights = folder.beside("weights.safetensors");
  const written alone = write<Net>(plan_of(1), nullptr, weights);
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    threaded::job job(ranks);
    std::vector<written> found(static_cast<std::size_t>(ranks));
    job.run([&](process_group& here) {
      found[static_cast<std::size_t>(here.rank())] = write<Net>(plan_of(ranks), &here, weights);
    });
    std::size_t bytes = 0, borrowed = 0;
    constexpr std::size_t table = std::size_t{vocabulary} * width * sizeof(float);
    if (std::is_same_v<Net, headed> || std::is_same_v<Net, tied_slices>) borrowed = table;  // slices: each its rows
    for (const written& of_rank : found) {
      CHECK(of_rank == alone);
      CHECK(of_rank.bytes < alone.bytes * (std::is_same_v<Net, translating> ? 3 : 2) / static_cast<std::size_t>(ranks));
      bytes += of_rank.bytes;
    }
    if (network_of<Net>.values[0].part.size < tokens) CHECK((bytes - alone.bytes) % table == 0);  // in several stages
    else CHECK(bytes == alone.bytes + borrowed);
  }
}

TEST_CASE("replicas share the generator of the first one, and stages that take turns share it, too") {
  const temporary_folder folder;
  const std::string weights = folder.beside("weights.safetensors");
  const written alone = write<skipping>(plan_of(1, 2), nullptr, weights);
  threaded::job job(4);
  std::vector<written> found(4);
  job.run([&](process_group& here) {
    found[static_cast<std::size_t>(here.rank())] = write<skipping>(plan_of(2, 2), &here, weights);
  });
  for (const written& of_rank : found) CHECK(of_rank == alone);
  CHECK(found[0].bytes + found[1].bytes == alone.bytes);
  CHECK(found[2].bytes + found[3].bytes == 0);

  plan_options turns = plan_of(4);
  turns.schedule = schedule_kind::interleaved;
  const written one = write<skipping>(plan_of(1), nullptr, weights);
  threaded::job two(2);
  found.assign(2, {});
  two.run([&](process_group& here) {
    found[static_cast<std::size_t>(here.rank())] = write<skipping>(turns, &here, weights);
  });
  for (const written& of_rank : found) CHECK(of_rank == one);
}

TEST_CASE("with whole_model each process has all layers and generates alone") {
  trainer<headed, adam> twin(plan_of(1), adam{}, {.seed = 5});
  const generator<headed> alone(twin);
  std::vector<std::vector<std::int32_t>> expected;
  for (std::int32_t r = 0; r < 2; ++r) expected.push_back(alone.generate(std::vector{r}, {.tokens = 9 + r}));
  threaded::job job(2);
  std::vector<std::vector<std::int32_t>> found(2);
  std::array<std::size_t, 2> bytes{};
  job.run([&](process_group& here) {
    const std::int32_t r = here.rank();
    trainer<headed, adam> training(plan_of(2), adam{}, {.seed = 5, .job = static_cast<threaded::member*>(&here)});
    const generator<headed> from(training, {.whole_model = true});
    found[static_cast<std::size_t>(r)] = from.generate(std::vector{r}, {.tokens = 9 + r});
    bytes[static_cast<std::size_t>(r)] = from.parameter_bytes();
  });
  CHECK(found == expected);
  CHECK(bytes[0] == alone.parameter_bytes());
  CHECK(bytes[1] == alone.parameter_bytes());
}

TEST_CASE("processes that do not agree on a text throw alike, and the next text is right") {
  trainer<headed, adam> twin(plan_of(1), adam{}, {.seed = 5});
  const auto expected = generator<headed>(twin).generate(prompt, {.tokens = 6});
  threaded::job job(3);
  using list = std::vector<std::int32_t>;
  struct {
    std::function<void(const generator<headed>&, int rank)> call;
    const char* message;
  } const cases[] = {
      {[](auto& from, int r) {
         from.generate(list{1, r == 2 ? 3 : 2});
       },
       "ranks 0 and 2 do not agree on the prompt"},
      {[](auto& from, int r) { from.generate(list(r == 1 ? 2 : 3, 1)); },
       "ranks 0 and 1 do not agree on the length of the prompt: 3 and 2"},
      {[](auto& from, int r) { from.generate(prompt, {.tokens = r == 2 ? -1 : 6}); },
       "ranks 0 and 2 do not agree on tokens: 6 and -1"},
      {[](auto& from, int r) { from.generate(prompt, {.temperature = r == 2 ? .5 : .25}); },
       "ranks 0 and 2 do not agree on temperature: 0.25 and 0.5"},
      {[](auto& from, int r) { from.generate(prompt, {.top_k = r == 2 ? 5 : 6}); }, "agree on top_k: 6 and 5"},
      {[](auto& from, int r) { from.generate(prompt, {.top_p = r == 2 ? .5 : .25}); }, "agree on top_p: 0.25 and 0.5"},
      {[](auto& from, int r) { from.generate(prompt, {.seed = r == 2 ? 5U : 6U}); }, "agree on seed: 6 and 5"},
      {[](auto& from, int r) { from.generate(prompt, {.end = r == 2 ? 5 : 6}); }, "agree on end: 6 and 5"},
      {[](auto& from, int r) { from.beam_search(prompt, {.beams = r == 2 ? 5 : 6}); }, "agree on beams: 6 and 5"},
      {[](auto& from, int r) { from.beam_search(prompt, {.length_power = r == 2 ? .5 : 1}); },
       "agree on length_power: 1 and 0.5"},
      {[](auto& from, int r) { r == 2 ? void(from.generate(prompt)) : void(from.beam_search(prompt)); },
       "ranks 0 and 2 do not agree on the call: search by beams and generate"},
      {[](auto& from, int) { from.generate(list{}); }, "the prompt has no token"},
      {[](auto& from, int r) { from.generate(prompt, {.tokens = 6, .threads = r == 1 ? -1 : 1}); }, "threads is -1"},
  };
  std::array<std::atomic<int>, 3> right{};
  job.run([&](process_group& here) {
    trainer<headed, adam> training(plan_of(3), adam{}, {.seed = 5, .job = static_cast<threaded::member*>(&here)});
    const generator<headed> from(training);
    for (const auto& c : cases) {
      std::string said = "no error";
      try {
        c.call(from, here.rank());
      } catch (const error& cause) {
        said = cause.what();
      }
      right[static_cast<std::size_t>(here.rank())] +=
          said.find(c.message) != std::string::npos && from.generate(prompt, {.tokens = 6}) == expected;
    }
  });
  for (const auto& of_rank : right) CHECK(of_rank == static_cast<int>(std::size(cases)));

  for (const std::string& said : errors_of(job, [](process_group& here) {
         trainer<headed, adam> training(plan_of(3), adam{}, {.job = static_cast<threaded::member*>(&here)});
         generator<headed>(training, {.whole_model = here.rank() == 1});
       }))
    CHECK(said.find("ranks 0 and 1 do not agree on whole_model of the generator: 0 and 1") != std::string::npos);
}

TEST_CASE("a process that fails, or that makes no call, ends the text of all") {
  trainer<failing, adam> twin(plan_of(1), adam{}, {.seed = 5});
  const auto expected = generator<failing>(twin).generate(prompt, {.tokens = 12});
  threaded::job job(3);
  std::array<std::atomic<int>, 3> right{};
  job.run([&](process_group& here) {
    trainer<failing, adam> training(plan_of(3), adam{}, {.seed = 5, .job = static_cast<threaded::member*>(&here)});
    const generator<failing> from(training);
    for (const int position : {0, 2, 9, 13}) {
      training.parameter_hash();  // all are here
      throwing::at = position;
      training.parameter_hash();
      std::string said;
      try {
        from.generate(prompt, {.tokens = 12});
      } catch (const error& cause) {
        said = cause.what();
      }
      training.parameter_hash();
      throwing::at = -1;
      training.parameter_hash();
      right[static_cast<std::size_t>(here.rank())] += said.find("rank 2") != std::string::npos &&
                                                      said.find("thrown here") != std::string::npos &&
                                                      from.generate(prompt, {.tokens = 12}) == expected;
    }
  });
  for (const auto& of_rank : right) CHECK(of_rank == 4);

  threaded::job late(2);
  const auto begin = std::chrono::steady_clock::now();
  const auto said = errors_of(late, [](process_group& here) {
    training_options how;
    how.deadline = 200ms;
    how.job = static_cast<threaded::member*>(&here);
    trainer<failing, adam> training(plan_of(2), adam{}, how);
    const generator<failing> from(training);
    if (here.rank() == 0) from.generate(prompt);
  });
  CHECK(said[0].find("no rank made progress") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

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
  const std::vector<std::int32_t> beginning{5, 17, 211};
  const auto alone = from.generate(beginning, {.tokens = 9, .temperature = 1, .threads = 1});
  const auto beams = from.beam_search(beginning, {.tokens = 4, .beams = 3, .threads = 1});
  for (const int threads : {2, 3, 5}) {
    CAPTURE(threads);
    CHECK(from.generate(beginning, {.tokens = 9, .temperature = 1, .threads = threads}) == alone);
    const auto found = from.beam_search(beginning, {.tokens = 4, .beams = 3, .threads = threads});
    REQUIRE(found.size() == beams.size());
    for (std::size_t i = 0; i < beams.size(); ++i) {
      CHECK(found[i].tokens == beams[i].tokens);
      CHECK(found[i].log_probability == beams[i].log_probability);
    }
  }
  CHECK_THROWS_WITH_AS(from.generate(beginning, {.tokens = 1, .threads = -1}),
                       doctest::Contains("threads is -1; choose 0 or more"), error);
}
