#include <gpipe/tools/data/generated_data.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gpipe/train/data/dataset.hpp>

using namespace gpipe;

namespace {

/// The labels of all batches that are left.
std::vector<int> labels_of(data_stream& stream) {
  std::vector<int> labels;
  while (const batch* b = stream.next())
    for (int i = 0; i < b->samples(); ++i) {
      labels.push_back(static_cast<const std::int32_t*>(b->find("labels")->data)[i]);
      CHECK(b->dataset_rows()[i] == labels.back());
      CHECK(static_cast<const float*>(b->find("inputs")->data)[2 * i + 1] == static_cast<float>(labels.back()));
    }
  return labels;
}

const std::vector<data_field> fields{{"inputs", 2}, {"labels", 1, dtype::int32}};

void fill(const batch_request& wanted) {
  const auto inputs = wanted.rows<float>("inputs");
  const auto labels = wanted.rows<std::int32_t>("labels");
  for (std::size_t i = 0; i < wanted.samples().size(); ++i) {
    labels[i] = wanted.samples()[i];
    inputs[2 * i] = 0;
    inputs[2 * i + 1] = static_cast<float>(wanted.samples()[i]);
  }
}

dataset same_in_memory(int samples) {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < samples; ++i) inputs.insert(inputs.end(), {0, static_cast<float>(i)}), labels.push_back(i);
  return dataset{}.with("inputs", 2, inputs).with("labels", 1, labels);
}

}  // namespace

TEST_CASE("a generator gives the batches of a dataset, from every position on") {
  const generated_data made(23, fields, fill);
  const dataset held = same_in_memory(23);
  for (const int size : {1, 4, 23, 100})
    for (const long batch : {0L, 1L}) {
      const batch_order how{.size = size, .shuffled = true, .seed = 5, .first = {1, batch}, .epochs = 4};
      CHECK(labels_of(*made.open(how)) == labels_of(*held.open(how)));
    }
  CHECK(labels_of(*made.open({.size = 5})) == labels_of(*held.open({.size = 5})));
}

TEST_CASE("a batch stays as it is until the next one is asked for") {
  std::atomic<int> filled{0};
  const generated_data made(40, fields, [&](const batch_request& r) { fill(r), ++filled; });
  const auto stream = made.open({.size = 4});
  for (int k = 0; k < 10; ++k) {
    const batch* const now = stream->next();
    for (const int wanted = (std::min)(k + 2, 10); filled < wanted;) std::this_thread::yield();
    for (int i = 0; i < 4; ++i) CHECK(static_cast<const std::int32_t*>(now->find("labels")->data)[i] == 4 * k + i);
    CHECK(filled <= k + 2);  // one batch ahead
  }
  CHECK(stream->next() == nullptr);
  CHECK(stream->next() == nullptr);
}

TEST_CASE("what the function throws arrives at its batch, with its type") {
  struct own_failure {
    int sample;
  };
  const generated_data made(12, fields, [](const batch_request& r) {
    fill(r);
    if (r.samples()[0] == 8) throw own_failure{8};
  });
  const auto stream = made.open({.size = 4});
  CHECK(stream->next() != nullptr);
  CHECK(stream->next() != nullptr);
  for (int again = 0; again < 2; ++again) try {
      stream->next();
      CHECK(false);
    } catch (const own_failure& f) {
      CHECK(f.sample == 8);
    }
}

TEST_CASE("a stream may be destroyed at any time") {
  for (int taken = 0; taken < 5; ++taken)
    for (int round = 0; round < 20; ++round) {
      const generated_data made(1000, fields, fill);
      const auto stream = made.open({.size = 3, .shuffled = true, .epochs = 100});
      for (int i = 0; i < taken; ++i) CHECK(stream->next() != nullptr);
    }
  const generated_data failing(10, fields, [](const batch_request&) { throw std::runtime_error("no"); });
  for (int round = 0; round < 20; ++round) static_cast<void>(failing.open({.size = 3}));
}

TEST_CASE("a request names its fields, and has the position") {
  std::vector<data_position> seen;
  const generated_data made(4, fields, [&](const batch_request& r) {
    seen.push_back(r.at());
    fill(r);
    CHECK_THROWS_WITH_AS(r.rows<float>("labels"), "field \"labels\" is int32; fill it as that", error);
    CHECK_THROWS_WITH_AS(r.rows<float>("label"), "the source has no field \"label\"; it has inputs, labels", error);
  });
  {
    const auto stream = made.open({.size = 3, .epochs = 2});
    CHECK(labels_of(*stream) == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3});
  }
  CHECK(seen == std::vector<data_position>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  CHECK_THROWS_WITH_AS(generated_data(4, {}, fill).open({}), doctest::Contains("the source has no fields"), error);
  CHECK_THROWS_AS(generated_data(0, fields, fill).open({}), error);
  CHECK_THROWS_AS(made.open({.size = 0}), error);
}
