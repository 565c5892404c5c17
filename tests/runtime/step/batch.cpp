// sanitizers: address

#include <gpipe/runtime/step/batch.hpp>

#include <doctest/doctest.h>

#include <span>
#include <vector>

using namespace gpipe;

TEST_CASE("a batch has the name, address, size and type of each field") {
  const std::vector<double> x(6, 1.5);
  const std::int32_t labels[] = {2, 0};
  batch b(2);
  b.with("inputs", x).with("labels", std::span(labels)).with("raw", x.data(), 6, dtype::float64);
  CHECK(b.samples() == 2);
  REQUIRE(b.entries().size() == 3);
  REQUIRE(b.find("inputs") != nullptr);
  CHECK(b.find("inputs")->data == x.data());
  CHECK(b.find("inputs")->elements == 6);
  CHECK(b.find("inputs")->type == dtype::float64);
  CHECK(b.find("labels")->elements == 2);
  CHECK(b.find("labels")->type == dtype::int32);
  CHECK(b.find("raw")->data == x.data());
  CHECK(b.find("weights") == nullptr);
  CHECK_THROWS_WITH_AS(b.with("raw", x), "the batch has a field \"raw\" already; give each field once", error);
}
