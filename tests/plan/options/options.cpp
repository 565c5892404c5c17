#include <gpipe/plan/options/options.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

namespace {

constexpr bool sensible = [] {
  plan_options{.stages = 7}.require_sensible(7);
  return true;
}();
static_assert(sensible);

std::string refusal(const plan_options& options) {
  try {
    options.require_sensible(7);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("options that make no plan are refused, with what would") {
  CHECK(refusal({}) == "");
  CHECK(refusal({.stages = 8}) == "the model cannot be cut into 8 stages; choose 1 to 7, its number of layers");
  CHECK(refusal({.stages = 0}) == "the model cannot be cut into 0 stages; choose 1 to 7, its number of layers");
  CHECK(refusal({.stages = -1}).find("-1 stages") != std::string::npos);
  CHECK(refusal({.micro_batches = 0}) == "0 micro-batches are no step; choose at least 1");
  CHECK(refusal({.micro_batch_size = -5}) == "a micro-batch of -5 samples is no micro-batch; choose at least 1");
  CHECK(refusal({.micro_batches = 1 << 16, .micro_batch_size = 1 << 15}).find("more than can be counted") !=
        std::string::npos);
  CHECK(refusal({.micro_batches = 1 << 15, .micro_batch_size = (1 << 16) - 1}) == "");
  CHECK(refusal({.stages = 4, .workers = 4}) == "");
  CHECK(refusal({.stages = 4, .workers = 5}) ==
        "fill-drain of 4 stages has work for 4 workers, not 5; choose 1 to 4, or 0 for as many as it has");
  CHECK(refusal({.stages = 4, .schedule = schedule_kind::zb_v, .workers = 3}).find("2 workers, not 3") !=
        std::string::npos);
  CHECK(refusal({.replicas = 0}) == "0 replicas train nothing; choose at least 1");
  CHECK(refusal({.micro_batches = 1 << 15, .micro_batch_size = 1 << 10, .replicas = 64}) ==
        "64 replicas with 32768 micro-batches of 1024 samples are more than can be counted; choose fewer");
  CHECK(refusal({.recompute = recompute_mode::never, .coalesce = 4}) == "");
  CHECK(refusal({.coalesce = 1}) == "");
  for (const int none : {-1, 9})
    CHECK(refusal({.recompute = recompute_mode::never, .coalesce = none}) ==
          std::to_string(none) + " micro-batches do not make their parameter gradients together; choose 1 to 8, or 0 "
                                 "for as many as pay");
  const std::string together = " does not make the parameter gradients of 4 micro-batches together; choose ";
  CHECK(refusal({.coalesce = 4}) == "recompute except-last" + together + "recompute never, or coalesce 0");
  CHECK(refusal({.recompute = recompute_mode::as_needed, .coalesce = 4}) ==
        "with recompute as-needed memory decides how many micro-batches make their parameter gradients together, and "
        "not 4; choose recompute never, or coalesce 0");
  CHECK(refusal({.recompute = recompute_mode::never, .schedule = schedule_kind::one_f_one_b, .coalesce = 4}) ==
        "1F1B" + together + "fill-drain, or coalesce 0");
  CHECK(refusal({.schedule = schedule_kind::zb_h1, .coalesce = 4}) ==
        "ZB-H1 with recompute except-last" + together + "fill-drain and recompute never, or coalesce 0");
  CHECK(refusal({.workers = -1}).find("-1 workers do nothing") != std::string::npos);
}
