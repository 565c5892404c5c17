// sanitizers: address

#include <gpipe/train/data/images/image_set.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace gpipe;

namespace {

image_set two_images() {
  return {.channels = 2, .height = 1, .width = 2, .pixels = {0, 1, 0.5F, 1, 1, 0, 0.5F, 0}, .labels = {3, 1}};
}

}  // namespace

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
