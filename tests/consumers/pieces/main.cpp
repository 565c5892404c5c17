// A vocabulary of two texts, and a text from its pieces.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/sentencepiece.hpp>

#if !GPIPE_WITH_SENTENCEPIECE
#error gpipe::sentencepiece defines it
#endif

int main() {
  gpipe::train_pieces(std::vector<std::string>{"a text of words", "words of a text"}, "pieces.model", {.pieces = 15});
  const gpipe::sentence_pieces words("pieces.model");
  std::remove("pieces.model");
  std::cout << words.size() << " pieces: " << words.decode(words.encode("a text")) << std::endl;
}
