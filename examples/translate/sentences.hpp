#pragma once

// Sentences and their translations, as examples/translate_data writes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/train/data/dataset.hpp>

#if GPIPE_WITH_SENTENCEPIECE
#include <gpipe/sentencepiece.hpp>

#include <filesystem>
#include <optional>
#endif

namespace example {

inline constexpr std::int32_t padding = 0, begin_of_text = 1, end_of_text = 2, unknown = 3;

struct sentence_pair {
  std::string language, source, english;
  std::vector<std::int32_t> source_pieces, english_pieces;
  bool prose = false;  ///< a help page or a tale; else a program's message
};

inline std::vector<sentence_pair> read_sentences(const std::string& path, int pieces) {
  std::ifstream in(path);
  if (!in) throw gpipe::error("the sentences cannot be read", "start the program by examples/run", {.file = path});
  std::vector<sentence_pair> found;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> columns;
    std::istringstream parts(line);
    for (std::string column; std::getline(parts, column, '\t');) columns.push_back(column);
    const auto numbers = [&](const std::string& text) {
      std::istringstream of(text);
      std::vector<std::int32_t> all{std::istream_iterator<std::int32_t>(of), {}};
      for (const std::int32_t piece : all)
        if (piece < 0 || piece >= pieces)
          throw gpipe::error("line " + std::to_string(found.size() + 1) + " has piece " + std::to_string(piece),
                             "there are 0 to " + std::to_string(pieces - 1) + ": fetch the sentences again",
                             {.file = path});
      return all;
    };
    if (columns.size() != 6)
      throw gpipe::error(
          "line " + std::to_string(found.size() + 1) + " has " + std::to_string(columns.size()) + " columns, not 6",
          "fetch the sentences again", {.file = path});
    found.push_back(
        {columns[0], columns[1], columns[2], numbers(columns[3]), numbers(columns[4]), columns[5] == "prose"});
  }
  return found;
}

/// The pieces of texts. A space is written as U+2581, and a byte as <0x41>. In a build with SentencePiece its model
/// `pieces.model`, if it is in the folder, cuts texts and joins them.
class vocabulary {
 public:
  /// Reads `pieces.txt` of a folder, and the scores of `pieces.vocab`, if it is there.
  explicit vocabulary(const std::string& folder) {
    std::ifstream in(folder + "/pieces.txt"), scored(folder + "/pieces.vocab");
    for (std::string line; std::getline(in, line);) pieces_.push_back(line);
    if (pieces_.size() < 4)
      throw gpipe::error("the file of pieces has " + std::to_string(pieces_.size()) + " lines",
                         "start the program by examples/run", {.file = folder + "/pieces.txt"});
    for (std::string line; std::getline(scored, line);) scores_.push_back(std::stod(line.substr(line.rfind('\t') + 1)));
    if (!scores_.empty() && scores_.size() != pieces_.size())
      throw gpipe::error(
          "there are " + std::to_string(scores_.size()) + " scores of " + std::to_string(pieces_.size()) + " pieces",
          "fetch the sentences again", {.file = folder + "/pieces.vocab"});
    scores_.resize(pieces_.size(), -1);
    for (std::size_t i = unknown + 1; i < pieces_.size(); ++i) {
      const std::string it = bytes_of(pieces_[i]);
      marked_ = marked_ || it.starts_with(space);
      longest_ = std::max(longest_, it.size());
      numbers_.emplace(it, static_cast<std::int32_t>(i));
    }
#if GPIPE_WITH_SENTENCEPIECE
    const std::string file = folder + "/pieces.model";
    if (!std::filesystem::exists(file)) return;
    model_.emplace(file);
    if (model_->size() != size())
      throw gpipe::error(
          "there are " + std::to_string(model_->size()) + " pieces, and " + std::to_string(size()) + " in pieces.txt",
          "fetch the sentences again", {.file = file});
#endif
  }

  int size() const { return static_cast<int>(pieces_.size()); }

  /// The text up to the end of the text.
  std::string text(const std::vector<std::int32_t>& pieces) const {
    std::vector<std::int32_t> known(pieces.begin(), std::find(pieces.begin(), pieces.end(), end_of_text));
    std::erase_if(known, [](std::int32_t piece) { return piece <= unknown; });
#if GPIPE_WITH_SENTENCEPIECE
    if (model_) return model_->decode(known);
#endif
    std::string all;
    for (const std::int32_t piece : known) all += bytes_of(pieces_.at(static_cast<std::size_t>(piece)));
    for (std::size_t at = 0; (at = all.find(space)) != std::string::npos;) all.replace(at, space.size(), " ");
    return all.starts_with(' ') ? all.substr(1) : all;
  }

