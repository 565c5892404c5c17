#include "../examples/options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

struct line {
  std::int64_t limit = 0;
  int stages = 1;
  std::vector<std::int64_t> limits;
  gpipe::plan_options plan;

  /// The error of this command line; empty if there is none.
  std::string read(std::vector<std::string> words) {
    std::vector<char*> at{nullptr};
    for (std::string& word : words) at.push_back(word.data());
    try {
      example::options("test")
          .bytes("--memory-limit", limit, "a limit")
          .number("--stages", stages, 1, 8, "stages")
          .byte_list("--memory", limits, "limits")
          .choice("--shard", plan.shard, {{"optimizer-state", gpipe::shard::optimizer_state}}, "shares")
          .recompute_layers(plan)
          .read(static_cast<int>(at.size()), at.data());
    } catch (const gpipe::error& failure) {
      return failure.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("a number of bytes has a unit, and may have a fraction") {
  line given;
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, std::int64_t>>{{"1000", 1000},
                                                         {"4MiB", 4 << 20},
                                                         {"3.3MiB", 3'460'300},
                                                         {"0.5KB", 500},
                                                         {"1.25GB", 1'250'000'000},
                                                         {"9007199254740993", 9'007'199'254'740'993}}) {
    CHECK(given.read({"--memory-limit", text}) == "");
    CHECK(given.limit == bytes);
  }
  CHECK(given.read({"--memory-limit", "0.0001KB"}).find("is less than 1 byte") != std::string::npos);
  CHECK(given.read({"--memory-limit", "-3MB"}).find("is less than 1 byte") != std::string::npos);
  CHECK(given.read({"--memory-limit", "99999999TB"}).find("is out of range") != std::string::npos);
  CHECK(given.read({"--memory-limit", "9223372036854775808"}).find("is out of range") != std::string::npos);
  CHECK(given.read({"--memory-limit", "nan"}).find("--memory-limit: \"nan\"") != std::string::npos);
  CHECK(given.read({"--memory-limit", "3Mb"}).find("unknown unit") != std::string::npos);
}

TEST_CASE("an unknown option suggests the option that was meant") {
  line given;
  CHECK(given.read({"--stage", "2"}) == "unknown option \"--stage\"; write --stages, or --help, which lists all");
  CHECK(given.read({"--elephants"}) == "unknown option \"--elephants\"; --help lists them");
  CHECK(given.read({"--stages", std::string(3000, 'x')}).size() < 200);
}

TEST_CASE("a list of bytes has commas, and each of its numbers is checked") {
  line given;
  CHECK(given.read({"--memory", "8GiB"}) == "");
  CHECK(given.limits == std::vector<std::int64_t>{std::int64_t{8} << 30});
  CHECK(given.read({"--memory", "1KB,2MiB,30"}) == "");
  CHECK(given.limits == std::vector<std::int64_t>{1000, 2 << 20, 30});
  for (const char* bad : {"", ",", "1KB,", "1KB,,2KB", "1KB;2KB", "1KB,-1"}) CHECK(given.read({"--memory", bad}) != "");
  CHECK(given.limits == std::vector<std::int64_t>{1000, 2 << 20, 30});  // as it was
}

TEST_CASE("a list of layers has commas, and its patterns outlive the line") {
  line given;
  CHECK(given.read({"--recompute-layers", "h.*.mlp,layer_norm"}) == "");
  CHECK(given.plan.recompute_layers == gpipe::layer_patterns{"h.*.mlp", "layer_norm"});
  CHECK(given.read({"--recompute-layers", "gelu"}) == "");  // the last one counts
  CHECK(given.plan.recompute_layers == gpipe::layer_patterns{"gelu"});
  CHECK(given.read({"--recompute-layers", "a,,b"}).find("has an empty pattern") != std::string::npos);
  CHECK(given.read({"--recompute-layers="}).find("has an empty pattern") != std::string::npos);
  std::string many = "a";
  for (int i = 1; i < 16; ++i) many += ",a";
  CHECK(given.read({"--recompute-layers", many}) == "");
  CHECK(given.read({"--recompute-layers", many + ",a"}).find("has too many patterns; give at most 16") !=
        std::string::npos);
}

TEST_CASE("a word may have - or _ between its parts, and another word is refused") {
  line given;
  for (const char* word : {"optimizer-state", "optimizer_state", "Optimizer_State"}) {
    given.plan.shard = gpipe::shard::none;
    CHECK(given.read({"--shard", word}) == "");
    CHECK(given.plan.shard == gpipe::shard::optimizer_state);
  }
  CHECK(given.read({"--shard", "moments"}) ==
        "option --shard: \"moments\" is not a choice; choose one of optimizer-state");
}
