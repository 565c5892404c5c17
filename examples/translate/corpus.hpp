#pragma once

// The sentences of a training, and those that it translates at its end.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>

#include "sentences.hpp"

namespace example {

/// The training sentences by language, and as many held-out ones of each class of resource as there are, up to a
/// number.
struct corpus {
  std::vector<sentence_pair> train, test;
  std::map<std::string, std::vector<const sentence_pair*>> languages;
  std::vector<const sentence_pair*> all, chosen;
  std::vector<resource> classes;  // of the chosen

  /// Sentences have at most `longest` pieces, which are below `pieces`.
  corpus(const std::string& folder, int tests, int pieces, int longest)
      : train(read_sentences(folder + "/train.tsv", pieces)), test(read_sentences(folder + "/test.tsv", pieces)) {
    const auto fits = [positions = static_cast<std::size_t>(longest)](const sentence_pair& it) {
      return example::fits(it, positions, positions);
    };
    for (const sentence_pair& it : train)
      if (fits(it)) languages[it.language].push_back(&it), all.push_back(&it);
    if (all.empty())
      throw gpipe::error("no training sentence has at most " + std::to_string(longest) + " pieces",
                         "fetch the sentences again", {.file = folder + "/train.tsv"});
    for (int c = 0; c < 4; ++c) {
      std::vector<const sentence_pair*> of_class;
      for (const sentence_pair& it : test)
        if (const auto known = languages.find(it.language);
            fits(it) && known != languages.end() && resource_of(known->second.size()) == static_cast<resource>(c))
          of_class.push_back(&it);
      const std::size_t count = std::min(of_class.size(), static_cast<std::size_t>(tests) / 4);
      for (std::size_t i = 0; i < count; ++i)  // evenly over the class
        chosen.push_back(of_class[i * of_class.size() / count]), classes.push_back(static_cast<resource>(c));
    }
    if (chosen.empty())
      throw gpipe::error("there is no held-out sentence of a language that is trained", "fetch the sentences again",
                         {.file = folder + "/test.tsv"});
  }
  corpus(const corpus&) = delete;  // it points into itself
  corpus& operator=(const corpus&) = delete;
};

}  // namespace example