  /// The pieces of a text whose scores sum to the most, as SentencePiece finds them; without scores the fewest. Wide
  /// forms of ASCII become ASCII before; SentencePiece itself brings all letters to Unicode's form NFKC.
  std::vector<std::int32_t> pieces(const std::string& text) const {
#if GPIPE_WITH_SENTENCEPIECE
    if (model_) return model_->encode(text);
#endif
    std::string all;
    std::istringstream words(narrowed(text));
    for (std::string word; words >> word;) {
      if (marked_) all += space;
      else if (!all.empty()) all += ' ';
      all += word;
    }
    struct step {
      double score = -1e300;
      std::size_t from = 0;
      std::int32_t piece = unknown;
    };
    std::vector<step> best(all.size() + 1);
    best[0].score = 0;
    const auto reach = [&](std::size_t from, std::size_t to, double score, std::int32_t piece) {
      if (best[from].score + score > best[to].score) best[to] = {best[from].score + score, from, piece};
    };
    const double lowest = *std::min_element(scores_.begin(), scores_.end()) - 10;
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (best[at].score == -1e300) continue;  // inside of a letter
      std::size_t letter = 1;
      while (at + letter < all.size() && (static_cast<unsigned char>(all[at + letter]) & 0xC0) == 0x80) ++letter;
      reach(at, at + letter, lowest, unknown);
      for (std::size_t size = 1; size <= std::min(longest_, all.size() - at); ++size)
        if (const auto found = numbers_.find(all.substr(at, size)); found != numbers_.end())
          reach(at, at + size, scores_[static_cast<std::size_t>(found->second)], found->second);
    }
    std::vector<std::int32_t> found;
    for (std::size_t at = all.size(); at > 0; at = best[at].from)
      if (found.empty() || best[at].piece != unknown || found.back() != unknown) found.push_back(best[at].piece);
    std::reverse(found.begin(), found.end());
    return found;
  }

 private:
  static constexpr std::string_view space = "\u2581";
  /// U+FF01 ... U+FF5E become ASCII, and U+3000 and U+200C spaces.
  static std::string narrowed(std::string_view text) {
    std::string all;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::string_view letter = text.substr(i, 3);
      const auto last = letter.size() < 3 ? 0 : static_cast<unsigned char>(letter[2]);
      if (letter == "\u3000" || letter == "\u200c") all += ' ', i += 2;
      else if (letter.starts_with("\xEF\xBC") && last > 0x80) all += static_cast<char>(last - 0x60), i += 2;
      else if (letter.starts_with("\xEF\xBD") && last > 0 && last < 0x9F) all += static_cast<char>(last - 0x20), i += 2;
      else all += text[i];
    }
    return all;
  }
  static std::string bytes_of(const std::string& piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x")) return piece;
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  }

  std::vector<std::string> pieces_;
  std::vector<double> scores_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::size_t longest_ = 0;
  bool marked_ = false;  // whether pieces have spaces
#if GPIPE_WITH_SENTENCEPIECE
  std::optional<gpipe::sentence_pieces> model_;
#endif
};

/// Whether both sides fit: the target also has the mark of its begin or end.
inline bool fits(const sentence_pair& it, std::size_t source, std::size_t target) {
  return !it.source_pieces.empty() && it.source_pieces.size() <= source && it.english_pieces.size() < target;
}

/// The fields of an encoder-decoder: "inputs", "lengths", "targets", "labels".
inline gpipe::dataset fields_of(const std::vector<const sentence_pair*>& pairs, std::size_t source,
                                std::size_t target) {
  std::vector<std::int32_t> inputs, lengths, targets, labels;
  for (const sentence_pair* const it : pairs) {
    lengths.push_back(static_cast<std::int32_t>(it->source_pieces.size()));
    for (std::size_t i = 0; i < source; ++i)
      inputs.push_back(i < it->source_pieces.size() ? it->source_pieces[i] : padding);
    const auto& english = it->english_pieces;
    for (std::size_t i = 0; i < target; ++i) {
      targets.push_back(i == 0 ? begin_of_text : i <= english.size() ? english[i - 1] : padding);
      labels.push_back(i < english.size() ? english[i] : i == english.size() ? end_of_text : -100);
    }
  }
  return gpipe::dataset()
      .with("inputs", source, inputs)
      .with("lengths", 1, lengths)
      .with("targets", target, targets)
      .with("labels", target, labels);
}

/// How much there is of a language, by its training sentences.
enum class resource { high, middle, low, very_low };
inline constexpr const char* resource_names[] = {"high", "middle", "low", "very low"};

inline resource resource_of(std::size_t sentences) {
  return sentences >= 8000   ? resource::high
         : sentences >= 3000 ? resource::middle
         : sentences >= 800  ? resource::low
                             : resource::very_low;
}

/// The English of the training sentence of the same language that has most runs of three bytes in common: a
/// translation by memory.
class nearest_sentence {
 public:
  explicit nearest_sentence(const std::vector<const sentence_pair*>& train) {
    for (const sentence_pair* const it : train) of_language_[it->language].push_back({it, runs(it->source)});
  }

  std::string english(const sentence_pair& of) const {
    const std::unordered_set<std::uint32_t> wanted = runs(of.source);
    double best = -1;
    const sentence_pair* found = nullptr;
    const auto known = of_language_.find(of.language);
    if (known == of_language_.end()) return {};
    for (const auto& [it, its] : known->second) {
      std::size_t common = 0;
      for (const std::uint32_t run : wanted) common += its.count(run);
      const double share = static_cast<double>(common) / static_cast<double>(wanted.size() + its.size() - common + 1);
      if (share > best) best = share, found = it;
    }
    return found->english;
  }

 private:
  static std::unordered_set<std::uint32_t> runs(const std::string& text) {
    std::unordered_set<std::uint32_t> all;
    for (std::size_t i = 0; i + 3 <= text.size(); ++i)
      all.insert(static_cast<unsigned char>(text[i]) |
                 static_cast<std::uint32_t>(static_cast<unsigned char>(text[i + 1])) << 8 |
                 static_cast<std::uint32_t>(static_cast<unsigned char>(text[i + 2])) << 16);
    return all;
  }

  struct known_sentence {
    const sentence_pair* pair;
    std::unordered_set<std::uint32_t> runs;
  };
  std::unordered_map<std::string, std::vector<known_sentence>> of_language_;
};

}  // namespace example
