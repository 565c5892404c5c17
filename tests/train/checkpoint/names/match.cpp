#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/train/checkpoint/names/match.hpp>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("arrays match by name and shape") {
  std::vector<stored_array> wanted(4);
  const char* const names[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < 4; ++i) wanted[i].name = names[i], wanted[i].extents = {2, 3};
  const std::uint64_t same[] = {2, 3}, other[] = {3, 2}, longer[] = {2, 3, 1};
  const std::vector<found_array> file{{"c", other}, {"x", same}, {"a", same}, {"d", longer}};
  const array_match match = match_arrays(wanted, file);
  CHECK(match.found == std::vector<std::ptrdiff_t>{2, -1, -1, -1});
  CHECK(match.report.loaded == std::vector<std::string>{"a"});
  CHECK(match.report.missing == std::vector<std::string>{"b"});
  CHECK(match.report.unexpected == std::vector<std::string>{"x"});
  CHECK(match.report.misshaped ==
        std::vector<std::string>{"c (file 3 x 2, model 2 x 3)", "d (file 2 x 3 x 1, model 2 x 3)"});
  CHECK(!match.exact());
}

TEST_CASE("an error lists at most ten names of each kind") {
  load_report report;
  for (int i = 0; i < 12; ++i) report.missing.push_back("m" + std::to_string(i));
  report.unexpected = {"u"};
  try {
    throw_misfit(report, "file");
    FAIL("it throws");
  } catch (const error& found) {
    CHECK(found.wrong() ==
          "the file does not fit the model: 12 missing: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, ...; "
          "1 unexpected: u");
    CHECK(found.where().file == "file");
  }
}

TEST_CASE("an error quotes a name that is not plain text") {
  load_report report;
  report.unexpected = {std::string("a\0b", 3), "c\n", std::string(1000, 'x')};
  try {
    throw_misfit(report, "file");
    FAIL("it throws");
  } catch (const error& found) {
    CHECK(found.wrong().starts_with("the file does not fit the model: 3 unexpected: \"a\\x00b\", \"c\\n\", \"xxx"));
    CHECK(found.wrong().size() < 400);
  }
}

TEST_CASE("PyTorch's count of batches may be in the file") {
  load_report report;
  report.unexpected = {"1.num_batches_tracked", "num_batches_tracked", "1.other"};
  forgive_counters(report);
  CHECK(report.unexpected == std::vector<std::string>{"1.other"});
}
