// sanitizers: address

#include <gpipe/sentencepiece.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>

#include "support/temporary_folder.hpp"

using namespace gpipe;

namespace {

/// Lines of made-up words.
std::vector<std::string> lines(int count) {
  constexpr std::array syllables{"ba", "do", "ki", "lu", "mera", "no", "pi", "sta", "tor", "\u00fc"};
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (std::uint32_t word = 0; word < 6; ++word) {
      const random_words drawn = draw({.seed = 3}, static_cast<std::uint32_t>(i), word);
      line += word == 0 ? "" : " ";
      for (std::size_t k = 0; k <= drawn.word[3] % 3; ++k) line += syllables[drawn.word[k] % syllables.size()];
    }
    all.push_back(line);
  }
  return all;
}

const std::vector<std::string> texts = lines(300);

const std::string& model() {
  static const std::string bytes = [] {
    const temporary_folder folder;
    train_pieces(texts, folder.beside("pieces.model"), {.pieces = 120});
    return temporary_folder::read_file(folder.beside("pieces.model"));
  }();
  return bytes;
}

std::string trained(const std::vector<std::string>& from, const piece_options& how) {
  const temporary_folder folder;
  train_pieces(from, folder.beside("pieces.model"), how);
  return temporary_folder::read_file(folder.beside("pieces.model"));
}

sentence_pieces loaded(const std::string& bytes) {
  const temporary_folder folder;
  temporary_folder::write_file(folder.beside("pieces.model"), bytes);
  return sentence_pieces(folder.beside("pieces.model"));
}

/// A file with these bytes is refused by an error that names it.
void refused(const std::string& bytes, const char* what = "is no whole model of SentencePiece") {
  CHECK_THROWS_WITH_AS(loaded(bytes), doctest::Contains(what), error);
  CHECK_THROWS_WITH_AS(loaded(bytes), doctest::Contains("pieces.model: "), error);
}

void refused(const std::vector<std::string>& from, const piece_options& how, const char* what) {
  const temporary_folder folder;
  CHECK_THROWS_WITH_AS(train_pieces(from, folder.beside("pieces.model"), how), doctest::Contains(what), error);
  CHECK(!std::filesystem::exists(folder.beside("pieces.model")));
}

}  // namespace

TEST_CASE("texts come back from their pieces, and words that are frequent are few pieces") {
  const sentence_pieces words = loaded(model());
  CHECK(words.size() == 120);
  std::size_t letters = 0, pieces = 0;
  for (const std::string& text : texts) {
    const std::vector<std::int32_t> cut = words.encode(text);
    CHECK(words.decode(cut) == text);
    for (const std::int32_t piece : cut) CHECK((piece > words.unknown() && piece < words.size()));
    letters += text.size(), pieces += cut.size();
  }
  CHECK(2 * pieces < letters);
  CHECK(words.encode("").empty());
  CHECK(words.encode("  ").empty());
  CHECK(words.decode(std::vector<std::int32_t>{}) == "");
  CHECK(words.decode(words.encode("  ki\t\nlu ")) == "ki lu");  // one space for each run
  CHECK(words.decode(words.encode("\uff42\uff41")) == "ba");    // wide letters
  CHECK(words.decode(words.encode("ba\xff zz ki")) ==
        "ba \u2047   \u2047  ki");  // bytes that are no letter, letters without a piece
}

TEST_CASE("a piece has a number, and a number has a piece") {
  const sentence_pieces words = loaded(model());
  std::set<std::string> all;
  for (std::int32_t i = 0; i < words.size(); ++i) {
    CHECK(words.number(words.piece(i)) == i);
    all.insert(words.piece(i));
  }
  CHECK(all.count("\u2581ki") == 1);
  CHECK(words.number("no such piece") == words.unknown());
  for (const std::int32_t number : {-1, 120, 1 << 30}) {
    CAPTURE(number);
    CHECK_THROWS_WITH_AS(words.piece(number), doctest::Contains("does not exist; give pieces from 0 to 119"), error);
    CHECK_THROWS_WITH_AS(words.decode(std::vector<std::int32_t>{5, number}), doctest::Contains("pieces.model: piece"),
                         error);
  }
}

