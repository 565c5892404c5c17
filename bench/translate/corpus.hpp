#pragma once

#include <gpipe/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/translate/model.hpp"
#include "../../examples/translate/sentences.hpp"
#include "../../examples/translate/sentences_by_length.hpp"

namespace bench {

inline constexpr int longest_text = 32;
using example::all_pieces;

/// A language whose held-out sentences are translated.
struct tested_language {
  std::string name;
  example::resource of{};
  std::vector<const example::sentence_pair*> held_out;
};

/// The sentences of at most `longest_text` pieces, and some languages of each class of resource. Held-out sentences are
/// those of the parts "dev" and "test", of which nothing here chooses anything.
class corpus {
 public:
  corpus(const std::string& folder, int languages, int tests) : words_(folder) {
    if (words_.size() > all_pieces)
      throw gpipe::error(
          "there are " + std::to_string(words_.size()) + " pieces, and the model has " + std::to_string(all_pieces),
          "fetch the sentences again", {.file = folder + "/pieces.txt"});
    train_ = example::read_sentences(folder + "/train.tsv", all_pieces);
    for (const char* part : {"/dev.tsv", "/test.tsv"})
      for (auto& it : example::read_sentences(folder + part, all_pieces)) held_out_.push_back(std::move(it));
    std::map<std::string, std::size_t> sizes;  // a class counts sentences of all lengths
    for (const auto& it : train_) {
      ++sizes[it.language];
      if (example::fits(it, longest_text, longest_text)) languages_[it.language].push_back(&it);
    }
    std::map<std::string, std::vector<const example::sentence_pair*>> tested;
    for (const auto& it : held_out_)
      if (example::fits(it, longest_text, longest_text)) tested[it.language].push_back(&it);
    for (int c = 0; c < 4; ++c)
      choose(static_cast<example::resource>(c), sizes, tested, static_cast<std::size_t>(languages),
             static_cast<std::size_t>(tests));
    if (chosen_.empty())
      throw gpipe::error("no language has 10 held-out sentences", "fetch the sentences again",
                         {.file = folder + "/test.tsv"});
  }

  const example::pairs_by_language& languages() const { return languages_; }
  const std::vector<tested_language>& tested() const { return chosen_; }
  const example::vocabulary& words() const { return words_; }

 private:
  // Languages at equal distances in the order of their sizes, each with its first sentences that fit.
  void choose(example::resource of, const std::map<std::string, std::size_t>& sizes,
              const std::map<std::string, std::vector<const example::sentence_pair*>>& tested, std::size_t languages,
              std::size_t tests) {
    std::vector<std::pair<std::size_t, std::string>> usable;
    for (const auto& [language, pairs] : languages_)
      if (const auto found = tested.find(language);
          found != tested.end() && found->second.size() >= 10 && example::resource_of(sizes.at(language)) == of)
        usable.emplace_back(sizes.at(language), language);
    std::sort(usable.rbegin(), usable.rend());
    const std::size_t count = std::min(languages, usable.size());
    for (std::size_t i = 0; i < count; ++i) {
      tested_language its{usable[(2 * i + 1) * usable.size() / (2 * count)].second, of, {}};
      const auto& all = tested.at(its.name);
      const std::size_t taken = std::min(all.size(), tests);
      for (std::size_t s = 0; s < taken; ++s) its.held_out.push_back(all[s * all.size() / taken]);
      chosen_.push_back(std::move(its));
    }
  }

  example::vocabulary words_;
  std::vector<example::sentence_pair> train_, held_out_;
  example::pairs_by_language languages_;
  std::vector<tested_language> chosen_;
};

}  // namespace bench
