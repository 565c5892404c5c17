#include <gpipe/tools/generation/generator.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/model/encoder_decoder.hpp>

// Generation by a model with an encoder, beside its forward pass over whole sequences.

using namespace gpipe;

namespace {

using list = std::vector<std::int32_t>;

constexpr int source_tokens = 6, target_tokens = 7, width = 16;
constexpr std::int32_t begin = 1, end_of_text = 2;

/// A copy that counts its calls: those of an encoder's, and those of a decoder's tokens.
template <int Which>
struct counted {
  static inline std::atomic<int> calls{0};
  template <class In>
  struct on {
    using layer = counted;
    using input = In;
    using output = In;
    static constexpr keep keeps{};
    static constexpr int kept_extras = 0;
    static constexpr work cost{.forward = 1, .backward_input = 1};
    static constexpr auto size = static_cast<std::ptrdiff_t>(In::size);
    static void forward(const auto& c, const auto& a) {
      ++calls;
      c.copy(a.samples() * size, a.in(), a.out());
    }
    static void decode(const auto& c, const auto& a, int) {
      ++calls;
      c.copy(a.samples() * width, a.in(), a.out());
    }
    static void backward_input(const auto& c, const auto& a) {
      if (a.in_gradient() != nullptr) c.copy(a.samples() * size, a.out_gradient(), a.in_gradient());
    }
  };
};
using of_source = counted<0>;
using of_token = counted<1>;

/// Reads the tokens of an encoder, and has no decode for them.
struct joined {
  template <class In>
  struct on;
  template <int Tokens, int Others>
  struct on<bundle<tensor<float, Tokens, width>, tensor<float, Others, width>>> {
    using layer = joined;
    using input = bundle<tensor<float, Tokens, width>, tensor<float, Others, width>>;
    using output = tensor<float, Tokens, width>;
    static constexpr keep keeps{};
    static constexpr work cost{.forward = 1, .backward_input = 1};
    static void forward(const auto& c, const auto& a) {
      c.copy(std::ptrdiff_t{a.samples()} * Tokens * width, a.template in<0>(), a.out());
    }
    static void backward_input(const auto&, const auto&) {}  // not trained
  };
};

/// The decoder is inside of a name. `Keys` and `Cross` are attention of and to the source.
template <int Vocabulary, attention_options Keys, attention_options Cross = Keys>
struct translating
    : model<input<std::int32_t, source_tokens>, embedding<Vocabulary, width>, learned_positions<source_tokens>,
            of_source, residual<layer_norm, attention<Keys>>, layer_norm, stash<"memory">,
            named<"decoder", only<from<"targets", tensor<std::int32_t, target_tokens>>>, embedding<Vocabulary, width>,
                  learned_positions<target_tokens>, of_token,
                  repeat<2, residual<layer_norm, causal_attention<2>>,
                         residual<layer_norm, pop<"memory">, cross_attention<Cross>>>,
                  layer_norm, token_head<Vocabulary>>> {};
constexpr attention_options padded{.heads = 2, .padded = true}, whole{.heads = 2};
using small = translating<9, padded>;
using unpadded = translating<9, whole>;
using half_padded = translating<9, whole, padded>;
using tiny = translating<4, padded>;

constexpr encoder_decoder_options sizes{.source_tokens = source_tokens,
                                        .target_tokens = target_tokens,
                                        .vocabulary = 9,
                                        .width = width,
                                        .head_width = 8,
                                        .dropout = 10,
                                        .smoothing = 0.1,
                                        .final_norms = true};
constexpr encoder_decoder_options with_tied_head() {
  encoder_decoder_options o = sizes;
  o.tied_head = true;
  return o;
}
using paper = encoder_decoder<2, 24, 2, sizes>;
using tied_paper = encoder_decoder<2, 24, 2, with_tied_head()>;

constexpr int words_of(const network& net) { return static_cast<int>(net.values[0].below); }

/// Learns to write a source backwards, a little.
template <class Net>
struct trained {
  static constexpr int vocabulary = words_of(network_of<Net>);
  trainer<Net, adam> training;
  std::map<std::pair<list, list>, std::vector<double>> known;