TEST_CASE("special pieces have the numbers of the options, and no text") {
  const sentence_pieces words = loaded(model());
  CHECK(words.padding() == 0);
  CHECK(words.begin_of_text() == 1);
  CHECK(words.end_of_text() == 2);
  CHECK(words.unknown() == 3);
  CHECK(words.piece(0) == "<pad>");
  std::vector<std::int32_t> marked = words.encode(texts[0]);
  marked.insert(marked.begin(), 1);
  marked.insert(marked.end(), {2, 0, 0});
  CHECK(words.decode(marked) == texts[0]);

  const sentence_pieces other =
      loaded(trained(texts, {.pieces = 100, .padding = -1, .begin_of_text = 6, .end_of_text = -1, .unknown = 0}));
  CHECK(other.size() == 100);
  CHECK(other.padding() == -1);
  CHECK(other.begin_of_text() == 6);
  CHECK(other.end_of_text() == -1);
  CHECK(other.unknown() == 0);
  CHECK(other.decode(other.encode(texts[1])) == texts[1]);
}

TEST_CASE("the same texts, options and seed give the same bytes") {
  CHECK(trained(texts, {.pieces = 120}) == model());
  CHECK(trained(texts, {.pieces = 110}) != model());
  const std::string drawn = trained(texts, {.pieces = 60, .sentences = 50, .seed = 4});
  CHECK(trained(texts, {.pieces = 60, .sentences = 50, .seed = 4}) == drawn);
  CHECK(trained(texts, {.pieces = 60, .sentences = 50, .seed = 5}) != drawn);
  CHECK(trained(texts, {.pieces = 120, .sentences = 1000}) == model());
}

TEST_CASE("a letter that is rarer than the coverage is unknown") {
  std::vector<std::string> rare = texts;
  rare.push_back("q");
  CHECK(loaded(trained(rare, {.pieces = 120, .coverage = 0.98})).number("q") == 3);
  CHECK(loaded(trained(rare, {.pieces = 120, .coverage = 1})).number("q") > 3);
}

TEST_CASE("texts are drawn in their order, each as often as any other") {
  const std::vector<std::string> ten{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  std::array<int, 10> times{};
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<const std::string*> drawn = detail::drawn_texts(ten, 3, seed);
    REQUIRE(drawn.size() == 3);
    CHECK(drawn[0] < drawn[1]);
    CHECK(drawn[1] < drawn[2]);
    for (const std::string* const text : drawn) ++times[static_cast<std::size_t>(text - ten.data())];
  }
  for (const int count : times) CHECK((count > 240 && count < 360));  // 300, the deviation is 14
  CHECK(detail::drawn_texts(ten, 0, 1).size() == 10);
  CHECK(detail::drawn_texts(std::vector<std::string>{"a\u2585", "b"}, 0, 1).size() == 1);
}

TEST_CASE("an error says how many pieces are possible, and this number is") {
  const auto possible = [](const std::vector<std::string>& from, int pieces, const std::string& before) {
    try {
      trained(from, {.pieces = pieces});
    } catch (const error& wrong) {
      const std::string message = wrong.what();
      REQUIRE(message.find(before) != message.npos);
      const int number = std::stoi(message.substr(message.find(before) + before.size()));
      CHECK(message.find(detail::concat({"choose .pieces = ", number})) != message.npos);
      return number;
    }
    return 0;
  };
  const int most = possible(texts, 4000, "pieces is 4000, and the texts give at most ");
  CHECK((most > 120 && most < 4000));
  CHECK(loaded(trained(texts, {.pieces = most})).size() == most);
  CHECK(possible(texts, most + 1, "the texts give at most ") == most);
  const int least = possible(texts, 10, "pieces is 10, and the letters and special pieces are ");
  CHECK(loaded(trained(texts, {.pieces = least})).size() == least);
  CHECK(possible(texts, least - 1, "special pieces are ") == least);
  CHECK(possible({"a"}, 8000, "the texts give at most ") == 6);
}

