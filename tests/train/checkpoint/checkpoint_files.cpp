#include <gpipe/train/checkpoint/checkpoint_files.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

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

const checkpoint_facts written{.steps = 120,
                               .seed = ~std::uint64_t{0},
                               .position = {2, 13, 32, 5000},
                               .optimizer = "adam",
                               .optimizer_trial = "0.5",
                               .rate = exact_text(0.1),
                               .groups = "*.bias: rate_factor 1",
                               .frozen = "0.weight\n0.bias"};

void refuses(const char* key, const char* text, const char* what) {
  safetensors_metadata texts = written.texts();
  if (text == nullptr) texts.erase(key);
  else texts[key] = text;
  CHECK_THROWS_WITH_AS(read_facts(texts, "file"), doctest::Contains(what), error);
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

TEST_CASE("facts come back as they were written") {
  const checkpoint_facts read = read_facts(written.texts(), "file");
  CHECK(read.steps == 120);
  CHECK(read.seed == ~std::uint64_t{0});
  CHECK(read.position == data_position{2, 13, 32, 5000});
  CHECK(read.frozen == "0.weight\n0.bias");
  CHECK(read.optimizer == "adam");
  CHECK(read.rate == "0.1");
  CHECK(read.texts() == written.texts());
}

TEST_CASE("facts of format 1 say neither how large a batch was nor what was frozen") {
  safetensors_metadata texts = written.texts();
  texts["gpipe.format"] = "1";
  for (const char* later : {"gpipe.batch_size", "gpipe.samples", "gpipe.frozen"}) texts.erase(later);
  const checkpoint_facts read = read_facts(texts, "file");
  CHECK(read.position == data_position{2, 13});
  CHECK(!read.frozen);
}

TEST_CASE("facts that are missing, malformed or newer are refused") {
  refuses("gpipe.steps", nullptr, "the file has no text \"gpipe.steps\"");
  refuses("gpipe.steps", "", "which is no number");
  refuses("gpipe.steps", "-1", "which is no number");
  refuses("gpipe.steps", "12x", "which is no number");
  refuses("gpipe.seed", "18446744073709551616", "which is no number");
  refuses("gpipe.steps", "18446744073709551615", "which is no count of a training");
  refuses("gpipe.epoch", "9223372036854775807", "which is no count of a training");
  refuses("gpipe.batch", "1000000000000000001", "which is no count of a training");
  refuses("gpipe.samples", "2147483648", "which is no number of samples");
  refuses("gpipe.batch_size", nullptr, "the file has no text \"gpipe.batch_size\"");
  refuses("gpipe.frozen", nullptr, "the file has no text \"gpipe.frozen\"");
  refuses("gpipe.format", "3", "the checkpoint has format 3, but this library reads up to 2");
}

TEST_CASE("a group as text") {
  CHECK(gpipe::detail::text_of(
            {.parameters = {"*.bias", "0.*"}, .rate_factor = 0.5, .weight_decay = 0.25, .frozen = true}) ==
        "*.bias, 0.*: rate_factor 0.5, weight_decay 0.25, frozen");
}