  explicit trained(int stages = 1, int steps = 12)
      : training({.stages = stages, .micro_batches = 2, .micro_batch_size = 8}, adam{.learning_rate = 1e-2},
                 {.seed = 5}) {
    list inputs, lengths, targets, labels;
    for (int i = 0; i < 16; ++i) {
      const int n = 1 + i % source_tokens;
      lengths.push_back(n);
      list words;
      for (int t = 0; t < source_tokens; ++t) {
        inputs.push_back((i * 5 + t * (i + 1)) % vocabulary);
        if (t < n) words.insert(words.begin(), inputs.back());
      }
      words.push_back(end_of_text);
      for (int t = 0; t < target_tokens; ++t) {
        targets.push_back(t == 0 ? begin : t <= n ? words[static_cast<std::size_t>(t) - 1] : 0);
        labels.push_back(t < static_cast<int>(words.size()) ? words[static_cast<std::size_t>(t)] : end_of_text);
      }
    }
    for (int i = 0; i < steps; ++i)
      training.step(batch{16}
                        .with("inputs", inputs)
                        .with_unread("lengths", lengths)
                        .with("targets", targets)
                        .with("labels", labels));
  }

  /// The log probabilities behind a target, by a forward pass of the whole model over sequences that are filled up.
  const std::vector<double>& behind(const list& source, const list& target) {
    std::vector<double>& found = known[{source, target}];
    if (!found.empty()) return found;
    list inputs = source, targets = target;
    inputs.resize(source_tokens, vocabulary - 1), targets.resize(target_tokens, 3);
    const list lengths{static_cast<std::int32_t>(source.size())};
    const tensor_rows rows =
        training.predict(batch{1}.with("inputs", inputs).with_unread("lengths", lengths).with("targets", targets));
    detail::log_probabilities(rows.of(0).subspan((target.size() - 1) * vocabulary, vocabulary), found);
    return found;
  }
  /// The sum of those of the tokens behind the one that begins.
  double of_text(const list& source, const list& text) {
    double sum = 0;
    list target{begin};
    for (const std::int32_t token : text) {
      sum += behind(source, target)[static_cast<std::size_t>(token)];
      target.push_back(token);
    }
    return sum;
  }
};

const std::vector<list> sources{{3}, {3, 0}, {2, 1, 3}, {0, 0, 1, 2}, {1, 3, 3, 0, 2}, {2, 0, 3, 1, 1, 0}};

double score_of(const continuation& one, double power) {
  return one.log_probability / std::pow(static_cast<double>(one.tokens.size()), power);
}

struct searched {
  std::vector<continuation> texts;
  int steps = 0;  // in which the model makes logits
};

/// A beam search as it is defined, without what a decoder keeps, that looks at every length that a text may still get.
template <class Net>
searched search(trained<Net>& of, const list& source, const beam_options& how) {
  const auto n = static_cast<std::size_t>(how.beams);
  const std::size_t wanted = how.texts > 0 ? static_cast<std::size_t>(how.texts) : n;
  searched found;
  std::vector<continuation> living(1), ended;
  const auto by_score = [&](const continuation& a, const continuation& b) {
    return score_of(a, how.length_power) > score_of(b, how.length_power);
  };
  for (int t = 0; t < how.tokens && !living.empty(); ++t) {
    ++found.steps;
    std::vector<continuation> all;
    for (const continuation& one : living) {
      list target{begin};
      target.insert(target.end(), one.tokens.begin(), one.tokens.end());
      const std::vector<double>& next = of.behind(source, target);
      for (std::int32_t token = 0; token < of.vocabulary; ++token) {
        all.push_back(one);
        all.back().tokens.push_back(token);
        all.back().log_probability += next[static_cast<std::size_t>(token)];
      }
    }
    std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.log_probability > b.log_probability; });
    living.clear();
    for (std::size_t i = 0; i < all.size() && living.size() < n; ++i) {
      if (all[i].tokens.back() != how.end) living.push_back(all[i]);
      else if (i < n) ended.push_back(all[i]);
    }
    std::stable_sort(ended.begin(), ended.end(), by_score);
    if (ended.size() < wanted) continue;
    bool open = false;  // whether one that lives on may still come before the last that is wanted
    for (const continuation& one : living)
      for (std::size_t length = one.tokens.size() + 1; length <= static_cast<std::size_t>(how.tokens); ++length)
        open = open || one.log_probability / std::pow(static_cast<double>(length), how.length_power) >
                           score_of(ended[wanted - 1], how.length_power);
    if (!open && t + 1 < how.tokens) break;
  }
  found.texts = ended;
  found.texts.insert(found.texts.end(), living.begin(), living.end());
  std::stable_sort(found.texts.begin(), found.texts.end(), by_score);
  found.texts.resize((std::min)(found.texts.size(), wanted));
  return found;
}

