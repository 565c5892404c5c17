#include <gpipe/record/stage_report.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/tools/report/write_profile.hpp>

#include "support/measured.hpp"

using namespace gpipe;

namespace {

struct net : model<input<float, 8>, linear<8>, relu, linear<8>, relu> {};

// The file written below, compiled: the first layer costs the most, so it has a stage of its own.
using by_profile = plan<net, stages<2>, micro_batches<4>, micro_batch_size<4>, profiled<measured>>;
static_assert(by_profile::cut().first[1] == 1);

}  // namespace

TEST_CASE("a profile is written as the table that a plan compiles") {
  measured_profile found{{}, 4};
  const network& n = network_of<net>;
  for (const measured_layer& line : measured::layers) {
    found.layers.push_back(line);
    found.layers.back().layer = n.type_of(line.position).name;
  }
  std::ostringstream out;
  write_profile(out, found.view());
  std::ostringstream file;
  file << std::ifstream(std::filesystem::path(GPIPE_TESTS_FOLDER) / "support/measured.hpp").rdbuf();
  CHECK(out.str() == file.str());
}

TEST_CASE("a plan made at run time uses it directly") {
  const measured_profile lines{{std::begin(measured::layers), std::end(measured::layers)}, 4};
  plan_options options = by_profile::options;
  options.profile = lines.view();
  CHECK(make_plan(network_of<net>, options).first == std::vector<int>{0, 1, 4});
  options.profile = {};
  CHECK(make_plan(network_of<net>, options).first != std::vector<int>{0, 1, 4});
}

TEST_CASE("an error names the file that cannot be written") {
  CHECK_THROWS_WITH_AS(write_profile("no/such/folder/p.hpp", profile{}), doctest::Contains("no/such/folder/p.hpp"),
                       error);
}
