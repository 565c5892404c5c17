#include <gpipe/core/error.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

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
