#include <gpipe/tools/images/augmented_images.hpp>

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

using namespace gpipe;

namespace {

/// Images of 3 x 4 pixels with 2 channels: pixel (y, x) of sample n has 100 n + 10 y + x + 1, and the same below 0.
dataset images(int count) {
  std::vector<float> rows;
  std::vector<std::int32_t> labels;
  for (int n = 0; n < count; ++n) {
    labels.push_back(n);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 4; ++x)
        for (const int sign : {1, -1}) rows.push_back(static_cast<float>(sign * (100 * n + 10 * y + x + 1)));
  }
  return dataset().with("inputs", 24, rows).with("labels", 1, labels);
}

struct seen {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};

seen read(const data_source& data, const batch_order& order) {
  seen all;
  const auto stream = data.open(order);
  while (const batch* next = stream->next()) {
    for (const auto& field : next->entries()) {
      const auto count = static_cast<std::size_t>(next->samples());
      if (field.name == "labels") {
        const auto* from = static_cast<const std::int32_t*>(field.data);
        all.labels.insert(all.labels.end(), from, from + count);
      } else {
        const auto* from = static_cast<const float*>(field.data);
        all.inputs.insert(all.inputs.end(), from, from + 24 * count);
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("an image is moved and mirrored as a whole, and differs from epoch to epoch") {
  const dataset data = images(40);
  const augmented_images changed(data,
                                 {.height = 3, .width = 4, .channels = 2, .shift = 1, .mirror = true, .border = 0.5F});
  CHECK(changed.samples() == 40);
  const seen found = read(changed, {.size = 7, .epochs = 3});
  REQUIRE(found.labels.size() == 120);
  std::set<std::vector<int>> changes;
  for (std::size_t i = 0; i < 120; ++i) {
    const int n = found.labels[i];
    const float* at = found.inputs.data() + 24 * i;
    std::vector<int> change;  // the one that explains every pixel
    for (int down = -1; down <= 1; ++down)
      for (int across = -1; across <= 1; ++across)
        for (const int mirrored : {0, 1}) {
          bool same = true;
          for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 4; ++x)
              for (int c = 0; c < 2; ++c) {
                const int row = y - down, column = (mirrored ? 3 - x : x) - across;
                const bool inside = row >= 0 && row < 3 && column >= 0 && column < 4;
                const float expected =
                    inside ? static_cast<float>((c == 0 ? 1 : -1) * (100 * n + 10 * row + column + 1)) : 0.5F;
                same = same && at[(y * 4 + x) * 2 + c] == expected;
              }
          if (same) change = {down, across, mirrored};
        }
    CHECK(!change.empty());
    changes.insert(change);
  }
  CHECK(changes.size() == 18);  // each of them occurs in 120 images
}

TEST_CASE("a change depends on seed, epoch and sample alone") {
  const dataset data = images(11);
  const image_changes how{.height = 3, .width = 4, .channels = 2, .shift = 2, .mirror = true, .seed = 5};
  const augmented_images changed(data, how);
  const seen all = read(changed, {.size = 4, .shuffled = true, .seed = 3, .epochs = 2});
  const seen later = read(changed, {.size = 4, .shuffled = true, .seed = 3, .first = {1, 1}, .epochs = 2});
  CHECK(std::equal(later.inputs.begin(), later.inputs.end(),
                   all.inputs.end() - static_cast<std::ptrdiff_t>(later.inputs.size())));
  const seen other_batches = read(changed, {.size = 3, .epochs = 1});
  std::map<int, std::vector<float>> by_label;
  for (std::size_t i = 0; i < 11; ++i)
    by_label[all.labels[i]].assign(all.inputs.begin() + static_cast<std::ptrdiff_t>(24 * i),
                                   all.inputs.begin() + static_cast<std::ptrdiff_t>(24 * i + 24));
  for (std::size_t i = 0; i < 11; ++i)
    CHECK(std::equal(by_label[other_batches.labels[i]].begin(), by_label[other_batches.labels[i]].end(),
                     other_batches.inputs.begin() + static_cast<std::ptrdiff_t>(24 * i)));
  image_changes reseeded = how;
  reseeded.seed = 6;
  CHECK(read(augmented_images(data, reseeded), {.size = 3}).inputs != other_batches.inputs);
}

TEST_CASE("wrong extents and a wrong shift are refused") {
  const dataset data = images(2);
  CHECK_THROWS_WITH(
      augmented_images(data, {.height = 3, .width = 3, .channels = 2}),
      "field \"inputs\" has 24 numbers a sample, and an image of 3 x 3 pixels and 2 channels has 18; give the "
      "extents of the images");
  CHECK_THROWS_WITH(augmented_images(data, {.height = 3, .width = 4, .channels = 2, .shift = -1}),
                    "shift is -1, and images have 3 x 4 pixels; choose a number of pixels from 0 to 4");
  CHECK_THROWS_WITH(augmented_images(data, {.height = 3, .width = 4, .channels = 2, .shift = 5}),
                    "shift is 5, and images have 3 x 4 pixels; choose a number of pixels from 0 to 4");
  CHECK_NOTHROW(augmented_images(data, {.height = 3, .width = 4, .channels = 2, .shift = 4}));
  CHECK_THROWS_WITH(augmented_images(data, {.height = -3, .width = -4, .channels = 2}),  // -3 x -4 = 12
                    "height, width and channels are -3, -4 and 2; choose at least 1 of each");
  CHECK_THROWS_AS(augmented_images(data, {.height = 3, .width = 4, .channels = 2, .field = "none"}), error);
}

TEST_CASE("a mask moves and is mirrored with its image, and 0 moves in") {
  std::vector<float> inputs, masks;
  for (int i = 0; i < 20 * 3 * 4; ++i) {
    masks.push_back(static_cast<float>(i + 1));
    for (const int sign : {1, -1}) inputs.push_back(static_cast<float>(sign * (i + 1)));
  }
  const dataset data = dataset().with("inputs", 24, inputs).with("mask", 12, masks);
  const augmented_images changed(
      data, {.height = 3, .width = 4, .channels = 2, .shift = 2, .mirror = true, .border = 0.5F, .mask = "mask"});
  int inside = 0, outside = 0;
  const auto stream = changed.open({.size = 6, .epochs = 2});
  while (const batch* next = stream->next()) {
    const auto* const images = static_cast<const float*>(next->entries()[0].data);
    const auto* const moved = static_cast<const float*>(next->entries()[1].data);
    for (int i = 0; i < 12 * next->samples(); ++i) {
      CHECK(moved[i] == (images[2 * i] == 0.5F ? 0 : images[2 * i]));
      ++(moved[i] == 0 ? outside : inside);
    }
  }
  CHECK(inside > 0);
  CHECK(outside > 0);
  CHECK_THROWS_WITH_AS(augmented_images(data, {.height = 3, .width = 8, .mask = "mask"}),
                       doctest::Contains("field \"mask\" has 12 numbers a sample"), error);
  CHECK_THROWS_AS(augmented_images(data, {.height = 3, .width = 8, .mask = "none"}), error);
}