/// All texts, with their probabilities: those that end, and those of all tokens.
template <class Net>
std::vector<continuation> all_texts(trained<Net>& of, const list& source, int tokens) {
  std::vector<continuation> found, open(1);
  for (int t = 0; t < tokens; ++t) {
    std::vector<continuation> next;
    for (const continuation& one : open)
      for (std::int32_t token = 0; token < of.vocabulary; ++token) {
        continuation more{one.tokens, 0};
        more.tokens.push_back(token);
        more.log_probability = of.of_text(source, more.tokens);
        (token == end_of_text || t + 1 == tokens ? found : next).push_back(more);
      }
    open = std::move(next);
  }
  return found;
}

}  // namespace

TEST_CASE_TEMPLATE("tokens and probabilities have the bits of a forward pass over whole sequences", Net, small, paper,
                   tied_paper) {
  trained<Net> of(2);
  const generator<Net> from(of.training);
  CHECK(from.max_tokens() == target_tokens);
  CHECK(from.max_source_tokens() == source_tokens);
  std::vector<double> best;
  for (const list& source : sources) {
    CAPTURE(source.size());
    list target{begin};
    for (const std::int32_t token :
         from.generate({begin}, {.tokens = target_tokens, .end = end_of_text, .source = source})) {
      const std::vector<double>& next = of.behind(source, target);
      CHECK(std::max_element(next.begin(), next.end()) - next.begin() == token);
      target.push_back(token);
    }
    best.push_back(of.of_text(source, {target.begin() + 1, target.end()}));
    for (const continuation& text :
         from.beam_search({begin}, {.tokens = target_tokens, .beams = 5, .end = end_of_text, .source = source}))
      CHECK(text.log_probability == of.of_text(source, text.tokens));
  }
  std::sort(best.begin(), best.end());
  CHECK(std::unique(best.begin(), best.end()) == best.end());  // the source matters
}

TEST_CASE_TEMPLATE("tokens do not depend on the number of stages", Net, small, tied_paper) {
  std::vector<list> expected;
  for (const int stages : {1, 2, 5}) {
    CAPTURE(stages);
    trained<Net> of(stages);
    const generator<Net> from(of.training);
    std::vector<list> found;
    for (const list& source : sources) {
      found.push_back(from.generate(
          {begin, 4},
          {.tokens = 6, .temperature = 1.5, .top_k = 6, .top_p = .9, .end = end_of_text, .source = source}));
      for (const continuation& text : from.beam_search({begin}, {.tokens = 7, .end = end_of_text, .source = source}))
        found.push_back(text.tokens);
    }
    if (stages == 1) expected = found;
    CHECK(found == expected);
  }
}

TEST_CASE("the encoder runs once for a source, and the decoder once for a token of all beams") {
  trained<small> of;
  const generator<small> from(of.training);
  const int encoded = of_source::calls, decoded = of_token::calls;
  const list found = from.generate({begin, 3}, {.tokens = 4, .end = 0, .source = sources[4]});
  REQUIRE(found.size() > 1);
  CHECK(of_source::calls == encoded + 1);
  CHECK(of_token::calls == decoded + 1 + static_cast<int>(found.size()));  // the last token needs no step
  from.beam_search({begin}, {.tokens = 6, .beams = 4, .end = 8, .texts = 4, .source = sources[4]});
  CHECK(of_source::calls == encoded + 2);
}

TEST_CASE("what a source has behind its length changes nothing, and each of its tokens counts") {
  trained<small> of;
  const generator<small> from(of.training);
  const auto best = [&](const list& source) {
    return from.beam_search({begin}, {.tokens = 5, .beams = 1, .end = end_of_text, .source = source})[0];
  };
  CHECK(best({3, 5}).log_probability != best({3, 5, 0}).log_probability);
  CHECK(best({3, 5}).log_probability != best({3, 6}).log_probability);
  CHECK(best({3, 5, 0, 0}).log_probability != best({3, 5, 0}).log_probability);
}

