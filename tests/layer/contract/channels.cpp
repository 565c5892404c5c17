#include <gpipe/layer/contract/channels.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include <gpipe/device/host/team.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <bool SideBySide>
void covers(channel_strips<SideBySide> channels, int samples) {
  constexpr std::size_t max_lanes = channel_strips<SideBySide>::max_lanes;
  std::vector<int> seen(static_cast<std::size_t>(samples * channels.elements()));
  const host::team team;
  for (std::ptrdiff_t strip = 0; strip < channels.strips(); ++strip) {
    const std::ptrdiff_t first = strip * channels.max_lanes, width = channels.width(first);
    channels.each(team, samples, first, width, [&](std::ptrdiff_t position, std::ptrdiff_t lane) {
      ++seen[static_cast<std::size_t>(position)];
      CHECK(position / channels.inner % channels.count == first + lane);
    });
    double sum[max_lanes], one[max_lanes], two[max_lanes];
    channels.sum(team, samples, first, width, sum, [](std::ptrdiff_t position, std::ptrdiff_t) { return position; });
    if (SideBySide)
      channels.two_sums(team, samples, first, width, one, two,
                        [](double& a, double& b, std::ptrdiff_t position, std::ptrdiff_t lane) {
                          a += static_cast<double>(position);
                          b += static_cast<double>(lane);
                        });
    for (std::ptrdiff_t lane = 0; lane < width; ++lane) {
      double expected = 0;
      for (int s = 0; s < samples; ++s)
        for (std::ptrdiff_t i = 0; i < channels.inner; ++i)
          expected += static_cast<double>((s * channels.count + first + lane) * channels.inner + i);
      CHECK(sum[lane] == expected);
      if (SideBySide) CHECK((one[lane] == expected && two[lane] == static_cast<double>(samples * lane)));
    }
  }
  for (const int times : seen) CHECK(times == 1);
}

using behind = channel_strips<false>;
using beside = channel_strips<true>;

}  // namespace

static_assert(behind{64, 784}.strips() == 64 && behind{64, 784}.elements() == 64 * 784);
static_assert(beside{70, 1}.strips() == 1 && beside{70, 1}.width(0) == 70);
static_assert(beside{600, 1}.strips() == 3 && beside{600, 1}.width(512) == 88);

static_assert(pixel_strips{600, 49}.rows(2) == 6 && pixel_strips{600, 49}[5].sample == 1);
static_assert(pixel_strips{600, 49}[5].first == 512 && pixel_strips{600, 49}[5].width == 88);
static_assert(pixel_strips{600, 49}[5].element == 600 * 49 + 512);

TEST_CASE("each loop visits every element once, with its channel") {
  covers(behind{3, 20}, 2);
  covers(behind{1, 7}, 3);
  covers(beside{5, 1}, 4);
  covers(beside{64, 1}, 9);
  covers(beside{70, 1}, 3);
  covers(beside{600, 1}, 2);
}

TEST_CASE("parts cover a strip once, in order, and a common width is a constant") {
  for (const std::ptrdiff_t width : {1, 2, 3, 4, 7, 8, 16, 20, 32, 33, 48, 64, 100, 128, 256, 300}) {
    std::ptrdiff_t covered = 0;
    int unknown = 0;
    in_parts(host::team{}, width, [&](std::ptrdiff_t first, auto part) {
      CHECK(first == covered);
      covered += part;
      if (std::is_same_v<decltype(part), std::ptrdiff_t>) ++unknown;
    });
    CHECK(covered == width);
    CHECK(unknown == (width % 4 == 0 || width == 3 || width == 7 ? 0 : 1));
  }
}
