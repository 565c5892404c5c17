#include <gpipe/record/progress.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>

using gpipe::progress;
using gpipe::verbosity;
using namespace std::chrono_literals;

namespace {

constexpr gpipe::fit_progress half{
    .epoch = 3, .epochs = 30, .step = 12, .steps = 45, .loss = 0.21794, .rate = 1e-3, .samples_per_second = 18'400};
constexpr gpipe::fit_progress done{.epoch = 3, .epochs = 30, .loss = 0.2, .rate = 1e-3, .samples_per_second = 20'000};

/// The text of these calls, after the progress has ended.
std::string printed(verbosity mode, const std::function<void(progress&)>& calls,
                    std::chrono::milliseconds pause = 0ms) {
  std::ostringstream out;
  {
    progress line(out, mode, pause);
    calls(line);
  }
  return out.str();
}
void step_and_epoch(progress& line) { line.step(half), line.epoch(done); }

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
  auto now = done;
  now.held_out = 0.31;
  CHECK(printed(verbosity::lines, [&](progress& line) { line.epoch(now); }) ==
        "epoch 3/30  loss 0.2000  held out 0.3100  rate 0.001  20 k samples/s\n");
}

TEST_CASE("an interrupted line is ended") {
  CHECK(printed(verbosity::live, [](progress& line) { line.step(half); }).back() == '\n');
}

TEST_CASE("lines are at least a pause apart") {
  const auto many = [](progress& line) {
    for (int i = 0; i < 1000; ++i) line.step(half);
  };
  CHECK(printed(verbosity::live, many, 1h).find('\r', 1) == std::string::npos);
}

TEST_CASE("a log has one line per epoch, without carriage returns; quiet prints nothing") {
  CHECK(printed(verbosity::lines, step_and_epoch) == "epoch 3/30  loss 0.2000  rate 0.001  20 k samples/s\n");
  CHECK(printed(verbosity::quiet, step_and_epoch).empty());
}

TEST_CASE("a file is not a terminal") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  CHECK(gpipe::verbosity_for(file) == verbosity::lines);
  std::fclose(file);
}
