#include <gpipe/core/error.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

using gpipe::error;

TEST_CASE("an error says what is wrong and what to do") {
  const error e("the batch is empty", "give at least one sample");
  CHECK(std::string(e.what()) == "the batch is empty; give at least one sample");
  CHECK(e.wrong() == "the batch is empty");
  CHECK(e.remedy() == "give at least one sample");
}

TEST_CASE("an error without a remedy has no second part") {
  CHECK(std::string(error("the loss is NaN", "").what()) == "the loss is NaN");
}

TEST_CASE("the known parts of the location stand in front") {
  CHECK(std::string(error("x", "y", {.file = "digits.csv", .line = 7}).what()) == "digits.csv:7: x; y");
  CHECK(std::string(error("x", "", {.file = "digits.csv"}).what()) == "digits.csv: x");
  CHECK(std::string(error("x", "", {.layer = "relu"}).what()) == "layer relu: x");
  CHECK(std::string(error("x", "", {.layer_index = 3}).what()) == "layer 3: x");
  CHECK(
      std::string(
          error(
              "x", "",
              {.layer = "linear<512>", .layer_index = 3, .stage = 1, .micro_batch = 0, .action = "forward", .step = 12})
              .what()) == "layer 3 linear<512>, stage 1, micro-batch 0, forward, step 12: x");
  CHECK(std::string(error("x", "", {.rank = 2, .host = "node7", .stage = 1}).what()) ==
        "rank 2, host node7, stage 1: x");
}

TEST_CASE("an error keeps its location and is a runtime_error") {
  try {
    throw error("x", "y", {.stage = 2});
  } catch (const error& caught) {
    CHECK(caught.where().stage == 2);
    CHECK(caught.where().micro_batch == -1);
  }
  CHECK_THROWS_AS(throw error("x", "y"), std::runtime_error);
}

using gpipe::detail::concat;

TEST_CASE("words and numbers are joined in order") {
  const std::string layer = "relu";
  CHECK(concat({"stage ", 3, " of ", std::size_t{8}, ": ", layer, std::string_view("!")}) == "stage 3 of 8: relu!");
  CHECK(concat({}).empty());
}

TEST_CASE("the smallest and largest numbers are written in full") {
  CHECK(concat({std::numeric_limits<std::int64_t>::min()}) == "-9223372036854775808");
  CHECK(concat({std::numeric_limits<std::uint64_t>::max()}) == "18446744073709551615");
  CHECK(concat({0, -1}) == "0-1");
}
