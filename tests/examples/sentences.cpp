// sanitizers: address
// compiled: alone

#include "../examples/translate/sentences.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>

#include "support/temporary_folder.hpp"

// The vocabulary of examples/translate: with a list of pieces and scores, and with SentencePiece's model.

namespace {

using numbers = std::vector<std::int32_t>;

const std::string special = "<pad>\n<s>\n</s>\n<unk>\n";

struct data_folder {
  temporary_folder folder;
  std::string path = folder.beside("data");

  explicit data_folder(const std::string& pieces) {
    std::filesystem::create_directories(path);
    write("pieces.txt", pieces);
  }
  void write(const std::string& name, const std::string& text) const {
    temporary_folder::write_file(path + '/' + name, text);
  }
};

}  // namespace

TEST_CASE("a text is cut into the pieces with the highest scores, and joined up to its end") {
  const data_folder data(special + "\u2581ab\n\u2581a\nb\n\u2581\nc\n");
  {
    const example::vocabulary words(data.path);  // without scores the fewest pieces
    CHECK(words.size() == 9);
    CHECK(words.pieces("ab  abc x") == numbers{4, 4, 8, 7, 3});
    CHECK(words.pieces("\uff41b") == numbers{4});
    CHECK(words.text({4, 5, 6, 3, 8, 2, 8}) == "ab abc");
  }
  data.write("pieces.vocab",
             "<pad>\t0\n<s>\t0\n</s>\t0\n<unk>\t0\n\u2581ab\t-9\n\u2581a\t-2\nb\t-3\n\u2581\t-4\nc\t-4\n");
  CHECK(example::vocabulary(data.path).pieces("ab") == numbers{5, 6});
  const data_folder bytes(special + "<0x41>\n<0xC3>\n<0xBC>\n<0x20>\n");
  CHECK(example::vocabulary(bytes.path).pieces("A \u00fc") == numbers{4, 7, 5, 6});
  CHECK(example::vocabulary(bytes.path).text({4, 5, 6}) == "A\u00fc");
}

#if GPIPE_WITH_SENTENCEPIECE
TEST_CASE("SentencePiece's model, where it is there, cuts and joins as SentencePiece does") {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back("the file of office " + std::string(1, static_cast<char>('a' + i % 26)));
  const data_folder data(special);
  const std::string file = data.path + "/pieces.model";
  gpipe::train_pieces(texts, file, {.pieces = 36});
  const gpipe::sentence_pieces model(file);
  std::string pieces;
  for (std::int32_t i = 0; i < model.size(); ++i) pieces += model.piece(i) + '\n';
  data.write("pieces.txt", pieces);

  const std::string text = "the o\ufb03ce";  // a ligature, which NFKC cuts into three letters
  const numbers right = model.encode("the office");
  const example::vocabulary words(data.path);
  CHECK(words.pieces(text) == right);
  CHECK(words.pieces("\u00e9 b") == model.encode("\u00e9 b"));
  numbers marked = right;
  marked.insert(marked.begin(), {1, 3});
  marked.insert(marked.end(), {2, 9});
  CHECK(words.text(marked) == "the office");
  data.write("pieces.txt", pieces + "one more\n");
  CHECK_THROWS_WITH_AS(example::vocabulary(data.path),
                       doctest::Contains("pieces.model: there are 36 pieces, and 37 in pieces.txt; fetch"),
                       gpipe::error);
  data.write("pieces.txt", pieces);
  std::filesystem::remove(file);
  const example::vocabulary without(data.path);  // the pieces alone
  CHECK(without.pieces(text) != right);
  CHECK(without.text(marked) == "the office");
}
#endif
