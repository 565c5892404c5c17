// sanitizers: address

#include <gpipe/runtime/step/tensor_rows.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

using namespace gpipe;

TEST_CASE("the rows of a tensor lie one behind the other") {
  tensor_rows rows;
  rows.add({2, dtype::float64}, 3);
  rows.add({1, dtype::int32}, 3);
  rows.add({0, dtype::float32}, 3);
  CHECK(rows.tensors() == 3);
  CHECK(rows.samples() == 0);
  const double x[] = {1, 2, 3, 4};
  std::memcpy(rows.at(0, 1), x, sizeof x);
  const std::int32_t label = 7;
  std::memcpy(rows.at(1, 2), &label, sizeof label);
  rows.resize(3);
  CHECK(rows.all<double>().size() == 6);
  CHECK(rows.of<double>(1)[1] == 2);
  CHECK(rows.of<double>(2)[0] == 3);
  CHECK(rows.of<std::int32_t>(2, 1)[0] == 7);
  rows.resize(2);
  CHECK(rows.all<double>().size() == 4);
}

TEST_CASE("the rows of a temporary are copies") {
  const auto predict = [] {
    tensor_rows rows;
    rows.add({2, dtype::float32}, 2);
    const float x[] = {1, 2, 3, 4};
    std::memcpy(rows.at(0, 0), x, sizeof x);
    rows.resize(2);
    return rows;
  };
  const auto all = predict().all();
  const auto one = predict().of(1);
  static_assert(std::is_same_v<decltype(all), const std::vector<float>>);
  static_assert(std::is_same_v<decltype(one), const std::vector<float>>);
  CHECK(all == std::vector<float>{1, 2, 3, 4});
  CHECK(one == std::vector<float>{3, 4});
  const tensor_rows kept = predict();
  static_assert(std::is_same_v<decltype(kept.all()), std::span<const float>>);
  CHECK(kept.of(1)[0] == 3);
}

TEST_CASE("rows that do not exist are rejected") {
  tensor_rows rows;
  rows.add({2, dtype::float32}, 1);
  rows.add({0, dtype::float32}, 1);
  rows.resize(1);
  CHECK_THROWS_WITH_AS(static_cast<void>(rows.all(2)), "there is no tensor 2; there are 2, counted from 0", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(rows.all(-1)), doctest::Contains("there is no tensor -1"), error);
  CHECK_THROWS_WITH_AS(static_cast<void>(rows.all(1)), "tensor 1 has no rows; no gradient flows back to it", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(rows.all<double>()), "tensor 0 holds float; read it as that type", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(rows.of(1)), doctest::Contains("there is no row of sample 1"), error);
  CHECK_THROWS_AS(static_cast<void>(rows.of(-1)), error);
}
