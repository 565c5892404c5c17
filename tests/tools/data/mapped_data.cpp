#include <gpipe/tools/data/mapped_data.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gpipe/train/data/dataset.hpp>

#include "support/sanitized.hpp"

using namespace gpipe;

namespace {

/// A file with these bytes while it is in scope.
struct file_of {
  std::string path;
  template <class Numbers>
  file_of(std::string name, const Numbers& numbers) : path(std::move(name)) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof numbers[0]));
  }
  ~file_of() { std::remove(path.c_str()); }
};

constexpr int count = 3000;
constexpr std::size_t width = 5;

std::vector<float> inputs() {
  std::vector<float> all(width * count);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
  return all;
}
std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> all(count);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
  return all;
}

/// The labels of all batches; every row must belong to its label and to its number.
std::vector<int> labels_of(data_stream& stream) {
  std::vector<int> found;
  while (const batch* b = stream.next()) {
    const auto* x = static_cast<const float*>(b->find("inputs")->data);
    const auto* y = static_cast<const std::int32_t*>(b->find("labels")->data);
    for (int i = 0; i < b->samples(); ++i) {
      found.push_back(y[i]);
      REQUIRE(b->dataset_rows()[i] == y[i]);
      for (std::size_t j = 0; j < width; ++j)
        REQUIRE(x[width * static_cast<std::size_t>(i) + j] ==
                static_cast<float>(width * static_cast<std::size_t>(y[i]) + j));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("mapped rows are those of a dataset, whatever the memory") {
  const file_of x("mapped_inputs.f32", inputs()), y("mapped_labels.i32", labels());
  const dataset held = dataset{}.with("inputs", width, inputs()).with("labels", 1, labels());
  const batch_order shuffled{.size = 37, .shuffled = true, .seed = 2, .first = {0, 5}, .epochs = 3};
  std::vector<int> ascending;
  for (int i = 0; i < count; ++i) ascending.push_back(i);
  for (const std::size_t memory : {std::size_t{1}, std::size_t{5000}, std::size_t{20000}, std::size_t{1} << 20}) {
    CAPTURE(memory);
    const auto data = mapped_data(memory).with<float>("inputs", width, x.path).with<std::int32_t>("labels", 1, y.path);
    CHECK(data.samples() == count);
    CHECK(labels_of(*data.open({.size = 64})) == ascending);
    const std::vector<int> order = labels_of(*data.open(shuffled));
    CHECK(order == labels_of(*data.open(shuffled)));
    std::vector<int> last(order.end() - count, order.end());
    std::sort(last.begin(), last.end());
    CHECK(last == ascending);
    CHECK((order == labels_of(*held.open(shuffled))) == (memory > 2 * count * 24));
  }
}

TEST_CASE("fields may be places in one file: columns one after the other, or records") {
  std::vector<float> columns = inputs();
  for (const std::int32_t label : labels()) columns.push_back(std::bit_cast<float>(label));
  const file_of one("mapped_columns.bin", columns);
  const auto of_columns = mapped_data()
                              .with<float>("inputs", width, one.path, {.rows = count})
                              .with<std::int32_t>("labels", 1, one.path, {.offset = 4 * width * count});
  CHECK(labels_of(*of_columns.open({.size = 64})).size() == count);

  std::vector<float> records{-1, -2};  // a header of 8 bytes
  for (int i = 0; i < count; ++i) {
    records.push_back(std::bit_cast<float>(i));
    for (std::size_t j = 0; j < width; ++j)
      records.push_back(static_cast<float>(width * static_cast<std::size_t>(i) + j));
  }
  const file_of two("mapped_records.bin", records);
  const auto of_records = mapped_data(4096)
                              .with<float>("inputs", width, two.path, {.offset = 12, .stride = 24})
                              .with<std::int32_t>("labels", 1, two.path, {.offset = 8, .stride = 24});
  CHECK(of_records.samples() == count);
  CHECK(labels_of(*of_records.open({.size = 64, .shuffled = true})).size() == count);
}

TEST_CASE("a file that becomes shorter is an error, and not the end of the program") {
  const file_of x("mapped_short.f32", inputs());
  const auto data = mapped_data(4096).with<float>("inputs", width, x.path);
  auto stream = data.open({.size = 64});
  REQUIRE(stream->next() != nullptr);
  std::filesystem::resize_file(x.path, 32768);
  CHECK_THROWS_WITH_AS(
      [&] {
        while (stream->next() != nullptr) continue;
      }(),
      doctest::Contains("the file ends at byte"), error);
}

#if defined(__linux__) && !defined(TESTS_SANITIZED)
namespace {

/// The bytes of this process that are resident, of files too: from the page tables, for counters may be late.
std::size_t resident() {
  std::ifstream from("/proc/self/smaps_rollup");
  std::size_t kib = 0;
  for (std::string word; from >> word;)
    if (word == "Rss:") from >> kib;
  return kib << 10;
}

}  // namespace

TEST_CASE("a stream holds no more than the memory that it is given, and two batches") {
  constexpr std::size_t row = 1000;
  constexpr int rows = 12'000;  // 48 MB
  file_of x("mapped_large.f32", std::vector<float>{}), y("mapped_large.i32", std::vector<std::int32_t>(rows, 7));
  {
    std::ofstream file(x.path, std::ios::binary);
    for (int i = 0; i < rows; ++i) {
      const std::vector<float> one(row, static_cast<float>(i));
      file.write(reinterpret_cast<const char*>(one.data()), static_cast<std::streamsize>(row * sizeof(float)));
    }
  }
  constexpr std::size_t memory = std::size_t{2} << 20, batches = 2 * 32 * (row + 1) * sizeof(float);
  const auto data = mapped_data(memory).with<float>("inputs", row, x.path).with<std::int32_t>("labels", 1, y.path);
  {  // what is measured
    const std::size_t before = resident();
    const std::vector<char> more(std::size_t{8} << 20, 1);
    CHECK(resident() > before + (std::size_t{6} << 20));
  }
  for (const bool shuffled : {true, false}) {
    CAPTURE(shuffled);
    std::size_t max = 0, count = 0;
    const std::size_t before = resident();
    auto stream = data.open({.size = 32, .shuffled = shuffled, .seed = 1, .epochs = 2});
    while (const batch* const one = stream->next()) {
      const auto* const values = static_cast<const float*>(one->find("inputs")->data);
      for (int i = 0; i < one->samples(); ++i)
        REQUIRE(values[row * static_cast<std::size_t>(i)] == static_cast<float>(one->dataset_rows()[i]));
      if (++count % 8 == 0) max = (std::max)(max, resident() - (std::min)(before, resident()));
    }
    CHECK(count == 2 * rows / 32);
    CHECK(max < memory + batches + (std::size_t{1} << 20));  // the thread and the allocator
  }
}
#endif

TEST_CASE("a file that does not fit is refused") {
  const file_of x("mapped_odd.f32", inputs()), none("mapped_none.f32", std::vector<float>{});
  const auto rejects = [](const char* what, const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  const auto with = [&](std::size_t size, const std::string& path, const mapped_location& where = {}) {
    return [=] { mapped_data().with<float>("inputs", size, path, where); };
  };
  rejects("are no whole rows of 28", with(7, x.path));
  rejects("its rows have 0 elements", with(0, x.path));
  rejects("stride is 4 bytes, but a row has 20", with(5, x.path, {.stride = 4}));
  rejects("offset is 60000, but the file has 60000 bytes", with(5, x.path, {.offset = 60000}));
  rejects("3001 rows of 20 bytes from offset 0 on do not fit", with(5, x.path, {.rows = 3001}));
  rejects("rows is -1", with(5, x.path, {.rows = -1}));
  rejects("No such file or directory", with(5, "mapped_missing.f32"));
  rejects("Is a directory", with(5, "."));
  rejects("is empty", with(5, none.path));
  mapped_data data;
  data.with<float>("inputs", 5, x.path);
  rejects("the source has it already", [&] { data.with<float>("inputs", 5, x.path); });
  rejects("it has 15000 rows, but the others have 3000", [&] { data.with<float>("more", 1, x.path); });
  CHECK(data.samples() == count);
}
