#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <gpipe/train/checkpoint/checkpoint_files.hpp>

#include <gpipe/core/config.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

std::vector<stored_array> arrays() {
  std::vector<stored_array> all(5);
  for (int i = 0; i < 5; ++i) {
    all[index(i)].name = std::string(1, static_cast<char>('a' + i));
    all[index(i)].location = {.layer_index = i, .bytes = 40};
    all[index(i)].extents = {10};
  }
  return all;
}
std::string text_of(const file_list& list) {
  std::string text;
  for (const checkpoint_file& file : list.files) {
    text += file.name + '@' + std::to_string(file.rank) + ':';
    for (const stored_array& one : file.arrays) text += one.name;
    text += ' ';
  }
  return text;
}

}  // namespace

TEST_CASE("arrays that fit go to one file") {
  const file_list list = deal_arrays("model", arrays(), 200, [](const auto&) { return 0; });
  CHECK(text_of(list) == "model.safetensors@0:abcde ");
  CHECK(!list.has_index());
}

TEST_CASE("a file has at most the bytes that were given, or one array") {
  const auto first = [](const auto&) { return 0; };
  CHECK(text_of(deal_arrays("model", arrays(), 80, first)) ==
        "model-00001-of-00003.safetensors@0:ab model-00002-of-00003.safetensors@0:cd "
        "model-00003-of-00003.safetensors@0:e ");
  CHECK(deal_arrays("model", arrays(), 1, first).files.size() == 5);
}

TEST_CASE("each rank has its own files, and the index lists all") {
  const file_list list =
      deal_arrays("m", arrays(), 200, [](const stored_array& of) { return of.location.layer_index % 2; });
  CHECK(text_of(list) == "m-00001-of-00002.safetensors@0:ace m-00002-of-00002.safetensors@1:bd ");
  const safetensors_index all = index_of(list);
  CHECK(all.file_of.size() == 5);
  CHECK(all.file_of.at("d") == "m-00002-of-00002.safetensors");
  CHECK(all.total_size == 200);
}

TEST_CASE("no arrays make one file without tensors") {
  CHECK(text_of(deal_arrays("optimizer", {}, 100, [](const auto&) { return 0; })) == "optimizer.safetensors@0: ");
}
