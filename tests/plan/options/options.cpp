#include <gpipe/plan/options/options.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/error_message.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr bool sensible = [] {
  require_valid(plan_options{.stages = 7}, 7);
  return true;
}();
static_assert(sensible);

std::string refusal(const plan_options& options) {
  return error_message([&] { require_valid(options, 7); });
}

}  // namespace

TEST_CASE("invalid options are rejected, with the remedy") {
  CHECK(refusal({}) == "");
  CHECK(refusal({.stages = 8}) == "stages is 8; choose 1 to 7, the number of layers");
  CHECK(refusal({.stages = 0}) == "stages is 0; choose at least 1");
  CHECK(refusal({.stages = -1}) == "stages is -1; choose at least 1");
  CHECK(refusal({.micro_batches = 0}) == "micro_batches is 0; choose at least 1");
  CHECK(refusal({.micro_batch_size = -5}) == "micro_batch_size is -5; choose at least 1");
  CHECK(refusal({.micro_batches = 1 << 16, .micro_batch_size = 1 << 15}).find("more samples than an int counts") !=
        std::string::npos);
  CHECK(refusal({.micro_batches = 1 << 15, .micro_batch_size = (1 << 16) - 1}) == "");
  CHECK(refusal({.stages = 4, .workers = 4}) == "");
  CHECK(refusal({.stages = 4, .workers = 5}) ==
        "workers is 5, and fill-drain of 4 stages has work for 4; choose 1 to 4, or 0 for all");
  CHECK(refusal({.stages = 4, .schedule = schedule_kind::zb_v, .workers = 3}).find("has work for 2;") !=
        std::string::npos);
  CHECK(refusal({.replicas = 0}) == "replicas is 0; choose at least 1");
  CHECK(refusal({.micro_batches = 1 << 15, .micro_batch_size = 1 << 10, .replicas = 64}) ==
        "replicas x micro_batches x micro_batch_size is 64 x 32768 x 1024, more samples than an int counts; choose "
        "smaller numbers");
  CHECK(refusal({.recompute = recompute_mode::never, .group_gradients = 4}) == "");
  CHECK(refusal({.group_gradients = 1}) == "");
  for (const int none : {-1, 9})
    CHECK(refusal({.recompute = recompute_mode::never, .group_gradients = none}) ==
          "group_gradients is " + std::to_string(none) + "; choose 1 to 8, or 0 for as many as pay off");
  CHECK(refusal({.group_gradients = 4}) == "");
  CHECK(refusal({.recompute = recompute_mode::except_last, .group_gradients = 4}) ==
        "group_gradients is 4, recompute is except-last; choose recompute never, or group_gradients 0");
  CHECK(refusal({.group_gradients = 4, .memory_limit = 1 << 30}) ==
        "group_gradients is 4, recompute is as-needed; choose recompute never, or group_gradients 0");
  CHECK(refusal({.recompute = recompute_mode::never, .schedule = schedule_kind::one_f_one_b, .group_gradients = 4}) ==
        "group_gradients is 4, schedule is 1F1B; choose fill-drain, or group_gradients 0");
  CHECK(refusal({.recompute = recompute_mode::always, .schedule = schedule_kind::zb_h1, .group_gradients = 4}) ==
        "group_gradients is 4, schedule is ZB-H1, recompute is always; choose fill-drain and recompute never, or "
        "group_gradients 0");
  CHECK(refusal({.workers = -1}) == "workers is -1; choose at least 1, or 0 for as many as the schedule has");
}

namespace {

constexpr device_spec narrow = l4.with_limit(1000);
static_assert(narrow.memory_limit == 1000 && narrow.memory_bytes == l4.memory_bytes);
static_assert(l4.memory_limit == no_memory_limit && plan_options{}.limit_of(0) == no_memory_limit);

}  // namespace

TEST_CASE("a stage obeys the plan's limit and its part of its device's") {
  static constexpr device_spec each[] = {narrow, l4, l4.with_limit(1501), narrow};
  plan_options o{.stages = 4, .devices = each, .device_count = 4, .memory_limit = 1200};
  const auto limits = [&o] { return std::vector{o.limit_of(0), o.limit_of(1), o.limit_of(2), o.limit_of(3)}; };
  CHECK(limits() == std::vector<std::int64_t>{1000, 1200, 1200, 1000});
  o.schedule = schedule_kind::zb_v;  // workers with stages 0 and 3, 1 and 2
  CHECK(limits() == std::vector<std::int64_t>{500, 1200, 750, 500});
  o.schedule = schedule_kind::one_f_one_b;
  o.workers = 1;
  CHECK(limits() == std::vector<std::int64_t>{250, 1200, 375, 250});
  o.devices = nullptr;
  o.device_count = 0;
  CHECK(limits() == std::vector<std::int64_t>(4, 1200));
  o.device = narrow;
  CHECK(limits() == std::vector<std::int64_t>(4, 250));
}

TEST_CASE("devices without their number are refused, and a number without devices") {
  static constexpr device_spec each[] = {l4, narrow};
  CHECK(refusal({.stages = 2, .devices = each, .device_count = 2}) == "");
  CHECK(refusal({.stages = 2, .devices = each}) ==
        "devices is set and device_count is 0; give both, a device for every stage: .devices = each, .device_count = "
        "2");
  CHECK(refusal({.stages = 2, .device_count = 2}) ==
        "device_count is 2 and devices is null; give both, a device for every stage: .devices = each, .device_count = "
        "2");
  CHECK(refusal({.stages = 3, .devices = each, .device_count = 2}) ==
        "device_count is 2 and stages is 3; name the device of every stage");
}