TEST_CASE("texts without a letter are refused, and one letter of any script is enough") {
  for (const std::vector<std::string>& none : {std::vector<std::string>{},
                                               {""},
                                               {" ", "\t\n"},
                                               {"\u3000\u3000"},
                                               {"\x01", "\u200b"},
                                               {"\u2581 \u2581"},
                                               {"a\u2585"}})
    refused(none, {.pieces = 20}, "no text has a letter; give texts with letters");
  CHECK(loaded(trained({"\u3000", "\u65e5"}, {.pieces = 6})).piece(5) == "\u65e5");
  CHECK(loaded(trained({"\u65e5"}, {.pieces = 3, .padding = -1, .begin_of_text = -1, .end_of_text = -1, .unknown = 0}))
            .size() == 3);
  // A long text without a space, and bytes that are no letters.
  std::vector<std::string> more = texts;
  more.insert(more.end(), {std::string(20'000, 'x'), "\xff\xfe", std::string("a\0b", 3)});
  CHECK(loaded(trained(more, {.pieces = 120})).number("x") > 3);
}

TEST_CASE("options that are out of range are refused") {
  refused(texts, {.pieces = 0}, "pieces is 0; choose at least 1");
  refused(texts, {.coverage = 0.97}, "coverage is 0.97; choose a share from 0.98 to 1");
  refused(texts, {.coverage = 1.01}, "coverage is 1.01");
  refused(texts, {.sentences = -1}, "sentences is -1; choose at least 1, or 0 for all");
  refused(texts, {.pieces = 100, .end_of_text = 100}, "end_of_text is 100; choose a number of the pieces, 0 to 99");
  refused(texts, {.padding = -2}, "padding is -2");
  refused(texts, {.unknown = -1}, "unknown is -1; choose at least 0");
  refused(texts, {.padding = -1, .unknown = -1}, "unknown is -1");
  refused(texts, {.begin_of_text = 3}, "begin_of_text and unknown are both 3; choose different numbers");
  CHECK_THROWS_WITH_AS(train_pieces(texts, "/no such folder/pieces.model", {.pieces = 4000}),  // before the training
                       doctest::Contains("/no such folder/pieces.model"), error);
}

TEST_CASE("a file that is missing, cut, empty or of another kind is refused by its name") {
  CHECK_THROWS_WITH_AS(sentence_pieces("/no such folder/pieces.model"),
                       doctest::Contains("/no such folder/pieces.model"), error);
  refused("");
  refused("<pad>\n<s>\n");
  refused(std::string(1000, '\0'));
  refused(std::string(1000, '\xff'));
  const std::string& whole = model();
  for (std::size_t size = 0; size < whole.size(); size += size < 2500 || size + 200 > whole.size() ? 1U : 499U)
    CHECK_THROWS_AS(loaded(whole.substr(0, size)), error);
  refused(whole + whole, "is already defined");
  std::string changed = whole;
  changed[changed.find("<unk>") + 12 - 1] = 3;  // its kind: there is no unknown piece
  refused(changed, "unk is not defined");
  changed = whole;
  changed[changed.find("\u2581ki")] = '\0';  // which the library's search tree cannot hold
  refused(changed);
}

TEST_CASE("SentencePiece prints nothing") {
  const temporary_folder folder;
  const std::string log = folder.beside("log");
  std::fflush(stderr);
  const int kept = dup(2), to = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(to, 2);
  train_pieces(texts, folder.beside("pieces.model"), {.pieces = 120});
  CHECK_THROWS_AS(train_pieces(texts, folder.beside("others.model"), {.pieces = 4000}), error);
  sentence_pieces(folder.beside("pieces.model")).encode(texts[0]);
  CHECK_THROWS_AS(loaded(model() + model()), error);
  dup2(kept, 2);
  close(kept), close(to);
  CHECK(temporary_folder::read_file(log) == "");
}
