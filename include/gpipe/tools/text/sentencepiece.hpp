#pragma once

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/record/file/read_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

/// The options of training a vocabulary.
struct piece_options {
  int pieces = 8000;         ///< of the vocabulary, including the special ones
  double coverage = 0.9995;  ///< the share of the letters in the texts that get a piece, from 0.98 to 1
  int sentences = 0;         ///< texts that are drawn at random for the training; 0: all
  std::uint64_t seed = 1;    ///< of this draw
  int padding = 0;           ///< the number of this special piece; -1: there is none
  int begin_of_text = 1;     ///< the same
  int end_of_text = 2;       ///< the same
  int unknown = 3;           ///< the number of all letters without a piece
};

/// Trains pieces of texts, by SentencePiece's unigram model, and writes them to a file, SentencePiece's `.model`. The
/// same texts and options give the same bytes. A text with U+2585, which SentencePiece reserves, does not count.
/// SentencePiece logs only errors afterwards. Throws `error`, with the possible number of pieces, if the texts have too
/// few or too many letters for `.pieces`.
///
///     train_pieces(texts, "pieces.model", {.pieces = 6000});
///     const sentence_pieces words("pieces.model");
///     words.decode(words.encode("A text."))    // "A text."
void train_pieces(std::span<const std::string> texts, const std::string& file, const piece_options& options = {});

/// Pieces of texts, from SentencePiece's `.model` files.
class sentence_pieces {
 public:
  /// Throws `error` with the path if the file is missing, cut or no model. A model has no check sum: changed numbers
  /// are not found.
  explicit sentence_pieces(const std::string& file);

  /// The numbers of a text's pieces, without its begin and its end. The text is first normalized to Unicode's form
  /// NFKC, and each run of spaces becomes one space.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text of pieces. Padding, begin and end have none; an unknown piece becomes " \u2047 ". Throws `error` for a
  /// number outside of the vocabulary.
  std::string decode(std::span<const std::int32_t> pieces) const;

  int size() const { return model_->GetPieceSize(); }
  /// The piece of a number, where a space is written as U+2581. Throws `error` for a number outside of the vocabulary.
  const std::string& piece(std::int32_t number) const;
  /// The number of a piece, or of the unknown piece if there is no such piece.
  std::int32_t number(std::string_view piece) const { return model_->PieceToId(piece); }

  /// Numbers of the special pieces; -1: there is none.
  std::int32_t padding() const { return model_->pad_id(); }
  std::int32_t begin_of_text() const { return model_->bos_id(); }
  std::int32_t end_of_text() const { return model_->eos_id(); }
  std::int32_t unknown() const { return model_->unk_id(); }

 private:
  void require_piece(std::int32_t number) const {
    if (number < 0 || number >= size())
      throw error(detail::concat({"piece ", number, " does not exist"}),
                  detail::concat({"give pieces from 0 to ", size() - 1}), {.file = file_});
  }

  std::string file_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> model_;
};

namespace detail {

/// Iterates over texts for SentencePiece.
class piece_texts final : public sentencepiece::SentenceIterator {
 public:
  explicit piece_texts(std::span<const std::string* const> texts) : texts_(texts) {}

  bool done() const override { return position_ == texts_.size(); }
  void Next() override { ++position_; }
  const std::string& value() const override { return *texts_[position_]; }
  // Its type is called Status, which is a macro of X11.
  decltype(std::declval<const sentencepiece::SentenceIterator&>().status()) status() const override { return {}; }

