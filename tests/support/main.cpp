#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include <doctest/doctest.h>

// As doctest's own, but a run with options that choose no test fails.
namespace {
unsigned chosen = 0;

struct counter : doctest::IReporter {
  explicit counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& run) override { chosen = run.numTestCasesPassingFilters; }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("counter", 1, counter);
}  // namespace

int main(int count, char** words) {
  doctest::Context context(count, words);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  if (count > 1 && chosen == 0) {
    std::cerr << "no test is chosen\n";
    return 1;
  }
  return 0;
}
