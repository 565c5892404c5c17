// sanitizers: address

#include <gpipe/tools/images/image_set.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/torch_number.hpp"

using namespace gpipe;

namespace {

image_set two_images() {
  return {.channels = 2, .height = 1, .width = 2, .pixels = {0, 1, 0.5F, 1, 1, 0, 0.5F, 0}, .labels = {3, 1}};
}

/// Two images of two channels; the first has the numbers of tests/support/torch_number.hpp, the second their doubles.
void resizes(int height, int width, int to_height, int to_width, const std::vector<double>& want) {
  CAPTURE(height);
  image_set set{.channels = 2, .height = height, .width = width};
  const auto row = static_cast<std::size_t>(2 * height * width);
  for (std::size_t i = 0; i < 2 * row; ++i)
    set.pixels.push_back(static_cast<float>((i < row ? 1 : 2) * laws::torch_number(1, i % row)));
  set.resize(to_height, to_width);
  CHECK(set.height == to_height);
  CHECK(set.width == to_width);
  REQUIRE(set.pixels.size() == 2 * want.size());
  for (std::size_t i = 0; i < set.pixels.size(); ++i) {
    const double x = (i < want.size() ? 1 : 2) * want[i % want.size()];
    CHECK(std::fabs(static_cast<double>(set.pixels[i]) - x) < 5e-7);
  }
}

}  // namespace

// interpolate(x, size=(H, W), mode="bilinear", antialias=True) of torch 2.15 in float64.
TEST_CASE("images are resized as by torch.nn.functional.interpolate with antialias = True") {
  resizes(5, 7, 3, 4, {-0.4470481, -0.7505813, -0.3794113, -0.4177609, -0.1654241, -0.1372893, 0.0348573,  0.3591923,
                       0.0364583,  0.0820170,  0.2055013,  -0.3419434, -0.2382313, -0.0437185, -0.0537781, 0.1918855,
                       -0.0446163, 0.4331686,  0.2829687,  -0.4917006, 0.3597852,  0.0401242,  0.0124944,  0.5876000});
  resizes(3, 4, 4, 5, {-0.9973145, -0.9792480, -0.9593750, -0.9160156, -0.8798828, -0.8076172, -0.7570312, -0.6558594,
                       -0.6179199, -0.4914551, -0.5908203, -0.4824219, -0.4264160, -0.2927246, -0.2023926, -0.0397949,
                       0.0649902,  -0.1184601, 0.3305664,  -0.7024841, -0.4193420, -0.2025452, -0.1031799, 0.1389099,
                       0.2942810,  0.1903229,  0.5101288,  -0.0898590, 0.4025269,  -0.5221252, -0.5400391, -0.2329102,
                       -0.0974121, 0.2350098,  0.4445801,  -0.1939697, 0.4300049,  -0.5795898, -0.4260254, -0.0104980});
  resizes(7, 3, 2, 5, {-0.2456509, -0.0561637, -0.1426417, -0.2735442, 0.0118720,  -0.5996151, -0.2088084,
                       -0.2963515, -0.3559286, -0.0941758, -0.2297193, 0.2673170,  -0.0294899, -0.1132767,
                       0.2708542,  -0.6841672, 0.0285826,  -0.0118448, -0.1329317, 0.4363701});
  resizes(4, 4, 1, 1, {-0.1185222, -0.1210908});
}

TEST_CASE("an image of one colour stays so, one of the same size is not touched, and odd sizes are refused") {
  image_set set{.channels = 1, .height = 3, .width = 5, .pixels = std::vector<float>(15, 0.7F)};
  set.resize(11, 2);
  CHECK(set.pixels == std::vector<float>(22, 0.7F));
  const auto before = two_images().pixels;
  image_set same = two_images();
  same.resize(1, 2);
  CHECK(same.pixels == before);
  for (const int extent : {0, -1, 1 << 20})
    CHECK_THROWS_WITH_AS(same.resize(extent, 2), doctest::Contains("choose extents of 1 to 65536"), error);
  CHECK(same.pixels == before);
}

TEST_CASE("channels are measured over all pixels of all images, and normalized") {
  image_set set = two_images();
  CHECK(set.count() == 2);
  const channel_norm norm = set.norm();
  CHECK(norm.mean == std::vector<float>{0.5F, 0.5F});
  CHECK(norm.deviation[0] == doctest::Approx(std::sqrt(0.125)));
  CHECK(norm.deviation[1] == 0.5F);
  set.normalize(norm);
  const channel_norm after = set.norm();
  for (const std::size_t c : {0U, 1U}) {
    CHECK(after.mean[c] == doctest::Approx(0));
    CHECK(after.deviation[c] == doctest::Approx(1));
  }
  CHECK(set.pixels[1] == 1);
  CHECK(set.pixels[5] == -1);
}

TEST_CASE("a dataset has a row for each image, with its label if there is one") {
  const dataset data = two_images().data();
  CHECK(data.samples() == 2);
  CHECK(data.fields()[0].size == 4);
  CHECK(data.field<float>("inputs")[4] == 1);
  CHECK(data.field<std::int32_t>("labels")[0] == 3);
  image_set unknown = two_images();
  unknown.labels.clear();
  CHECK(unknown.data().fields().size() == 1);
}

TEST_CASE("numbers that do not fit the channels are refused") {
  image_set set = two_images();
  const std::vector<float> before = set.pixels;
  CHECK_THROWS_WITH_AS(set.normalize(imagenet_norm()),
                       doctest::Contains("there are 3 means and 3 deviations, and images of 2 channels"), error);
  CHECK_THROWS_WITH_AS(set.normalize({{0, 0}, {1, 0}}), doctest::Contains("channel 1 has the deviation 0.0"), error);
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK_THROWS_WITH_AS(set.normalize({{0, 0}, {infinite, 1}}), doctest::Contains("channel 0 has the deviation inf"),
                       error);
  CHECK_THROWS_WITH_AS(set.normalize({{-infinite, 0}, {1, 1}}), doctest::Contains("the mean -inf"), error);
  CHECK(set.pixels == before);
  CHECK_THROWS_WITH_AS(image_set{}.norm(), doctest::Contains("there are no images to measure"), error);
  CHECK(image_set{}.count() == 0);
}
