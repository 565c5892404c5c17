#include <gpipe/record/checkpoint/safetensors_set.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

void write(const std::string& path, const std::vector<std::string>& names, const char* owner = "x") {
  std::vector<safetensors_tensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, safetensors_type::F32, {2}});
  write_safetensors(path, tensors, {{"owner", owner}}, [](const safetensors_entry& e, safetensors_sink& into) {
    const float values[]{static_cast<float>(e.name[0]), 0.5F};
    into.write(std::span<const float>(values));
  });
}

std::string refusal(const std::string& text) {
  return complaint([&] { detail::parse_index(text, "f"); });
}

}  // namespace

TEST_CASE("one file, or an index and its files, give the same tensors") {
  const memory_folder folder("set");
  write(folder / "m.safetensors", {"a", "b", "c"});
  write(folder / "1", {"a", "c"}, "first");
  write(folder / "2", {"b"});
  write_safetensors_index(folder / "m.safetensors.index.json", {{{"a", "1"}, {"b", "2"}, {"c", "1"}}, 24});
  for (const char* name : {"m.safetensors", "m.safetensors.index.json"}) {
    const safetensors_set set(folder / name);
    CHECK(set.path() == folder / name);
    REQUIRE(set.tensors().size() == 3);
    for (const auto& [tensor, location] : set.tensors()) {
      double values[2];
      location.read(0, std::span<double>(values));
      CHECK(values[0] == static_cast<double>(tensor[0]));
      CHECK(values[1] == 0.5);
    }
    CHECK(set.find("d") == nullptr);
  }
  CHECK(safetensors_set(folder / "m.safetensors.index.json").metadata().at("owner") == "first");
  refuses([&] { detail::open_set(folder.path, "m", detail::system_files()); }, "index of the same name");
  std::filesystem::remove(folder / "m.safetensors");
  CHECK(detail::open_set(folder.path, "m", detail::system_files()).files().size() == 2);
  const safetensors_set moved = safetensors_set(folder / "m.safetensors.index.json");
  CHECK(moved.find("b")->file == &moved.files().back());
}

TEST_CASE("an index that does not fit its files is refused") {
  const memory_folder folder("misfit");
  write(folder / "1", {"a", "c"});
  write(folder / "2", {"b"});
  const auto refused = [&](const safetensors_index& index) {
    write_safetensors_index(folder / "i.json", index);
    return complaint([&] { safetensors_set(folder / "i.json"); });
  };
  CHECK(refused({{{"a", "1"}, {"b", "2"}, {"c", "1"}}, {}}) == "");
  CHECK(refused({{}, 0}) == "");
  CHECK(refused({{{"a", "1"}, {"b", "2"}, {"c", "1"}}, 23}).find("total_size is 23") != std::string::npos);
  CHECK(refused({{{"a", "1"}, {"b", "2"}}, {}}).find("\"c\", which the index does not map") != std::string::npos);
  CHECK(refused({{{"a", "1"}, {"b", "2"}, {"c", "2"}}, {}}).find("\"c\", which the index does not") !=
        std::string::npos);
  CHECK(refused({{{"a", "1"}, {"b", "2"}, {"c", "1"}, {"d", "2"}}, {}}).find("maps tensor \"d\"") != std::string::npos);
  CHECK(refused({{{"a", "1"}, {"b", "3"}, {"c", "1"}}, {}}).find("/3: opening the file failed") != std::string::npos);
  put(folder / "i.json", "");
  CHECK(complaint([&] { safetensors_set(folder / "i.json"); }) != "");
}

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
  refuses([] { detail::index_text({{{"a", "../b"}}, 0}, "f"); }, "\"../b\"");
}

TEST_CASE("names of shards") {
  CHECK(detail::shard_name("model", 2, 4) == "model-00002-of-00004.safetensors");
  CHECK(detail::shard_name("model", 123456, 123456) == "model-123456-of-123456.safetensors");
}
