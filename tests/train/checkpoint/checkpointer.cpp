#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/tools/report/model_summary.hpp>
#include <gpipe/train/checkpoint/checkpointer.hpp>
#include <gpipe/train/predictor.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

using namespace laws;
namespace fs = std::filesystem;

namespace {

using net = tied_net<float>;
constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 4};

struct fixture {
  samples<float> data{20, 12, 1};
  temporary_folder folder{};
  trainer<net, adam> training{two, adam{}, {.seed = 3}};

  fixture() { step(3); }
  void step(int count) {
    for (int i = 0; i < count; ++i) training.step(data.take(i, 8));
  }
  std::string file(const std::string& name) const { return folder.path() + "/step-00000003/" + name; }

  /// Loading fails with this text, and changes nothing.
  void refuses(const std::string& path, const char* what, load_mode mode = load_mode::exact) {
    CAPTURE(path);
    const std::uint64_t before = state_of(training);
    CHECK_THROWS_WITH_AS(training.load(path, mode), doctest::Contains(what), error);
    CHECK(state_of(training) == before);
  }
};

/// The system, whose n-th read fails, from 0 on.
struct failing_reads : detail::file_operations {
  int before_failure;
  explicit failing_reads(int n) : before_failure(n) {}
  long read_at(int file, void* into, std::size_t bytes, std::uint64_t at) override {
    if (before_failure-- != 0) return file_operations::read_at(file, into, bytes, at);
    errno = EIO;
    return -1;
  }
};

