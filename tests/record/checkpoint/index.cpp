#include <gpipe/record/checkpoint/index.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

std::string refusal(const std::string& text) {
  return complaint([&] { detail::parse_index(text, "f"); });
}

}  // namespace

TEST_CASE("the bytes are those of Hugging Face's json.dumps(index, indent=2, sort_keys=True)") {
  const safetensors_index index{{{"b", "m-2"}, {"a.weight", "m-1"}}, 12};
  const std::string text =
      "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n    \"a.weight\": \"m-1\",\n    \"b\": "
      "\"m-2\"\n  }\n}\n";
  CHECK(detail::index_text(index, "f") == text);
  CHECK(detail::index_text({}, "f") == "{\n  \"metadata\": {},\n  \"weight_map\": {}\n}\n");
  const auto read = detail::parse_index(text, "f");
  CHECK(read.file_of == index.file_of);
  CHECK(read.total_size == index.total_size);
  const memory_folder folder("index");
  write_safetensors_index(folder / "a.json", index);
  CHECK(content(folder / "a.json") == text);
  CHECK_FALSE(std::filesystem::exists(folder / ".a.json.part"));
}

TEST_CASE("an index is read strictly") {
  CHECK(refusal(R"({"weight_map":{}})") == "");
  CHECK(refusal(R"({"weight_map":{"a":"b"},"metadata":{"total_parameters":1.5,"total_size":0},"more":[1]})") == "");
  CHECK(refusal("{}").find("weight_map is missing") != std::string::npos);
  CHECK(refusal("").find("missing") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{}} x)").find("follows") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{},"weight_map":{}})").find("twice") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{},"metadata":{},"metadata":{}})").find("twice") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{"a":"b","a":"b"}})").find("twice") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{},"metadata":{"total_size":1,"total_size":1}})").find("twice") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{},"metadata":{"total_size":1.5}})").find("not whole") != std::string::npos);
  CHECK(refusal(R"({"weight_map":{"a":1}})") != "");
  for (const char* name : {"", ".", "..", "../a", "/a", "a/b", "a\\\\b", "a\\u0000", "\\u002e."})
    CHECK(refusal(R"({"weight_map":{"a":")" + std::string(name) + "\"}}").find("not in the folder") !=
          std::string::npos);
  CHECK(complaint([] { detail::index_text({{{"a", "../b"}}, 0}, "f"); }).find("\"../b\"") != std::string::npos);
}

TEST_CASE("names of shards") {
  CHECK(detail::shard_name("model", 2, 4) == "model-00002-of-00004.safetensors");
  CHECK(detail::shard_name("model", 123456, 123456) == "model-123456-of-123456.safetensors");
}
