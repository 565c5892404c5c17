#pragma once

// Sentences of many languages, in batches of one length each.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/lengths.hpp>

#include "sentences.hpp"

namespace example {

using pairs_by_language = std::map<std::string, std::vector<const sentence_pair*>>;

/// The pieces of the longer side of a pair; the English one also has the mark of its begin or end.
inline int positions_of(const sentence_pair& it) {
  return static_cast<int>(std::max(it.source_pieces.size(), it.english_pieces.size() + 1));
}

struct by_length_settings {
  std::vector<int> lengths{};
  int tokens = 0;          ///< of a batch, padding included
  double temperature = 1;  ///< a language with n sentences is drawn by n^(1 / temperature)
  std::uint64_t seed = 0;  ///< of the order in which a language's sentences are drawn
  int in_epoch = 25'600;   ///< at most; there are no more in an epoch than all languages have
};

/// Each epoch draws other sentences, as many of each length as in any epoch, and hands them to a `batches_by_length`:
///
///     cell (language, length), share w  ->  its sentences in a shuffled order, epoch after epoch
///     |--fr 16--|-de 16-|-gd 16-|  ...      points at equal distances choose how many of each, to within one
///       .    .    .    .    .
///
/// Sentences are a function of seed and epoch alone, so a training that was stopped goes on exactly.
class sentences_by_length final : public gpipe::data_source {
 public:
  sentences_by_length(const pairs_by_language& languages, by_length_settings how) : how_(std::move(how)) {
    std::size_t all = 0;
    double sum = 0;
    for (const auto& [language, pairs] : languages) {
      all += pairs.size();
      sum += gpipe::math::pow(static_cast<double>(pairs.size()), 1 / how_.temperature);
    }
    samples_ = static_cast<int>(std::min(all, static_cast<std::size_t>(how_.in_epoch)));
    for (const int length : how_.lengths) {
      const int shorter = of_length_.empty() ? 0 : how_.lengths[of_length_.size() - 1];
      length_cells cells;
      for (const auto& [language, pairs] : languages) {
        cell its;
        for (const sentence_pair* const it : pairs)
          if (const int positions = positions_of(*it); positions > shorter && positions <= length)
            its.pairs.push_back(it);
        if (its.pairs.empty()) continue;
        const auto number = static_cast<std::uint32_t>(cells.all.size());
        for (std::size_t i = its.pairs.size(); i > 1; --i) {
          const auto word = gpipe::draw({.seed = how_.seed, .layer_index = static_cast<std::uint32_t>(length)}, number,
                                        static_cast<std::uint32_t>(i))
                                .word[0];
          std::swap(its.pairs[i - 1], its.pairs[word % i]);
        }
        const auto count = static_cast<double>(pairs.size());
        its.wanted = samples_ * gpipe::math::pow(count, 1 / how_.temperature) / sum *
                     static_cast<double>(its.pairs.size()) / count;
        cells.wanted += its.wanted;
        cells.all.push_back(std::move(its));
      }
      of_length_.push_back(std::move(cells));
    }
    // As many of each length as a whole number, and all samples together.
    double before = 0;
    int given = 0;
    for (length_cells& cells : of_length_) {
      before += cells.wanted;
      cells.count = static_cast<int>(std::lround(before)) - given;
      given += cells.count;
    }
    own_ = drawn(0)->batches->own();
  }

  int samples() const override { return samples_; }
  gpipe::own_batches own() const override { return own_; }
  std::unique_ptr<gpipe::data_stream> open(const gpipe::batch_order& order) const override {
    return std::make_unique<stream>(*this, order);
  }

  /// The sentences of an epoch.
  std::vector<const sentence_pair*> sentences(std::uint64_t epoch) const {
    std::vector<const sentence_pair*> all;
    std::uint32_t length = 0;
    for (const length_cells& cells : of_length_) {
      const double first =
          (gpipe::draw({.seed = how_.seed, .step = epoch, .layer_index = ~7U}, length++, 0).word[0]) * 0x1p-32;
      double end = 0;
      int taken = 0;
      for (const cell& its : cells.all) {
        end += its.wanted / cells.wanted * cells.count;
        auto at = static_cast<std::size_t>(its.wanted * static_cast<double>(epoch));
        for (; taken < cells.count && (taken + first < end || &its == &cells.all.back()); ++taken)
          all.push_back(its.pairs[at++ % its.pairs.size()]);
      }
    }
    return all;
  }

 private:
  struct cell {
    std::vector<const sentence_pair*> pairs;
    double wanted = 0;  // in an epoch
  };
  struct length_cells {
    std::vector<cell> all;
    double wanted = 0;
    int count = 0;
  };
  struct epoch_batches {
    gpipe::dataset data;
    std::optional<gpipe::batches_by_length> batches;
  };
  class stream final : public gpipe::data_stream {
   public:
    stream(const sentences_by_length& from, const gpipe::batch_order& order)
        : from_(from), order_(order), at_(gpipe::detail::first_of(order, from)) {}

    const gpipe::batch* next() override {
      for (; at_.epoch < order_.epochs; at_ = {at_.epoch + 1, 0}, now_.reset()) {
        if (now_ == nullptr) {
          now_ = from_.drawn(at_.epoch);
          gpipe::batch_order its = order_;
          its.first = {at_.epoch, at_.batch, now_->batches->own().tokens};
          its.epochs = at_.epoch + 1;
          batches_ = now_->batches->open(its);
        }
        if (const gpipe::batch* const found = batches_->next()) return found;
      }
      return nullptr;
    }

   private:
    const sentences_by_length& from_;
    gpipe::batch_order order_;
    gpipe::data_position at_;
    std::unique_ptr<const epoch_batches> now_;
    std::unique_ptr<gpipe::data_stream> batches_;
  };

  std::unique_ptr<const epoch_batches> drawn(std::uint64_t epoch) const {
    const std::vector<const sentence_pair*> chosen = sentences(epoch);
    std::vector<int> positions;
    for (const sentence_pair* const it : chosen) positions.push_back(positions_of(*it));
    const auto longest = static_cast<std::size_t>(how_.lengths.back());
    auto made = std::make_unique<epoch_batches>();
    made->data = fields_of(chosen, longest, longest);
    made->batches.emplace(made->data, positions,
                          gpipe::by_length_options{.lengths = how_.lengths, .tokens = how_.tokens});
    return made;
  }

  by_length_settings how_;
  std::vector<length_cells> of_length_;
  int samples_ = 0;
  gpipe::own_batches own_;
};

}  // namespace example
