#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// The timed parts of a layer; `backward` is both parts at once.
enum class timed : std::uint8_t { forward, backward_input, backward_parameters, backward };

/// The times of each layer of a stage: the newest times of each part. Allocates at construction only.
class layer_timer {
 public:
  explicit layer_timer(int layers) : series_(static_cast<std::size_t>(4 * layers)) {
    for (series& s : series_) s.newest.resize(kept);
  }

  void add(int layer, timed part, std::int64_t ns) noexcept {
    series& s = series_[index(layer, part)];
    s.newest[s.count++ % kept] = ns;
  }

  /// The median of the newest calls; -1 if there were none.
  GPIPE_COLD std::int64_t median(int layer, timed part) const {
    const series& s = series_[index(layer, part)];
    if (s.count == 0) return -1;
    std::vector<std::int64_t> sorted = s.newest;
    sorted.resize((std::min)(s.count, kept));
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  static constexpr std::size_t kept = 256;
  struct series {
    std::vector<std::int64_t> newest;
    std::size_t count = 0;
  };
  static std::size_t index(int layer, timed part) {
    return 4 * static_cast<std::size_t>(layer) + static_cast<std::size_t>(part);
  }

  std::vector<series> series_;  // [layer][part]
};

}  // namespace gpipe::detail