TEST_CASE_TEMPLATE("a beam search finds what its definition finds, in as many steps", Net, small, tiny) {
  trained<Net> of(1, 8);
  const generator<Net> from(of.training);
  int early = 0, last = 0, reordered = 0;
  for (const list& source : sources)
    for (const int beams : {1, 2, 3, 4})
      for (const double power : {0., .6, 1., 2.5, -.7})
        for (const int texts : {0, 1}) {
          CAPTURE(source.size());
          CAPTURE(beams);
          CAPTURE(power);
          CAPTURE(texts);
          const beam_options how{.tokens = target_tokens,
                                 .beams = beams,
                                 .end = end_of_text,
                                 .length_power = power,
                                 .texts = texts,
                                 .source = source};
          const searched expected = search(of, source, how);
          const int before = of_token::calls;
          const std::vector<continuation> found = from.beam_search({begin}, how);
          CHECK(of_token::calls - before == expected.steps);
          (expected.steps < target_tokens ? early : last) += 1;
          REQUIRE(found.size() == expected.texts.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].tokens == expected.texts[i].tokens);
            CHECK(found[i].log_probability == expected.texts[i].log_probability);
            reordered += found[i].tokens.front() != found[0].tokens.front();
          }
        }
  CHECK(early > 20);
  CHECK(last > 20);
  CHECK(reordered > 20);
}

TEST_CASE("a beam search finds the best of all texts, by the score that a length power gives") {
  trained<tiny> of(1, 8);
  const generator<tiny> from(of.training);
  std::vector<std::size_t> lengths;
  for (const double power : {0., .6, 1., 3.})
    for (const list& source : sources) {
      CAPTURE(power);
      CAPTURE(source.size());
      for (const int tokens : {2, 5}) {
        CAPTURE(tokens);
        std::vector<continuation> all = all_texts(of, source, tokens);
        std::stable_sort(all.begin(), all.end(),
                         [&](auto& a, auto& b) { return score_of(a, power) > score_of(b, power); });
        const std::vector<continuation> found = from.beam_search(
            {begin}, {.tokens = tokens, .beams = 4, .end = end_of_text, .length_power = power, .source = source});
        REQUIRE(found.size() == 4);
        CHECK(found[0].tokens == all[0].tokens);
        CHECK(found[0].log_probability == all[0].log_probability);
        if (tokens == 5) lengths.push_back(found[0].tokens.size());
      }
    }
  CHECK(*std::max_element(lengths.begin(), lengths.end()) > *std::min_element(lengths.begin(), lengths.end()));
}

TEST_CASE("one beam is greedy, and one of several texts is the first of them") {
  trained<paper> of(2);
  const generator<paper> from(of.training);
  for (const list& source : sources) {
    const list greedy = from.generate({begin}, {.tokens = target_tokens, .end = end_of_text, .source = source});
    const auto one =
        from.beam_search({begin}, {.tokens = target_tokens, .beams = 1, .end = end_of_text, .source = source});
    REQUIRE(one.size() == 1);
    CHECK(one[0].tokens == greedy);
    const beam_options all{.tokens = target_tokens, .end = end_of_text, .length_power = .6, .source = source};
    beam_options first = all;
    first.texts = 1;
    CHECK(from.beam_search({begin}, first).at(0).tokens == from.beam_search({begin}, all).at(0).tokens);
  }
}

TEST_CASE("an encoder that reads no lengths needs a whole source") {
  trained<unpadded> of;
  const generator<unpadded> from(of.training);
  const list& source = sources[5];
  for (const continuation& text : from.beam_search({begin}, {.tokens = 5, .end = end_of_text, .source = source}))
    CHECK(text.log_probability == of.of_text(source, text.tokens));
  const char* const said =
      "source has 5 tokens, and the encoder reads 6, because not all of its attention reads lengths; give as many";
  CHECK_THROWS_WITH_AS(from.generate({begin}, {.tokens = 1, .end = 2, .source = sources[4]}), doctest::Contains(said),
                       error);
  trained<half_padded> half(1, 0);
  const generator<half_padded> other(half.training);
  CHECK_THROWS_WITH_AS(other.generate({begin}, {.tokens = 1, .end = 2, .source = sources[4]}), doctest::Contains(said),
                       error);
}