 private:
  std::span<const std::string* const> texts_;
  std::size_t position_ = 0;
};

/// `count` of the texts, in their order, each with the same probability. 0: all.
inline std::vector<const std::string*> drawn_texts(std::span<const std::string> texts, int count, std::uint64_t seed) {
  std::vector<const std::string*> drawn;
  for (const std::string& text : texts)
    if (text.find("\u2585") == text.npos) drawn.push_back(&text);
  std::size_t wanted = count == 0 ? drawn.size() : static_cast<std::size_t>(count), kept = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {  // a text is kept with probability wanted / left
    const random_words words = draw({.seed = seed, .step = i >> 32}, static_cast<std::uint32_t>(i), 0);
    const std::uint64_t left = drawn.size() - i, word = std::uint64_t{words.word[0]} << 32 | words.word[1];
    if (word % left >= wanted) continue;
    drawn[kept++] = drawn[i];
    --wanted;
  }
  drawn.resize(kept);
  return drawn;
}

/// The number after some words of a message; 0 if they are not in it.
inline int number_after(std::string_view words, std::string_view message) {
  int number = 0;
  if (const auto position = message.find(words); position != message.npos)
    std::from_chars(message.data() + position + words.size(), message.data() + message.size(), number);
  return number;
}

/// One run of SentencePiece's training: its message, and the bytes of the model.
struct piece_training {
  std::string message, model;