/// Every read of this load fails once, and then nothing has changed. Returns how many reads there are.
template <class Trainer>
int changes_nothing_when_a_read_fails(Trainer& training, const std::string& path, const load_options& how = {}) {
  auto& run = const_cast<executor&>(training.executor());
  const std::uint64_t before = state_of(training), gradients = gradients_of(training), seed = run.seed();
  const bool first = run.has_first_values();
  const int accumulated = training.accumulated();
  for (int n = 0;; ++n) {
    failing_reads files(n);
    try {
      detail::checkpoint_facts facts{.optimizer = "adam"};
      detail::checkpointer(run, files).load(path, how, facts);
    } catch (const error& e) {
      CAPTURE(n);
      CHECK(std::string(e.what()).find("Input/output error") != std::string::npos);
      CHECK(state_of(training) == before);
      CHECK(gradients_of(training) == gradients);
      CHECK(run.seed() == seed);
      CHECK(run.has_first_values() == first);
      CHECK(training.accumulated() == accumulated);
      continue;
    }
    CHECK(files.before_failure == 0);
    CHECK(state_of(training) != before);
    return n;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  REQUIRE(from.size() == to.size());
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE_FIXTURE(fixture, "a checkpoint restores parameters, state, moments, steps and seed") {
  const std::uint64_t saved = state_of(training);
  training.save(folder.path(), {.position = {2, 7}});
  step(2);
  CHECK(state_of(training) != saved);
  const load_result found = training.load(folder.path());
  CHECK(state_of(training) == saved);
  CHECK(training.steps() == 3);
  CHECK(found.steps == 3);
  CHECK(found.position == data_position{2, 7});
  CHECK(found.path == folder.path() + "/step-00000003");
  CHECK(found.loaded.size() == 14);
  CHECK(found.skipped.empty());
}

TEST_CASE_FIXTURE(fixture, "loading drops what was accumulated") {
  training.save(folder.path());
  step(1);
  const std::uint64_t expected = state_of(training);
  training.accumulate(data.take(8, 8));
  training.load(folder.path());
  CHECK(training.accumulated() == 0);
  step(1);
  CHECK(state_of(training) == expected);
}

TEST_CASE_FIXTURE(fixture, "a link to a checkpoint is one, and what is no folder is refused") {
  training.save(folder.path());
  const temporary_folder disk;
  step(1);
  training.save(disk.path());
  const std::string run = folder.path(), newest = run + "/step-00000004";
  fs::create_directory_symlink(disk.path() + "/step-00000004", newest);
  CHECK(training.load(run).path == newest);
  fs::remove_all(disk.path() + "/step-00000004");
  refuses(run, "the newest checkpoint, step-00000004, cannot be read: ");
  fs::remove(newest);
  std::ofstream(newest) << "a file";
  refuses(run, "the newest checkpoint, step-00000004, cannot be read: ");
  CHECK(training.load(run, {.allow_older = true}).path == run + "/step-00000003");
}

TEST_CASE_FIXTURE(fixture,
                  "a folder whose newest checkpoint cannot be read is refused, unless an older one is allowed") {
  for (int i = 0; i < 3; ++i, step(1)) training.save(folder.path(), {.keep = 2});
  const std::string run = folder.path(), newest = run + "/step-00000005", older = run + "/step-00000004";
  CHECK(!fs::exists(run + "/step-00000003"));
  fs::resize_file(newest + "/optimizer.safetensors", 2000);
  const std::string cause = "the newest checkpoint, step-00000005, cannot be read: " + newest +
                            "/optimizer.safetensors: the file has ",
                    end = "; the newest one that can is " + older + "; repair or delete what cannot be read, load \"" +
                          older + "\", or set allow_older";
  refuses(run, cause.c_str());
  refuses(run, end.c_str());
  refuses(run, cause.c_str(), load_mode::partial);
  const load_result found = training.load(run, {.allow_older = true});
  CHECK(found.steps == 4);
  CHECK(found.path == older);
  REQUIRE(found.skipped.size() == 1);
  CHECK(found.skipped[0].find("step-00000005") == 0);
  CHECK(training.load(older).steps == 4);
  refuses(newest, "optimizer.safetensors");

  fs::copy(older, run + "/step-00000003", fs::copy_options::recursive);
  fs::remove(older + "/model.safetensors");
  refuses(run, "; 1 more cannot be read; the newest one that can is ");
  CHECK(training.load(run, {.allow_older = true}).skipped.size() == 2);
  fs::remove_all(run + "/step-00000003");
  CHECK_THROWS_WITH_AS(training.load(run, {.allow_older = true}), doctest::Contains("has no whole checkpoint"), error);
}

TEST_CASE_FIXTURE(fixture,
                  "neither an older checkpoint nor what a crash leaves keeps the newest one from being loaded") {
  for (int i = 0; i < 2; ++i, step(1)) training.save(folder.path());
  const std::string run = folder.path();
  fs::resize_file(run + "/step-00000003/model.safetensors", 100);
  fs::copy(run + "/step-00000003", run + "/step-00000006.part", fs::copy_options::recursive);  // a save was interrupted
  fs::copy(run + "/step-00000003", run + "/step-00000004.old", fs::copy_options::recursive);   // another, in its end
  const load_result found = training.load(run);
  CHECK(found.steps == 4);
  CHECK(found.skipped.empty());
}

TEST_CASE_FIXTURE(fixture, "a file that does not fit is refused, and nothing changes") {
  training.save(folder.path());
  struct other : model<input<float, 12>, linear<16>, relu, named<"head", linear<7>>, softmax_cross_entropy> {};
  trainer<other, adam> second(two, adam{});
  second.save(folder.beside("other"));
  refuses(folder.beside("other"), "12 missing: ");
  refuses(folder.beside("other"), "2 unexpected: head.");
  trainer<net, sgd> third(two, sgd{});
  third.step(data.take(0, 8));
  third.save(folder.beside("third"));
  refuses(folder.beside("third"), "the checkpoint is of the optimizer sgd, but this one is adam");

  fs::create_directory(folder.beside("empty"));
  refuses(folder.beside("empty"), "the folder has no checkpoint");
  refuses(folder.beside("nothing"), "there is no such file or folder");
  temporary_folder::write_file(folder.beside("text.safetensors"), "no header");
  refuses(folder.beside("text.safetensors"), "header");

  const std::string whole = temporary_folder::read_file(file("model.safetensors"));
  const std::string optimizer = temporary_folder::read_file(file("optimizer.safetensors"));
  const auto with = [&](const char* name, const std::string& bytes) {
    temporary_folder::write_file(file(name), bytes);
  };
  with("model.safetensors", whole.substr(0, whole.size() - 1));
  refuses(folder.path(), "the file is cut off");
  with("model.safetensors", whole + '0');
  refuses(folder.path(), "behind its header");
  with("model.safetensors", replaced(whole, "\"dtype\"", "\"dtyqe\""));
  refuses(folder.path(), "dtype");
  with("model.safetensors", replaced(whole, "[16,12]", "[12,16]"));
  refuses(folder.path(), "1 misshaped: 0.weight (file 12 x 16, model 16 x 12)");
  with("model.safetensors", whole);
  with("optimizer.safetensors", replaced(optimizer, "\"gpipe.format\":\"2\"", "\"gpipe.format\":\"3\""));
  refuses(folder.path(), "the checkpoint has format 3, but this library reads up to 2");
  with("optimizer.safetensors", optimizer);
  fs::remove(file("optimizer.safetensors"));
  fs::create_directory(file("optimizer.safetensors"));
  refuses(folder.path(), "optimizer.safetensors");
  fs::remove(file("optimizer.safetensors"));
  with("optimizer.safetensors", optimizer);
  CHECK(training.load(folder.path()).steps == 3);
}

TEST_CASE_FIXTURE(fixture, "a load that fails in the middle changes nothing, whichever read fails") {
  training.save(folder.path());
  training.save(folder.beside("shards"), {.max_file_bytes = 1500});
  training.save(folder.beside("model.safetensors"));
  for (const bool fresh : {false, true}) {
    CAPTURE(fresh);
    const auto reads = [&](const std::string& path, const load_options& how = {}, double average = 0) {
      trainer<net, adam> second{two, adam{}, {.seed = 8, .average_weights = average}};
      if (!fresh) second.step(data.take(2, 8)), second.accumulate(data.take(3, 8));
      return changes_nothing_when_a_read_fails(second, path, how);
    };
    CHECK(reads(folder.path()) > 30);
    CHECK(reads(folder.beside("shards")) > 40);
    CHECK(reads(folder.path(), {.mode = load_mode::partial}) > 14);
    CHECK(reads(folder.beside("model.safetensors")) > 14);
    CHECK(reads(folder.beside("model.safetensors"), {}, 0.5) > 14);
    trainer<net, adafactor> other{two, adafactor{}, {.seed = 8}};
    if (!fresh) other.step(data.take(2, 8));
    CHECK(changes_nothing_when_a_read_fails(other, folder.beside("model.safetensors")) > 14);
  }
  // Values that a program has set are no first values.
  trainer<net, adam> set{two, adam{}, {.seed = 8}};
  set.set_parameter("0.weight", training.parameter("0.weight"));
  CHECK(changes_nothing_when_a_read_fails(set, folder.path()) > 30);
  trainer<net, adam> restored{two, adam{}, {.seed = 8}}, other{two, adam{}, {.seed = 9}};
  std::vector<std::byte> values;
  other.keep_values(values);
  restored.restore_values(values);
  CHECK(changes_nothing_when_a_read_fails(restored, folder.beside("model.safetensors")) > 14);
}

TEST_CASE_FIXTURE(fixture, "a save that fails leaves the checkpoints before, and the training goes on") {
  training.save(folder.path());
  const std::uint64_t saved = state_of(training);
  step(1);
  temporary_folder::write_file(folder.path() + "/step-00000004", "in the way");
  CHECK_THROWS_AS(training.save(folder.path()), error);
  training.save(folder.path(), {.wait = false});
  step(1);
  CHECK_THROWS_AS(training.wait_for_save(), error);
  training.wait_for_save();  // a failure is thrown once
  CHECK_THROWS_AS(training.save("/proc/no/folder"), error);
  fs::remove(folder.path() + "/step-00000004");
  step(1);
  training.load(folder.path());
  CHECK(state_of(training) == saved);
}

TEST_CASE_FIXTURE(fixture, "a save of gradients that wait for a step is refused") {
  training.accumulate(data.take(0, 4));
  CHECK_THROWS_WITH_AS(training.save(folder.path()), doctest::Contains("accumulated"), error);
  training.discard_accumulated();
  CHECK_THROWS_WITH_AS(training.save(folder.path(), {.keep = 0}), doctest::Contains("keep is 0"), error);
  training.save(folder.path());
}

TEST_CASE_FIXTURE(fixture, "the arrays of a save beside the training are those of its step") {
  const std::uint64_t saved = state_of(training);
  training.save(folder.path(), {.wait = false});
  step(2);
  training.wait_for_save();
  training.load(folder.path());
  CHECK(state_of(training) == saved);
}

TEST_CASE_FIXTURE(fixture, "texts are saved with the model, and come back") {
  const std::map<std::string, std::string> texts{{"scaling", "age 38.5 12.25\nincome 1e4 0.1"},
                                                 {"vocabulary", "\"a\"\t\\ \xc3\xa4 \xf0\x9f\x98\x80"},
                                                 {"no text", ""}};
  training.save(folder.path(), {.max_file_bytes = 1, .texts = texts});  // in several files
  CHECK(training.load(folder.path()).texts == texts);
  CHECK(training.load(file("model.safetensors.index.json")).texts == texts);
  step(1);
  training.save(folder.path());
  CHECK(training.load(folder.path()).texts.empty());  // a save has the texts that it is given
  step(1);
  training.save(folder.path(), {.wait = false, .texts = texts});
  CHECK(training.load(folder.path()).texts == texts);
  const std::string alone = folder.beside("texts.safetensors");
  training.save(alone, {.texts = texts});
  predictor<net> other(two);
  CHECK(other.load(alone).texts == texts);
  CHECK(safetensors_file(alone).metadata().at("scaling") == texts.at("scaling"));
  for (const char* name : {"", "format", "gpipe.steps"}) {
    CHECK_THROWS_WITH_AS(training.save(alone, {.texts = {{name, "x"}}}), doctest::Contains("a text has the name"),
                         error);
    CHECK_THROWS_WITH_AS(training.save(folder.path(), {.texts = {{name, "x"}}}),
                         doctest::Contains("a text has the name"), error);
  }
  CHECK_THROWS_WITH_AS(training.save(alone, {.texts = {{"x", "\xff"}}}), doctest::Contains("is not UTF-8"), error);
  CHECK(other.load(alone).texts == texts);
}

TEST_CASE_FIXTURE(fixture, "a model alone is one file, without a position") {
  const std::string path = folder.beside("m.safetensors");
  CHECK_THROWS_WITH_AS(training.save(path, {.max_file_bytes = 1500}),
                       doctest::Contains("max_file_bytes is 1500, but \""), error);
  CHECK_THROWS_WITH_AS(training.save(path, {.position = {1, 2}}), doctest::Contains("a position in the data is given"),
                       error);
  CHECK(!fs::exists(path));
  training.save(path, {.max_file_bytes = 1 << 20});
  CHECK(training.load(path).loaded.size() == 14);
}

TEST_CASE_FIXTURE(fixture, "a checkpoint has what is frozen by calls") {
  trainer<net, adam> second{{.stages = 3, .micro_batches = 2, .micro_batch_size = 4}, adam{}, {.seed = 5}};
  second.freeze(0, 3);
  const int tied = training.array("8.weight").layer_index;  // to 2.weight
  training.freeze(tied);
  const std::uint64_t before = state_of(training);
  training.save(folder.path());
  const load_result found = second.load(folder.path());
  CHECK(found.frozen == std::vector<std::string>{"2.weight", "2.bias"});
  const auto frozen = [](auto& of) {
    std::vector<std::string> paths;
    for (const auto& p : of.parameters())
      if (p.kind == array_kind::parameter && !p.trainable()) paths.push_back(p.path);
    return paths;
  };
  CHECK(frozen(second) == frozen(training));
  CHECK(frozen(second).size() == 6);
  step(2);
  for (int i = 0; i < 2; ++i) second.step(data.take(i, 8));
  CHECK(state_of(second) == state_of(training));
  CHECK(state_of(second) != before);
  CHECK(second.parameter("8.weight") == training.parameter("2.weight"));

  // A checkpoint without frozen parameters ends what is frozen here.
  training.unfreeze(tied);
  training.save(folder.beside("later"));
  CHECK(second.load(folder.beside("later")).frozen.empty());
  CHECK(frozen(second).empty());
  step(2);
  for (int i = 0; i < 2; ++i) second.step(data.take(i, 8));
  CHECK(state_of(second) == state_of(training));
  // A model alone says nothing about it.
  second.freeze(0);
  second.load(folder.beside("later") + "/step-00000005/model.safetensors");
  CHECK(frozen(second).size() == 2);
  CHECK(second.load(folder.beside("later"), load_mode::partial).frozen.empty());
  CHECK(frozen(second).size() == 2);
}

TEST_CASE_FIXTURE(fixture, "a large model goes to several files and an index") {
  training.save(folder.path(), {.max_file_bytes = 1500});
  CHECK(fs::exists(file("model.safetensors.index.json")));
  CHECK(fs::exists(file("model-00002-of-00005.safetensors")));
  const std::uint64_t saved = state_of(training);
  step(1);
  CHECK(training.load(folder.path()).steps == 3);
  CHECK(state_of(training) == saved);
  step(1);
  CHECK(training.load(file("model.safetensors.index.json")).loaded.size() == 14);
}

TEST_CASE_FIXTURE(fixture, "a link to a folder is loaded, and what is missing is refused") {
  training.save(folder.path());
  const std::string link = folder.beside("link");
  std::filesystem::create_directory_symlink(folder.path(), link);
  CHECK(training.load(link).seed == 3);
  refuses(folder.beside("nowhere"), "there is no such file or folder; give a folder");
}

TEST_CASE_FIXTURE(fixture, "the model alone goes to a file, and comes back in another type") {
  training.save(folder.beside("m.safetensors"));
  const auto weight = training.parameter("0.weight");
  safetensors_file file(folder.beside("m.safetensors"));
  CHECK(file.metadata().at("format") == "pt");
  trainer<tied_net<double>, adam> wide({.stages = 3, .micro_batches = 2, .micro_batch_size = 4}, adam{});
  const load_result found = wide.load(folder.beside("m.safetensors"));
  CHECK(found.missing.empty());
  CHECK(wide.steps() == 0);
  const auto other = wide.array("0.weight").template values<double>();
  for (std::size_t i = 0; i < weight.size(); ++i) CHECK(other[i] == static_cast<double>(weight[i]));
}

TEST_CASE_FIXTURE(fixture, "a partial load takes what fits, and leaves moments and steps") {
  struct tuned : model<input<float, 12>, linear<16>, relu, named<"head", linear<5>>, softmax_cross_entropy> {};
  training.save(folder.path());
  trainer<tuned, sgd> second(two, sgd{});
  second.step(data.take(0, 8));
  const load_result found = second.load(folder.path(), load_mode::partial);
  CHECK(found.loaded == std::vector<std::string>{"0.weight", "0.bias"});
  CHECK(found.missing == std::vector<std::string>{"head.weight", "head.bias"});
  CHECK(found.steps == 1);
  CHECK(second.parameter("0.weight") == training.parameter(0, "weight"));
}

TEST_CASE_FIXTURE(fixture, "tied layers are in the file under each of their names") {
  training.save(folder.beside("m.safetensors"));
  safetensors_file file(folder.beside("m.safetensors"));
  std::vector<float> first(256), second(256);
  file.read(file.at("2.weight"), 0, std::span(first));
  file.read(file.at("8.weight"), 0, std::span(second));
  CHECK(first == second);
}

TEST_CASE_FIXTURE(fixture, "files of different steps are refused, in one file each and in several") {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 30, std::uint64_t{1500}}) {
    const std::string from = folder.beside("of" + std::to_string(bytes)), old = from + "/step-00000003/";
    if (bytes == 1500) training.load(folder.beside("of1073741824") + "/step-00000003");
    training.save(from, {.max_file_bytes = bytes});
    step(1);
    training.save(from, {.max_file_bytes = bytes});
    const std::string now = from + "/step-00000004/";
    const char* const other = bytes == 1500 ? "model-00002-of-00005.safetensors" : "model.safetensors";
    fs::copy_file(old + other, now + other, fs::copy_options::overwrite_existing);
    refuses(now, "is of step \"3\"");
    refuses(from, bytes == 1500 ? "model-00001-of-00005.safetensors\" is of step \"4\"" : "is of step \"4\"");
  }
}

