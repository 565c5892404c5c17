#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/train/trainer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/checkpoints.hpp"

// Every length of a header is read. The length is the first 8 bytes of a file, and some lengths are the marks of other
// formats: 640 and 66,176 begin with the bytes of a pickle.

using namespace gpipe;
using checkpoints::memory_folder;

namespace {

constexpr std::size_t longest = 2048, pickle_again = 65'536 + 640;

std::vector<std::size_t> lengths(std::size_t first, std::size_t step) {
  std::vector<std::size_t> result;
  for (std::size_t length = first; length <= longest; length += step) result.push_back(length);
  result.push_back(pickle_again);
  return result;
}

std::size_t header_length(const std::string& path) {
  const std::string bytes = checkpoints::content(path);
  REQUIRE(bytes.size() >= 8);
  std::size_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::size_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  return length;
}

struct net : model<input<float, 4>, linear<8>, relu, linear<3>, softmax_cross_entropy> {};
using training = trainer<net, adam>;
constexpr plan_options one_stage{.micro_batch_size = 2};

std::vector<float> parameters(training& trained) {
  std::vector<float> values;
  for (const int layer : {0, 2})
    for (const char* name : {"weight", "bias"})
      for (const float x : trained.array(layer, name).values<float>()) values.push_back(x);
  return values;
}

std::map<std::string, std::string> text_of(std::size_t size) { return {{"text", std::string(size, 'x')}}; }

}  // namespace

TEST_CASE("a file with a header of any length is read") {
  const memory_folder folder("header_lengths");
  const std::string path = folder / "any.safetensors";
  for (const std::size_t length : lengths(8, 1)) {
    CAPTURE(length);
    std::string header = "{}", data;
    if (length > 60) header = R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", data = "abc";
    header.resize(length, ' ');
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> 8 * i & 0xff);
    checkpoints::put(path, bytes + header + data);
    const safetensors_file file(path);
    CHECK(file.entries().size() == (data.empty() ? 0 : 1));
    if (data.empty()) continue;
    std::string found(3, '\0');
    file.read_bytes(file.at("w"), 0, std::as_writable_bytes(std::span(found)));
    CHECK(found == data);
  }
}

TEST_CASE("a model with a header of any length is saved and loaded") {
  const memory_folder folder("header_lengths");
  const std::string path = folder / "model.safetensors";
  training saved(one_stage, adam{}, {.seed = 1}), loaded(one_stage, adam{}, {.seed = 2});
  const std::vector<float> wanted = parameters(saved), first_values = parameters(loaded);
  REQUIRE(wanted != first_values);
  const auto loads = [&](std::size_t text) {
    saved.save(path, {.texts = text_of(text)});
    loaded.array(0, "weight").set(std::span<const float>(first_values).first(32));
    CHECK(loaded.load(path).texts == text_of(text));
    CHECK(parameters(loaded) == wanted);
    return header_length(path);
  };
  // A text longer by 8 makes a header longer by 8.
  const std::size_t shortest = loads(0);
  REQUIRE(shortest < 640);
  for (const std::size_t length : lengths(shortest, 8)) {
    CAPTURE(length);
    CHECK(loads(length - shortest) == length);
  }
}

TEST_CASE("a checkpoint with a header of 640 bytes is the newest of its folder") {
  const memory_folder folder("header_lengths");
  const std::string path = folder / "run", file = path + "/step-00000000/model.safetensors";
  training saved(one_stage, adam{}, {.seed = 1}), loaded(one_stage, adam{}, {.seed = 2});
  saved.save(path, {.texts = text_of(0)});
  saved.save(path, {.texts = text_of(640 - header_length(file))});
  REQUIRE(header_length(file) == 640);
  const load_result found = loaded.load(path);
  CHECK(found.path == path + "/step-00000000");
  CHECK(found.skipped.empty());
  CHECK(parameters(loaded) == parameters(saved));
}