  piece_training(const char* kind, std::span<const std::string* const> texts, const piece_options& options) {
    piece_texts source(texts);
    const auto status =
        sentencepiece::SentencePieceTrainer::Train({{"model_type", kind},
                                                    {"vocab_size", std::to_string(options.pieces)},
                                                    {"character_coverage", exact_text(options.coverage)},
                                                    {"pad_id", std::to_string(options.padding)},
                                                    {"bos_id", std::to_string(options.begin_of_text)},
                                                    {"eos_id", std::to_string(options.end_of_text)},
                                                    {"unk_id", std::to_string(options.unknown)},
                                                    {"max_sentence_length", std::to_string(1 << 30)},  // its limit
                                                    {"num_threads", "1"},  // sums of several depend on their number
                                                    {"minloglevel", "2"}},
                                                   &source, &model);
    if (!status.ok()) message = status.error_message();
  }
};

inline void check_piece_options(const piece_options& options) {
  const auto fail = [](std::initializer_list<text_part> wrong, const std::string& remedy) {
    throw error(concat(wrong), remedy);
  };
  if (options.pieces < 1) fail({"pieces is ", options.pieces}, "choose at least 1");
  if (!(options.coverage >= 0.98 && options.coverage <= 1))
    fail({"coverage is ", exact_text(options.coverage)}, "choose a share from 0.98 to 1");
  if (options.sentences < 0) fail({"sentences is ", options.sentences}, "choose at least 1, or 0 for all");
  if (options.unknown < 0) fail({"unknown is ", options.unknown}, "choose at least 0: letters without a piece need it");
  const std::pair<const char*, int> special[] = {{"padding", options.padding},
                                                 {"begin_of_text", options.begin_of_text},
                                                 {"end_of_text", options.end_of_text},
                                                 {"unknown", options.unknown}};
  for (const auto& [name, number] : special) {
    if (number < -1 || number >= options.pieces)
      fail({name, " is ", number}, concat({"choose a number of the pieces, 0 to ", options.pieces - 1}));
    for (const auto& [other_name, other_number] : special)
      if (name != other_name && number == other_number && number >= 0)
        fail({name, " and ", other_name, " are both ", number}, "choose different numbers");
  }
}

/// Whether a model has its three parts. A truncated file has a truncated part, or lacks the last one.
///
///     field 1, once for each piece       a field is its key, 8 * number + 2,
///     field 2, options of the training   the count of its bytes, and the bytes
///     field 3, rules for letters
inline bool is_whole_model(std::string_view file) {
  std::size_t position = 0;
  const auto number = [&] {  // 7 bits per byte, the lowest first; the last byte is below 128
    std::uint64_t value = 0;
    for (unsigned shift = 0; position < file.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(file[position++]);
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
    return ~std::uint64_t{0};
  };
  bool found[3]{};
  while (position < file.size()) {
    const std::uint64_t key = number(), bytes = number();
    if (key % 8 != 2 || bytes > file.size() - position) return false;
    if (key / 8 >= 1 && key / 8 <= 3) found[key / 8 - 1] = true;
    position += static_cast<std::size_t>(bytes);
  }
  return found[0] && found[1] && found[2];
}

/// Whether SentencePiece's rules keep a letter of the texts; without one its training ends the program. Visible letters
/// of ASCII are kept. If there are none, a vocabulary of letters, which is quick to train, shows whether others are.
inline bool have_letters(std::span<const std::string* const> texts, piece_options options) {
  const auto visible = [](char c) { return c > ' ' && c < 127; };
  for (const std::string* const text : texts)
    if (std::any_of(text->begin(), text->end(), visible)) return true;
  if (texts.empty()) return false;
  const int special = (options.padding >= 0) + (options.begin_of_text >= 0) + (options.end_of_text >= 0) + 1;
  ++options.pieces;
  sentencepiece::SentencePieceProcessor letters;
  return letters.LoadFromSerializedProto(piece_training("char", texts, options).model).ok() &&
         letters.GetPieceSize() > special;
}

}  // namespace detail

inline void train_pieces(std::span<const std::string> texts, const std::string& file, const piece_options& options) {
  detail::check_piece_options(options);
  const std::vector<const std::string*> drawn = detail::drawn_texts(texts, options.sentences, options.seed);
  if (!detail::have_letters(drawn, options))
    throw error("no text has a letter", "give texts with letters; those with U+2585 do not count");
  require_writable(file);
  const detail::piece_training trained("unigram", drawn, options);
  const auto pieces = [&](std::string wrong, std::string remedy) {
    throw error(detail::concat({"pieces is ", options.pieces, ", and ", wrong}), remedy);
  };
  if (const int most = detail::number_after("to a value <= ", trained.message); most > 0)
    pieces(detail::concat({"the texts give at most ", most}),
           detail::concat({"choose .pieces = ", most, ", or give more texts"}));
  if (const int least = detail::number_after(" vs ", trained.message); least > 0)
    pieces(detail::concat({"the letters and special pieces are ", least}),
           detail::concat({"choose .pieces = ", least, " or more, or a smaller .coverage"}));
  if (!trained.message.empty())
    throw error("SentencePiece cannot train: " + trained.message, "change the texts or the options");
  detail::write_whole(file, trained.model);
}

inline sentence_pieces::sentence_pieces(const std::string& file)
    : file_(file), model_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const std::string bytes = read_file(file);
  const auto fail = [&](const std::string& wrong) {
    throw error("is no whole model of SentencePiece" + wrong, "give a .model file, as train_pieces writes it",
                {.file = file});
  };
  if (!detail::is_whole_model(bytes)) fail("");
  std::string wrong;
  try {
    if (const auto status = model_->LoadFromSerializedProto(bytes); !status.ok()) wrong = status.error_message();
  } catch (const std::exception& failed) {  // of its search tree, for pieces that it cannot hold
    wrong = failed.what();
  }
  if (!wrong.empty()) fail(": " + wrong);
}

inline std::vector<std::int32_t> sentence_pieces::encode(std::string_view text) const {
  std::vector<int> pieces;
  if (const auto status = model_->Encode(text, &pieces); !status.ok())
    throw error(std::string("a text cannot be cut: ") + status.error_message(), "train the pieces again",
                {.file = file_});
  return pieces;
}

inline std::string sentence_pieces::decode(std::span<const std::int32_t> pieces) const {
  for (const std::int32_t piece : pieces) require_piece(piece);
  std::string text;
  if (const auto status = model_->Decode(std::vector<int>(pieces.begin(), pieces.end()), &text); !status.ok())
    throw error(std::string("pieces cannot be joined: ") + status.error_message(), "train the pieces again",
                {.file = file_});
  return text;
}

inline const std::string& sentence_pieces::piece(std::int32_t number) const {
  require_piece(number);
  return model_->IdToPiece(number);
}

}  // namespace gpipe