TEST_CASE("sources, ends and beams that do not fit are refused") {
  trained<small> of(1, 0);
  const generator<small> from(of.training);
  const auto refused = [&](const generation_options& how, const char* what) {
    CHECK_THROWS_WITH_AS(from.generate({begin}, how), doctest::Contains(what), error);
  };
  refused({.tokens = 3, .end = 2}, "source has no token, and the model has an encoder; give what it reads");
  refused({.tokens = 3, .end = 2, .source = list(7, 3)},
          "source has 7 tokens, and the encoder reads at most 6; give a shorter source");
  refused({.tokens = 3, .end = 2, .source = {3, 9}}, "token 9 of the source, at 1, is not below 9");
  refused({.tokens = 3, .end = 2, .source = {-1}}, "token -1 of the source, at 0");
  refused({.tokens = 3, .source = {3}}, "end is -1, and a model with an encoder goes on until its end; give the token");
  refused({.tokens = 3, .end = 9, .source = {3}}, "end is 9, and the vocabulary has 9 tokens; give a token of");
  refused({.tokens = 8, .end = 2, .source = {3}}, "a prompt of 1 tokens and 8 more are too long: the model has 7");
  const auto not_searched = [&](const beam_options& how, const char* what) {
    CHECK_THROWS_WITH_AS(from.beam_search({begin}, how), doctest::Contains(what), error);
  };
  not_searched({.tokens = 3, .beams = 0, .end = 2, .source = {3}}, "beams is 0; choose at least 1");
  not_searched({.tokens = 3, .beams = 10, .end = 2, .source = {3}},
               "beams is 10, and the vocabulary has 9 tokens; choose at most as many");
  not_searched({.tokens = 3, .end = 2, .length_power = std::nan(""), .source = {3}}, "length_power is nan; choose a");
  not_searched({.tokens = 3, .end = 2, .length_power = std::numeric_limits<double>::infinity(), .source = {3}},
               "length_power is inf");
  not_searched({.tokens = 3, .end = 2, .texts = 5, .source = {3}}, "texts is 5, and beams is 4; choose 0 to 4");
  not_searched({.tokens = 3, .end = 2, .texts = -1, .source = {3}}, "texts is -1");
  not_searched({.tokens = 3, .source = {3}}, "end is -1");
  not_searched({.tokens = 3, .end = 2}, "source has no token");
}

TEST_CASE("a model without an encoder has no source") {
  struct alone : model<input<std::int32_t, 8>, embedding<9, width>, causal_attention<2>, token_head<9>> {};
  trainer<alone, adam> training(plan_options{.micro_batch_size = 1}, adam{});
  const generator<alone> from(training);
  CHECK(from.max_source_tokens() == 0);
  CHECK_THROWS_WITH_AS(from.generate({begin}, {.tokens = 3, .source = {3, 4}}),
                       doctest::Contains("source has 2 tokens, and the model has no encoder; leave the source out"),
                       error);
  CHECK_THROWS_WITH_AS(from.beam_search({begin}, {.tokens = 3, .source = {3}}), doctest::Contains("source has 1"),
                       error);
  CHECK_THROWS_WITH_AS(
      from.generate({begin}, {.tokens = 3, .end = 9}),
      doctest::Contains("end is 9, and the vocabulary has 9 tokens; give a token of the vocabulary, or"), error);
}

TEST_CASE("a decoder is refused that reads an encoder's output by another layer, or attends to its own tokens") {
  struct joining : model<input<std::int32_t, 8>, embedding<9, width>, stash<"memory">,
                         only<from<"targets", tensor<std::int32_t, 8>>>, embedding<9, width>, pop<"memory">, joined,
                         token_head<9>> {};
  trainer<joining, adam> training(plan_options{.micro_batch_size = 1}, adam{});
  const list source(8, 3);
  CHECK_THROWS_WITH_AS(generator<joining>(training).generate({begin}, {.tokens = 3, .end = 2, .source = source}),
                       doctest::Contains("input 1 of the layer comes from the encoder, and it has no decode for it"),
                       error);
  struct to_itself : model<input<std::int32_t, 8>, embedding<9, width>, stash<"memory">, layer_norm, pop<"memory">,
                           cross_attention<whole>, token_head<9>> {};
  trainer<to_itself, adam> other(plan_options{.micro_batch_size = 1}, adam{});
  CHECK_THROWS_WITH_AS(generator<to_itself>(other).generate({begin}, {.tokens = 3}),
                       doctest::Contains("input 1 of the layer does not come from an encoder"), error);
}
