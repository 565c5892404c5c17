#include <gpipe/layer/contract/channels.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/device/host/team.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <class Tensor>
void covers(int samples) {
  using channels = channel_strips<Tensor>;
  std::vector<int> seen(static_cast<std::size_t>(samples) * Tensor::size);
  const host::team team;
  for (std::ptrdiff_t first = 0; first < channels::count; first += channels::lanes) {
    channels::each(team, samples, first, [&](std::ptrdiff_t place, std::ptrdiff_t lane) {
      ++seen[static_cast<std::size_t>(place)];
      CHECK(place / channels::inner % channels::count == first + lane);
    });
    double sum[channels::lanes];
    channels::sum(team, samples, first, sum, [](std::ptrdiff_t place, std::ptrdiff_t) { return place; });
    for (int lane = 0; lane < channels::lanes; ++lane) {
      double expected = 0;
      for (int s = 0; s < samples && first + lane < channels::count; ++s)
        for (std::ptrdiff_t i = 0; i < channels::inner; ++i)
          expected += static_cast<double>((s * channels::count + first + lane) * channels::inner + i);
      CHECK(sum[lane] == expected);
    }
  }
  for (const int times : seen) CHECK(times == 1);
}

}  // namespace

static_assert(channel_strips<tensor<float, 64, 28, 28>>::inner == 784);
static_assert(channel_strips<tensor<float, 64, 28, 28>>::strips == 64);
static_assert(channel_strips<tensor<float, 70>>::strips == 1 && channel_strips<tensor<float, 70>>::width(0) == 70);
static_assert(channel_strips<tensor<float, 600>>::strips == 3 && channel_strips<tensor<float, 600>>::width(512) == 88);
static_assert(lanes_for(1) == 32 && lanes_for(33) == 64 && lanes_for(224) == 224 && lanes_for(225) == 256);

TEST_CASE("each loop visits every element once, with its channel") {
  covers<tensor<float, 3, 4, 5>>(2);
  covers<tensor<double, 1, 7>>(3);
  covers<tensor<float, 5>>(4);
  covers<tensor<float, 64>>(1);
  covers<tensor<float, 70>>(3);
  covers<tensor<float, 600>>(2);
}