TEST_CASE_FIXTURE(fixture, "averaged weights are in the checkpoint and in the trainer, or in neither") {
  trainer<net, adam> averaged{two, adam{}, {.seed = 3, .average_weights = 0.5}};
  averaged.step(data.take(0, 8));
  averaged.save(folder.beside("averaged"));
  const std::uint64_t before = state_of(averaged);
  refuses(folder.beside("averaged"), "average_weights is 0, but the checkpoint has averaged weights");
  training.save(folder.path());
  CHECK_THROWS_WITH_AS(averaged.load(folder.path()),
                       doctest::Contains("average_weights is set, but the checkpoint has no averaged weights"), error);
  CHECK(state_of(averaged) == before);
  // The model alone fits. Averages begin with its parameters.
  averaged.load(file("model.safetensors"));
  CHECK(averaged.parameter("0.weight") == training.parameter("0.weight"));
  CHECK(averaged.array("0.weight").average() == training.parameter("0.weight"));
  training.load(folder.beside("averaged") + "/step-00000001/model.safetensors");
  averaged.load(folder.beside("averaged"));
  CHECK(averaged.parameter("0.weight") == training.parameter("0.weight"));
  CHECK(averaged.array("0.weight").average() != training.parameter("0.weight"));
}

TEST_CASE_FIXTURE(fixture, "the summary of a training ends with its groups") {
  CHECK(training.group_summary() == "");
  trainer<net, adam> grouped{
      two, adam{}, {.groups = {{.parameters = {"0.*"}, .rate_factor = 0.1}, no_decay_for_biases_and_norms()}}};
  const std::string groups =
      "group 0: 2 arrays, 208 parameters; 0.*: rate_factor 0.1\n"
      "group 1: 4 arrays, 55 parameters; *bias, *_norm: rate_factor 1, weight_decay 0\n"
      "no group: 2 arrays, 368 parameters\n";
  CHECK(grouped.group_summary() == groups);
  CHECK(summary(grouped) == summary(grouped.net(), grouped.plan()) + groups);
  grouped.save(folder.path());
  const safetensors_file saved(folder.path() + "/step-00000000/optimizer.safetensors");
  CHECK(saved.metadata().at("gpipe.groups") == "0.*: rate_factor 0.1; *bias, *_norm: rate_factor 1, weight_decay 0");
}