TEST_CASE("a limit of any device is a limit of the plan") {
  static constexpr device_spec free[] = {l4, l4}, bound[] = {l4, narrow};
  CHECK_FALSE(plan_options{.stages = 2, .devices = free, .device_count = 2}.limits_memory());
  const plan_options o{.stages = 2, .devices = bound, .device_count = 2};
  CHECK(o.limits_memory());
  CHECK_FALSE(o.keeps_all());
  CHECK(plan_options{.device = narrow}.limits_memory());
  CHECK_FALSE(plan_options{.stages = 2, .device = narrow, .devices = free, .device_count = 2}.limits_memory());
  CHECK(refusal({.device = l4.with_limit(0)}) == "stage 0: the memory_limit of device 'L4' is 0; choose at least 1");
}

TEST_CASE("devices name processes all or not at all, without a gap, and one for each worker") {
  static constexpr device_spec some[] = {l4, l4.in_process(0), l4}, gap[] = {l4.in_process(2), l4, l4},
                               halves[] = {l4.in_process(0), l4.in_process(1), l4.in_process(1)};
  const auto on = [](const device_spec* each) { return plan_options{.stages = 3, .devices = each, .device_count = 3}; };
  CHECK(on(halves).named_processes() == 2);
  CHECK(plan_options{.device = l4}.named_processes() == 0);
  CHECK(refusal(on(halves)) == "");
  CHECK(refusal(on(some)) ==
        "stage 0: devices[0] names no process, and others do; name the process of each: .devices[0] = "
        "device.in_process(0)");
  static constexpr device_spec skips[] = {l4.in_process(2), l4.in_process(0), l4.in_process(2)};
  CHECK(refusal(on(skips)) ==
        "no device is in process 1, and one is in process 2; number the processes of a replica from 0 without a gap");
  static constexpr device_spec far[] = {l4.in_process(0), l4.in_process(2147483647), l4.in_process(1)};
  CHECK(refusal(on(far)) == "stage 1: devices[1] is in process 2147483647; choose 0 to 2: each process has a stage");
  CHECK(refusal(on(gap)).starts_with("stage 1: devices[1] names no process"));
  plan_options folded = on(halves);
  folded.workers = 2;  // stages 0 and 1 are the first one's
  CHECK(refusal(folded) ==
        "stage 1: stages 0 and 1 are worker 0's, and their devices are in processes 0 and 1; name one process for all "
        "stages of a worker");
  CHECK(refusal({.device = l4.in_process(1)}) ==
        "device names process 1, and every stage has this device; name the device of each stage in devices");
}

namespace {

std::string refusal(const option_description& option, std::int64_t value) {
  return error_message([&] { detail::require_in_range(option, value); });
}

constexpr const option_description& option_named(std::string_view name) {
  for (const option_description& option : plan_option_list)
    if (option.name == name) return option;
  return plan_option_list[0];
}

// A compile-time option needs no alias.
constexpr plan_options eight = [] {
  plan_options o;
  option<&plan_options::chunks, 8>::choose(o);
  return o;
}();
static_assert(eight.chunks == 8);

}  // namespace

TEST_CASE("every option has a name of its own, and a default within its range") {
  std::set<std::string> names;
  for (const option_description& option : plan_option_list) {
    CAPTURE(option.name);
    CHECK(names.insert(option.name).second);
    CHECK(std::strlen(option.help) > 0);
    CHECK(refusal(option, option.get(plan_options{})) == "");
  }
}

TEST_CASE("a description reads and writes its member") {
  plan_options o;
  for (const option_description& option : plan_option_list) {
    CAPTURE(option.name);
    const std::int64_t other = option.get(o) == option.range.min ? option.range.min + 1 : option.range.min;
    option.set(o, other);
    CHECK(option.get(o) == other);
  }
  CHECK(o.stages == 2);
  CHECK(o.separate_memory);
  CHECK(o.recompute == recompute_mode::always);
}

TEST_CASE("an error names the option, its value and the range") {
  CHECK(refusal(option_named("replicas"), 0) == "replicas is 0; choose at least 1");
  CHECK(refusal(option_named("group_gradients"), 9) ==
        "group_gradients is 9; choose 1 to 8, or 0 for as many as pay off");
  CHECK(refusal(option_named("optimizer_moments"), 5) == "optimizer_moments is 5; choose 0 to 4");
  CHECK(refusal(option_named("workers"), -1) ==
        "workers is -1; choose at least 1, or 0 for as many as the schedule has");
}

TEST_CASE("a value in words is a number or the choice's name") {
  CHECK(option_named("chunks").text(4) == "4");
  CHECK(option_named("recompute").text(static_cast<std::uint64_t>(recompute_mode::as_needed)) == "as-needed");
  CHECK(option_named("schedule").text(static_cast<std::uint64_t>(schedule_kind::custom)) == "custom");
  CHECK(option_named("precision").text(static_cast<std::uint64_t>(precision::bf16)) == "bf16");
}
