// optimize: yes
// check: whole

#include <gpipe/model/vision/amoebanet.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include <gpipe/plan/partition/objective.hpp>
#include <gpipe/plan/partition/partition.hpp>

#include "support/same_losses.hpp"

using namespace gpipe;
using namespace gpipe::detail;

static_assert(network_of<amoebanet_d<18, 208>>.parameters() == 81'505'540);
static_assert(network_of<amoebanet_d<18, 256>>.parameters() == 122'470'120);
static_assert(network_of<amoebanet_d<18, 416>>.parameters() == 319'024'120);
static_assert(network_of<amoebanet_d<18, 544>>.parameters() == 542'734'840);
static_assert(network_of<amoebanet_d<36, 544>>.parameters() == 1'055'832'376);
static_assert(network_of<amoebanet_d<72, 512>>.parameters() == 1'844'858'344);

// A second, independent count of AmoebaNet-B's parameters, cell by cell.
namespace {

constexpr std::int64_t convolved(std::int64_t in, std::int64_t out, std::int64_t pixels = 1) {
  return in * out * pixels + 2 * out;  // the weight, and a batch norm
}
constexpr std::int64_t of_amoebanet_b(int L, std::int64_t D, std::int64_t classes) {
  const auto separable = [](std::int64_t c, std::int64_t pixels) { return 2 * (pixels * c + c * c + 2 * c); };
  std::int64_t sum = convolved(3, D / 4, 9), before = D / 4, last = D / 4;
  const auto cell = [&](std::int64_t c, bool reduces) {
    const std::int64_t q = c / 4;
    sum += convolved(last, c) + convolved(before, c);
    sum += reduces ? convolved(c, q) + convolved(q, q, 9) + convolved(q, c) + separable(c, 25) + separable(c, 9) +
                         convolved(c, c)
                   : 4 * convolved(c, c) + 2 * separable(c, 9);
    before = last;
    last = (reduces ? 2 : 4) * c;
  };
  cell(D / 2, true);
  cell(D, true);
  for (const std::int64_t c : {D, 2 * D, 4 * D}) {
    if (c > D) cell(c, true);
    for (int i = 0; i < L / 3; ++i) cell(c, false);
  }
  return sum + last * classes + classes;
}

}  // namespace

static_assert(network_of<amoebanet_b<18, 512>>.parameters() == 560'053'608);
static_assert(of_amoebanet_b(18, 512, 1000) == 560'053'608);

namespace {

constexpr amoebanet_options small{.classes = 5, .side = 32, .channels = 1};
using net = amoebanet_d<3, 16, small>;
using averaged =
    amoebanet_d<3, 16, amoebanet_options{.classes = 5, .side = 32, .channels = 1, .average_as_maximum = true}>;
using net_b = amoebanet_b<3, 16, small>;
static_assert(layers_of<net> == layers_of<averaged>);
static_assert(network_of<net>.paths->layers == layers_of<net>);  // every layer has a name of its own
static_assert(network_of<net_b>.paths->layers == layers_of<net_b>);

constexpr laws::trained_images data{32 * 32, 5};

}  // namespace

TEST_CASE("AmoebaNet-D trains with the same bits in every plan") {
  const auto whole = data.run<net>({.stages = 1, .micro_batches = 2, .micro_batch_size = 3});
  CHECK(whole[2] < whole[0]);
  CHECK(data.run<averaged>({.stages = 1, .micro_batches = 2, .micro_batch_size = 3}) != whole);
  for (const int stages : {2, 5, 11})
    for (const recompute_mode mode : {recompute_mode::always, recompute_mode::never})
      for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b}) {
        CAPTURE(stages);
        CHECK(data.run<net>({.stages = stages,
                             .micro_batches = 2,
                             .micro_batch_size = 3,
                             .recompute = mode,
                             .schedule = schedule}) == whole);
      }
}

TEST_CASE("AmoebaNet-B trains with the same bits in every plan") {
  const auto whole = data.run<net_b>({.stages = 1, .micro_batches = 2, .micro_batch_size = 3});
  CHECK(whole[2] < whole[0]);
  for (const int stages : {2, 7})
    for (const recompute_mode mode : {recompute_mode::always, recompute_mode::never})
      CHECK(data.run<net_b>({.stages = stages, .micro_batches = 2, .micro_batch_size = 3, .recompute = mode}) == whole);
}

TEST_CASE("a cut may go through a cell, at any layer") {
  const auto whole = data.run<net>({.stages = 1, .micro_batches = 2, .micro_batch_size = 3}, {}, 1);
  for (int at = 1; at < layers_of<net>; at += 7) {
    CAPTURE(at);
    CHECK(data.run<net>({.stages = 2, .micro_batches = 2, .micro_batch_size = 3}, {.cut = {at}}, 1) == whole);
  }
}

// Mean over largest work of a stage: multiply-adds of convolutions and of the linear layer. Cuts between cells reach
// 0.960, 0.939 and 0.862.
TEST_CASE("a cut through cells balances stages better than cuts between cells") {
  const network& net = network_of<amoebanet_d<18, 256>>;
  std::vector<pass_cost> costs;
  std::int64_t all = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    costs.push_back({net.type_of(l).derived_count > 0 ? net.type_of(l).cost.forward / 2 : 0, 0});
    all += costs.back().forward;
  }
  CHECK(all == doctest::Approx(15.170e9).epsilon(0.0001));
  for (const auto& [parts, between] : {std::pair{2, 0.960}, {4, 0.939}, {8, 0.862}}) {
    const int stages = parts;
    CAPTURE(stages);
    partition_problem p{net.layer_count, stages, 1, costs.data()};
    p.goal = objective::bottleneck;
    std::vector<int> first(static_cast<std::size_t>(stages) + 1);
    partition(p, first.data());
    const double largest = static_cast<double>(objective_of(p, first.data()));
    CHECK(static_cast<double>(all) / stages / largest > between + 0.025);
  }
}