TEST_CASE("arrays of several blocks are loaded as they were saved, and as their transpose") {
  struct wide : model<input<float, 300>, linear<301>, relu, linear<4>, softmax_cross_entropy> {};
  const temporary_folder folder;
  trainer<wide, sgd> first({.micro_batch_size = 1}, {}, {.seed = 5});
  const std::vector<float> weight = first.array("0.weight").values();
  const name_map turned{.rules = {{.file = {"*.kernel"}, .model = "*.weight", .transposed = true}}};
  for (const name_map& names : {name_map{}, turned}) {
    const std::string file = folder.beside(names == turned ? "turned.safetensors" : "plain.safetensors");
    first.save(file, {.names = names});
    trainer<wide, sgd> second({.stages = 2, .micro_batch_size = 1}, {}, {.seed = 6});
    CHECK(second.array("0.weight").values() != weight);
    second.load(file, {.names = names});
    CHECK(second.array("0.weight").values() == weight);
    CHECK(second.parameter_hash() == first.parameter_hash());
  }
  const safetensors_file file(folder.beside("turned.safetensors"));
  const safetensors_entry* const entry = file.find("0.kernel");
  REQUIRE(entry != nullptr);
  REQUIRE(entry->shape == std::vector<std::uint64_t>{300, 301});
  std::vector<float> kernel(300 * 301);
  file.read(*entry, 0, std::span(kernel));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 301; ++i)
    for (std::size_t j = 0; j < 300; ++j) wrong += kernel[j * 301 + i] != weight[i * 300 + j];
  CHECK(wrong == 0);
}
