#include <gpipe/tools/data/column_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace gpipe;

namespace {

void refused(const auto& call, const char* what) { CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error); }

}  // namespace

TEST_CASE("columns are measured and scaled, each by itself") {
  auto data =
      dataset{}.with("inputs", 2, std::vector<float>{1, 100, 3, 300, 5, 500}).with("id", 1, std::vector<float>(3));
  const column_norm by(data, "inputs");
  CHECK(by.mean == std::vector<double>{3, 300});
  CHECK(by.deviation[0] == doctest::Approx(std::sqrt(8 / 3.0)));
  CHECK(by.deviation[1] == doctest::Approx(100 * std::sqrt(8 / 3.0)));
  by.apply(data.field<float>("inputs"));
  const float unit = 1.2247449F;
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(data.field<float>("inputs")[i] == doctest::Approx(i < 2 ? -unit : i < 4 ? 0 : unit));
  std::vector<float> later{5, 100};  // of rows that come later
  by.apply(later);
  CHECK(later[0] == doctest::Approx(unit));
  by.undo(later);
  CHECK(later[0] == doctest::Approx(5));
  CHECK(later[1] == doctest::Approx(100));
}

TEST_CASE("a field of double, and columns of one value") {
  std::vector<double> rows;
  for (int i = 0; i < 1000; ++i) rows.insert(rows.end(), {0.1, 0, 1e9 + i});
  auto data = dataset{}.with("inputs", 3, rows);
  const column_norm by(data, "inputs");
  CHECK(by.deviation[0] == 1);
  CHECK(by.deviation[1] == 1);
  CHECK(by.deviation[2] == doctest::Approx(std::sqrt((1e6 - 1) / 12)));
  by.apply(data.field<double>("inputs"));
  CHECK(std::abs(data.field<double>("inputs")[0]) < 1e-12);
}

TEST_CASE("the text has the same numbers") {
  column_norm by;
  by.mean = {1 / 3.0, -1e-300, 0, 12345678.9}, by.deviation = {2e300, 0.1, 1, 3};
  const column_norm again = column_norm::of_text(by.text());
  CHECK(again.mean == by.mean);
  CHECK(again.deviation == by.deviation);
  CHECK(column_norm::of_text("38.5 12.25").deviation == std::vector<double>{12.25});
  for (const char* text : {"", "1", "1 2 3", "1 x", "mean 1", "1  2", "1 2,", " 1 2"}) {
    CAPTURE(text);
    refused([&] { return column_norm::of_text(text); },
            "is not that of a column_norm; give one that text() has returned");
  }
  refused([] { return column_norm::of_text("1 0"); },
          "column 0 has the deviation 0 and the mean 1; give finite numbers");
  refused([] { return column_norm::of_text("1 1 nan 1"); }, "column 1 has the deviation 1 and the mean nan");
}

TEST_CASE("what cannot be measured or scaled is refused") {
  const float infinity = std::numeric_limits<float>::infinity();
  auto data =
      dataset{}.with("inputs", 2, std::vector<float>{1, 2, 3, infinity}).with("labels", 1, std::vector<int>{0, 1});
  refused([&] { return column_norm(data, "inputs"); }, "field \"inputs\" is not finite in row 1, column 1 (counted");
  refused([&] { return column_norm(data, "input"); }, "no field \"input\"");
  refused([&] { return column_norm(data, "labels"); }, "field \"labels\" is int32");
  column_norm by;
  std::vector<float> three(3);
  refused([&] { by.apply(three), by.text(); }, "there are 0 means and 0 deviations; give one of each for each column");
  by.mean = {0, 0}, by.deviation = {1, 1};
  refused([&] { by.apply(three); }, "there are 3 numbers, which are no rows of 2 columns; give whole rows");
  refused([&] { by.undo(std::span(three)); }, "there are 3 numbers");
  by.deviation[1] = -1;
  refused([&] { by.apply(three); }, "column 1 has the deviation -1");
}
