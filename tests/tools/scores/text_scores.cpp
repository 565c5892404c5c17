#include <gpipe/tools/scores/text_scores.hpp>

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>

using namespace gpipe;

namespace {

using texts = std::vector<std::string>;

struct scored {
  texts given, right;
  double bleu, chrf;
};

}  // namespace

// The numbers are sacrebleu 2.6.0's: corpus_bleu(given, [right], force=True).score and corpus_chrf(given,
// [right]).score.
TEST_CASE("scores are sacrebleu's") {
  const std::vector<scored> all{
      {{"the cat sat on the mat"}, {"the cat sat on the mat"}, 100.0, 100.0},
      {{"The cat sat on a mat.", "No such file, or directory"},
       {"The cat is on the mat.", "No such file or directory"},
       22.9517526789171,
       64.96037376939078},
      {{"It costs 1,000.50, i.e. 3-4 %."},
       {"It costs 1,000.50 i.e. 3-4 % (more)."},
       58.73934418709088,
       67.9485188247114},
      {{"日本語 の 文", "über “Größe”…"}, {"日本語の文章", "Über „Größe“ …"}, 0, 42.099978312210446},
      {{"go"}, {"go back now"}, 0, 20.79866888519135},
      {{"a b c d e", "x"}, {"f g h i j", "x y z"}, 7.31306706513952, 2.6315789473684212},
      {{"a &amp; b &lt;c&gt; &quot;d&quot; e", "no\u00a0break here now"},
       {"a & b <c> \"d\" f", "no break here now"},
       90.48348715045417,
       53.731490112732914},
      {{""}, {"nothing"}, 0, 0},
  };
  for (const scored& of : all) {
    CAPTURE(of.given.front());
    CHECK(bleu(of.given, of.right) == doctest::Approx(of.bleu).epsilon(1e-12));
    CHECK(chrf(of.given, of.right) == doctest::Approx(of.chrf).epsilon(1e-12));
  }
}

TEST_CASE("words are split as by mteval-v13a") {
  CHECK(detail::words_13a("It's 1,000.5, (no) e-mail 3-4 a.b 5. .5") ==
        texts{"It's", "1,000.5", ",", "(", "no", ")", "e-mail", "3", "-", "4", "a", ".", "b", "5", ".", ".", "5"});
  CHECK(detail::words_13a("&lt;a&gt; x-\ny\nz <skipped>").size() == 5);
  CHECK(detail::words_13a("größe\u3000日本").size() == 2);
}

TEST_CASE("bytes that are no UTF-8 are characters of their own") {
  CHECK(chrf(texts{"a\xff"}, texts{"a\xff"}) == 100);
  CHECK(chrf(texts{"a\xff"}, texts{"a\xfe"}) < 100);
  CHECK(chrf(texts{"\xe6\x97"}, texts{"\xe6\x97"}) == 100);  // the last character is cut
}

TEST_CASE("texts without a right one are refused") {
  const std::span<const std::string> none;
  CHECK_THROWS_WITH_AS(bleu(none, none), doctest::Contains("there are 0 texts and 0 right ones"), error);
  CHECK_THROWS_WITH_AS(chrf(texts{"a"}, texts{"a", "b"}), doctest::Contains("there are 1 texts and 2 right ones"),
                       error);
}
