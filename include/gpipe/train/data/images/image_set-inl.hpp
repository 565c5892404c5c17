#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/finite.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/data/images/image_set.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE channel_norm image_set::norm() const {
  const auto C = static_cast<std::size_t>(channels);
  if (C == 0 || pixels.empty()) detail::throw_error({"there are no images to measure"}, {"read some"});
  const double n = static_cast<double>(pixels.size() / C);
  std::vector<double> mean(C), square(C);
  for (std::size_t i = 0; i < pixels.size(); ++i) mean[i % C] += static_cast<double>(pixels[i]);
  for (double& m : mean) m /= n;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double d = static_cast<double>(pixels[i]) - mean[i % C];
    square[i % C] += d * d;
  }
  channel_norm found;
  for (std::size_t c = 0; c < C; ++c) {
    found.mean.push_back(static_cast<float>(mean[c]));
    found.deviation.push_back(static_cast<float>(std::sqrt(square[c] / n)));
  }
  return found;
}

GPIPE_COLD GPIPE_INLINE void image_set::normalize(const channel_norm& by) {
  const auto C = static_cast<std::size_t>(channels);
  if (by.mean.size() != C || by.deviation.size() != C)
    detail::throw_error({"there are ", by.mean.size(), " means and ", by.deviation.size(),
                         " deviations, and images of ", channels, " channels"},
                        {"give one of each for each channel"});
  for (std::size_t c = 0; c < C; ++c)
    if (!(by.deviation[c] > 0) || !detail::is_finite(by.deviation[c]) || !detail::is_finite(by.mean[c]))
      detail::throw_error({"channel ", c, " has the deviation ", std::to_string(by.deviation[c]), " and the mean ",
                           std::to_string(by.mean[c])},
                          {"give finite numbers and a deviation above 0; 1 leaves a channel's scale"});
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = (pixels[i] - by.mean[i % C]) / by.deviation[i % C];
}

GPIPE_COLD GPIPE_INLINE dataset image_set::data() const {
  dataset all;
  all.with("inputs", row(), pixels);
  if (!labels.empty()) all.with("labels", 1, labels);
  return all;
}

}  // namespace gpipe
