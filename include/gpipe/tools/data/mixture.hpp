#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

class mixture_order;

}  // namespace detail

/// A part of a mixture: a dataset, which must outlive it, and a name for errors and counts.
struct mixture_part {
  std::string name;
  const dataset* data = nullptr;
};

struct mixture_options {
  double temperature = 1;  ///< T, above 0: 1 draws all samples equally often; the larger, the more equal the parts
  std::uint64_t seed = 0;  ///< of the draws
  int samples = 0;         ///< per epoch; 0: as many as the parts have together
};

/// Samples of many datasets. Part l with n_l samples is drawn with the probability
///
///     p_l = n_l^(1 / T) / sum of all,   n = 1,000,000 and 100:  T = 1  0.9999 and 0.0001,  T = 5  0.86 and 0.14
///
/// so that small sets, such as languages with few sentences, are seen more often than their share (Devlin et al.,
/// BERT's multilingual page, 2018; Huang et al., "GPipe", 2019, section 5). Within an epoch the samples of a part come
/// in a shuffled order, each once before any comes again. The sample at a position is a function of seed and epoch
/// alone, so a stopped training resumes exactly.
///
///     const mixture data({{"fr", &french}, {"gd", &gaelic}}, {.temperature = 5, .seed = 1});
///     fit(training, data, {.epochs = 3});
class mixture final : public data_source {
 public:
  /// Throws `error` if there is no part, if a part has no samples, other fields than the first, or the name of another,
  /// or if the temperature is not above 0.
  explicit mixture(std::vector<mixture_part> parts, const mixture_options& options = {});

  int samples() const override { return source_.samples(); }
  std::unique_ptr<data_stream> open(const batch_order& order) const override { return source_.open(order); }

  /// The probability of a part. Throws `error` if no part has this name.
  double probability(std::string_view part) const;
  /// The samples of each part in an epoch, in the order of the parts.
  std::vector<int> drawn(std::uint64_t epoch) const;

 private:
  std::shared_ptr<detail::mixture_order> order_;
  generated_data source_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/data/mixture-inl.hpp>
#endif
