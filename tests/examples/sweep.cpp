// sanitizers: address
#include "../examples/plan/sweep/summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace gpipe;
using namespace example;

namespace {

/// The command line as `plan sweep` reads it; the error, or an empty string.
std::string read(sweep_settings& into, std::vector<std::string> words) {
  std::vector<char*> at{nullptr};
  for (std::string& word : words) at.push_back(word.data());
  try {
    into.read(static_cast<int>(at.size()), at.data());
  } catch (const error& failure) {
    return failure.what();
  }
  return "";
}

/// Four layers of 10 ns forward and 20 ns backward, of 100 bytes each; they keep 10 bytes and send 1000.
subject four_layers() {
  subject it{"four", {}, {}, {}, {}, nullptr, {}};
  for (int l = 0; l < 4; ++l) {
    it.names.push_back("layer");
    it.costs.push_back({10, 10, 10});
  }
  it.bytes = [](cut whole, int stage, const memory_requirements& terms) {
    const std::int64_t layers = whole.first[stage + 1] - whole.first[stage];
    return layers * (100 + std::int64_t{10} * terms.kept_copies);
  };
  it.enters = [](int) { return std::int64_t{1000}; };
  return it;
}

std::vector<swept> sweep(const sweep_settings& chosen) {
  const subject of = four_layers();
  std::int64_t last = 0;
  const auto all = sweeper(chosen, of).plan_all([&](std::int64_t done) { last = done; });
  CHECK(last == chosen.combinations());
  return all;
}

std::string csv_of(const std::vector<swept>& all) {
  std::ostringstream out;
  write_csv(out, all);
  return out.str();
}
std::string page_of(const sweep_settings& chosen, const std::vector<swept>& all) {
  std::ostringstream out;
  sweep_page(chosen, "four < five & \"six\"", all).draw(out);
  return out.str();
}

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

/// Whether every tag of an XML text is closed by its own name, in the order that nests them.
bool nests(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos; ++at) {
    const std::size_t end = text.find('>', at);
    if (end == text.npos || text.substr(at + 1, end - at - 1).find('<') != text.npos) return false;
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    if (count(tag, "\"") % 2 != 0) return false;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("a sweep has a line for each combination") {
  sweep_settings chosen;
  REQUIRE(read(chosen, {"--costs", "four", "--devices", "2", "--micro-batches", "2,1,2", "--schedule",
                        "fill-drain,zb-v", "--memory-limit", "230B,none", "--link", "free,1GB"}) == "");
  CHECK(chosen.combinations() == 16);
  // Two stages of two layers: M + 1 forwards of 20 ns and M + 1 backwards of 40 ns. A link adds 1 us each way. Two
  // micro-batches keep 40 bytes of a stage, so that a limit of 230 bytes recomputes one: 20 ns more.
  const std::string csv = csv_of(sweep(chosen));
  CAPTURE(csv);
  CHECK(
      csv.starts_with("stages,devices,micro_batches,micro_batch_size,schedule,recompute,memory_limit,link,step_ns,"
                      "lower_bound_ns,idle,largest_device_bytes,first_layers,refused\n"
                      "2,2,1,,fill-drain,as-needed,,,120,120,0.5000,220,0 2,\n"
                      "2,2,1,,fill-drain,as-needed,230,,120,120,0.5000,220,0 2,\n"
                      "2,2,2,,fill-drain,as-needed,,,180,180,0.3333,240,0 2,\n"
                      "2,2,2,,fill-drain,as-needed,230,,200,180,"));
  CHECK(csv.find("2,2,1,,fill-drain,as-needed,,1000000000,2120,120,") != std::string::npos);
  CHECK(count(csv, "\n") == 17);
}

TEST_CASE("a combination without a plan says why") {
  sweep_settings chosen;
  REQUIRE(read(chosen, {"--costs", "four", "--devices", "2", "--stages", "2,5,4", "--micro-batches", "2", "--schedule",
                        "1f1b", "--memory-limit", "none,10B"}) == "");
  const std::vector<swept> all = sweep(chosen);
  const std::string csv = csv_of(all);
  CAPTURE(csv);
  CHECK(csv.find("2,,2,,1f1b,as-needed,10,,,180,,,,\"--memory-limit is 10 bytes: no cut of 4 layers into 2 stages fits;"
                 " choose at least 220 bytes\"\n") != std::string::npos);
  CHECK(csv.find("4,,2,,1f1b,as-needed,,,,,,,,\"the schedule needs 4 devices, and there are 2; choose fewer stages or "
                 "more devices\"\n") != std::string::npos);
  CHECK(all[2].refused.find("5") != std::string::npos);
  CHECK(csv_text("a \"b\"") == "\"a \"\"b\"\"\"");
}

TEST_CASE("a page has a line for each schedule in each chart") {
  sweep_settings chosen;
  REQUIRE(read(chosen, {"--costs", "four", "--devices", "2", "--micro-batches", "2,4,8", "--schedule",
                        "fill-drain,1f1b,zb-v", "--memory-limit", "none,230B", "--link", "free,1GB"}) == "");
  const std::vector<swept> all = sweep(chosen);
  const std::string page = page_of(chosen, all);
  CAPTURE(page);
  CHECK(nests(page));
  CHECK(page.find("four &lt; five &amp; ") != std::string::npos);
  int lines = 0, markers = 0;
  for (const std::int64_t link : chosen.links)
    for (const std::int64_t limit : chosen.limits)
      for (const schedule_kind kind : chosen.orders) {
        const auto plans = std::count_if(all.begin(), all.end(), [&](const swept& it) {
          return it.planned() && it.of.link == link && it.of.limit == limit && it.of.schedule == kind;
        });
        lines += plans > 0;
        markers += static_cast<int>(plans);
      }
  CHECK(lines >= 6);  // of two charts without a limit
  CHECK(count(page, "class=\"line\"") == lines);
  CHECK(count(page, "class=\"marker") == markers + 3);  // of the legend
  CHECK(count(page, "class=\"bound\"") == 4 + 1);       // of each chart
  CHECK(count(page, ">no memory limit<") == 2);
  CHECK(count(page, ">230 B a device<") == 2);
}

TEST_CASE("schedules without a plan stand below their chart") {
  std::vector<swept> all;
  for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::zb_v, schedule_kind::v_half})
    for (const int M : {4, 8}) {
      swept it;
      it.of.schedule = kind;
      it.of.micro_batches = M;
      if (kind != schedule_kind::fill_drain && M == 4) it.refused = "no room";
      all.push_back(it);
    }
  std::vector<const swept*> chart;
  for (const swept& it : all) chart.push_back(&it);
  const std::vector<schedule_kind> orders{schedule_kind::fill_drain, schedule_kind::zb_v, schedule_kind::v_half};
  CHECK(lines_without_plan(chart, orders, 60) == std::vector<std::string>{"no plan: zb-v, v-half with M = 4"});
  CHECK(lines_without_plan(chart, orders, 16) == std::vector<std::string>{"no plan: zb-v,", "v-half with M = 4"});
  all[2].refused = all[3].refused = "no room";
  CHECK(lines_without_plan(chart, orders, 60) ==
        std::vector<std::string>{"no plan: zb-v", "no plan: v-half with M = 4"});
}

