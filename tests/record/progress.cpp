#include <gpipe/record/progress.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>

using gpipe::progress;
using gpipe::verbosity;
using namespace std::chrono_literals;

namespace {

constexpr gpipe::fit_progress half{
    .epoch = 3, .epochs = 30, .step = 12, .steps = 45, .loss = 0.21794, .rate = 1e-3, .samples_per_second = 18'400};
constexpr gpipe::fit_progress done{.epoch = 3, .epochs = 30, .loss = 0.2, .rate = 1e-3, .samples_per_second = 20'000};

}  // namespace

TEST_CASE("on a terminal one line is rewritten in place") {
  std::ostringstream out;
  {
    progress line(out, verbosity::live, 0ms);
    line.step(half);
    CHECK(out.str() == "\repoch 3/30  step 12/45  loss 0.2179  rate 0.001  18.4 k samples/s");
    out.str("");
    line.epoch(done);
    // Spaces overwrite the rest of the longer line.
    CHECK(out.str() == "\repoch 3/30  loss 0.2000  rate 0.001  20 k samples/s" + std::string(14, ' ') + "\n");
    out.str("");
  }
  CHECK(out.str().empty());
}

TEST_CASE("the loss on held-out data is shown if it exists") {
  std::ostringstream out;
  progress line(out, verbosity::lines);
  auto now = done;
  now.held_out = 0.31;
  line.epoch(now);
  CHECK(out.str() == "epoch 3/30  loss 0.2000  held out 0.3100  rate 0.001  20 k samples/s\n");
}

TEST_CASE("an interrupted line is ended") {
  std::ostringstream out;
  {
    progress line(out, verbosity::live, 0ms);
    line.step(half);
  }
  CHECK(out.str().back() == '\n');
}

TEST_CASE("lines are at least a pause apart") {
  std::ostringstream out;
  progress line(out, verbosity::live, 1h);
  for (int i = 0; i < 1000; ++i) line.step(half);
  CHECK(out.str().find('\r', 1) == std::string::npos);
}

TEST_CASE("a log has one line per epoch, without carriage returns") {
  std::ostringstream out;
  {
    progress line(out, verbosity::lines, 0ms);
    line.step(half);
    line.epoch(done);
  }
  CHECK(out.str() == "epoch 3/30  loss 0.2000  rate 0.001  20 k samples/s\n");
}

TEST_CASE("quiet prints nothing") {
  std::ostringstream out;
  {
    progress line(out, verbosity::quiet, 0ms);
    line.step(half);
    line.epoch(done);
  }
  CHECK(out.str().empty());
}

TEST_CASE("a file is not a terminal") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  CHECK(gpipe::verbosity_for(file) == verbosity::lines);
  std::fclose(file);
}