TEST_CASE("the charts of one limit stand in lines of three, and those of a table show micro-batches") {
  sweep_settings chosen;
  REQUIRE(read(chosen, {"--costs", "four", "--devices", "2", "--micro-batches", "4", "--schedule", "1f1b", "--link",
                        "free,25GB,1TB,1kB", "--stages", "2"}) != "");
  REQUIRE(read(chosen, {"--costs", "four", "--devices", "2", "--micro-batches", "4", "--schedule", "1f1b", "--link",
                        "free,25GB,1TB,1KB", "--stages", "2"}) == "");
  const std::string page = page_of(chosen, sweep(chosen));
  CAPTURE(page);
  CHECK(nests(page));
  CHECK(count(page, "recompute as-needed, ") == 4);
  CHECK(page.find(">2 stages, recompute as-needed, links of 25 GB/s<") != std::string::npos);
  CHECK(page.find(">2 stages, recompute as-needed, links of 1 kB/s<") != std::string::npos);
  CHECK(count(page, ">micro-batches M<") == 4);
  CHECK(count(page, "class=\"value\"") >= 2 * 4);  // two lines of charts
}

TEST_CASE("the command line of a sweep is checked") {
  sweep_settings chosen;
  CHECK(read(chosen, {"--micro-batches", "4,x"}) ==
        "option --micro-batches: \"x\" is not a whole number; give a whole number from 1 to 100000");
  CHECK(read(chosen, {"--schedule", "1f1b,forward-only"}).starts_with("option --schedule: \"forward-only\" is not a"));
  CHECK(read(chosen, {"--memory-limit", "free"}).starts_with("option --memory-limit: \"free\" is not a number"));
  CHECK(read(chosen, {"--costs", "four", "--batch=8"}) ==
        "option --batch: a table of --costs already holds the costs of one micro-batch; leave the option out");
  chosen = {};
  CHECK(read(chosen, {"--schedule", "all"}) == "");
  CHECK(chosen.orders.size() == 11);

  std::string numbers = "1", more;
  for (int i = 2; i <= 1000; ++i) numbers += "," + std::to_string(i);
  CHECK(read(chosen, {"--stages", numbers, "--micro-batches", numbers}) ==
        "plan sweep has 11000000 combinations, more than 1000000; leave values out, first of --stages, which has 1000");
  chosen = {};
  REQUIRE(read(chosen, {"--stages", "1,2,3,4,5,6,7", "--link", "free,1GB"}) == "");
  CHECK_THROWS_WITH(
      sweep_page::require_readable(chosen),
      "option --svg: the page has 14 x 1 charts, a row for each value of --stages, --recompute and --link "
      "and a column for each of --memory-limit; leave values out, to at most 12 x 6, or leave --svg out");
}
