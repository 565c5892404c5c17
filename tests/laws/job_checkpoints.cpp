#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gpipe/tools/names/hugging_face.hpp>

#include <gpipe/job.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/processes.hpp"
#include "support/temporary_folder.hpp"
#include "support/wide.hpp"

// Checkpoints of the job of processes that mpirun has started: any number of processes loads them, and a save fails in
// all processes or in none.

using namespace laws;
namespace fs = std::filesystem;

namespace {

using net = tied_net<float>;
/// Each of up to four stages has parameters of its own.
struct plain_net
    : model<input<float, 12>, linear<16>, gelu, linear<16>, gelu, linear<16>, gelu, linear<7>, softmax_cross_entropy> {
};

const samples<float> data(20, 12, 1);

/// A folder that all processes see. Rank 0 removes it, when the others have left the test.
class shared_folder {
 public:
  shared_folder() {
    if (the_job().rank() == 0) own_.emplace();
    char name[256]{};
    if (own_) own_->beside("").copy(name, sizeof name - 1);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    parent_ = name;
  }
  shared_folder(const shared_folder&) = delete;
  ~shared_folder() { MPI_Barrier(MPI_COMM_WORLD); }

  std::string beside(const std::string& name) const { return parent_ + name; }
  std::string path() const { return beside("checkpoints"); }

 private:
  std::optional<temporary_folder> own_{};
  std::string parent_{};
};

training_options options(process_group* job, std::uint64_t seed = 5) {
  training_options how;
  how.seed = seed;
  how.max_grad_norm = 1;
  how.average_weights = 0.8;
  how.groups = {{.parameters = {"0.*"}, .rate_factor = 0.25}};
  how.deadline = std::chrono::seconds(30);
  how.job = job;
  return how;
}
plan_options plan_of(int stages, schedule_kind kind = schedule_kind::fill_drain) {
  return {.stages = stages, .micro_batches = 4, .micro_batch_size = 4, .schedule = kind};
}
template <class Net = net>
trainer<Net, adam> in_job(std::uint64_t seed = 5) {
  return trainer<Net, adam>(plan_of(the_job().ranks()), adam{}, options(&the_job(), seed));
}
trainer<net, adam> alone(int stages, std::uint64_t seed = 5) {
  return trainer<net, adam>(plan_of(stages, schedule_kind::one_f_one_b), adam{}, options(nullptr, seed));
}
template <class Net>
void steps(trainer<Net, adam>& training, int from, int to) {
  for (int i = from; i < to; ++i) training.step(data.take(i % 5, 9 + i % 6));
}
std::uint64_t state_after(int count) {
  trainer<net, adam> whole = alone(1);
  steps(whole, 0, count);
  return state_of(whole);
}

/// The error of the call on this process.
template <class Call>
std::string refusal(Call&& call, int* rank = nullptr) {
  try {
    call();
  } catch (const error& cause) {
    if (rank != nullptr) *rank = cause.where().rank;
    return cause.wrong();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("replicas that keep shares save what threads load, with another choice and number of replicas") {
  const shared_folder folder;
  const int R = the_job().ranks();
  const auto training_of = [](int replicas, shard shares, process_group* job) {
    return trainer<wide_net, adam>({.micro_batch_size = 8, .replicas = replicas, .shard = shares}, adam{},
                                   options(job));
  };
  for (const shard shares : {shard::optimizer_state, shard::gradients}) {
    CAPTURE(std::string(name_of(shares)));
    auto training = training_of(R, shares, &the_job()), twin = training_of(R, shard::none, nullptr);
    const auto both = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        const batch b = data.take(i, i == 1 ? R : 8 + i);  // of 20 samples
        CHECK(training.step(b).norm == twin.step(b).norm);
      }
      CHECK(state_of(training) == state_of(twin));
      CHECK(training.evaluate(data.take(0, 7), weights::averaged).loss ==
            twin.evaluate(data.take(0, 7), weights::averaged).loss);
    };
    both(0, 3);
    training.save(folder.beside(name_of(shares)));
    auto alone = training_of(1, shard::none, nullptr);
    alone.load(folder.beside(name_of(shares)));
    CHECK(state_of(alone) == state_of(twin));
    both(3, 5);
    training.load(folder.beside(name_of(shares))), twin.load(folder.beside(name_of(shares)));
    both(5, 7);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_CASE("a training that was saved in a job goes on in one process with the same bits, and the other way round") {
  const shared_folder folder;
  {
    trainer<net, adam> training = in_job();
    steps(training, 0, 3);
    training.save(folder.path(), {.position = {1, 3}});
  }
  for (const int stages : {1, 3}) {
    trainer<net, adam> training = alone(stages, 77);
    const load_result found = training.load(folder.path());
    CHECK(found.steps == 3);
    CHECK(found.position == data_position{1, 3});
    CHECK(state_of(training) == state_after(3));
    steps(training, 3, 6);
    CHECK(state_of(training) == state_after(6));
    if (stages == 3 && the_job().rank() == 0) training.save(folder.beside("alone"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  trainer<net, adam> training = in_job(78);
  CHECK(training.load(folder.beside("alone")).steps == 6);
  CHECK(state_of(training) == state_after(6));
  steps(training, 6, 8);
  CHECK(state_of(training) == state_after(8));
}

TEST_CASE("the model alone has the same bytes from a job and from one process, with foreign names too") {
  const shared_folder folder;
  const name_map names{
      .rules = {{.file = {"q.*", "k.*"}, .model = "0.*"}, {.file = {"w.*.t"}, .model = "*.weight", .transposed = true}},
      .ignored = {"mask"},
      .prefixes = {"m."},
      .tied_once = true};
  // 0.weight is cut into rows, 10.weight is transposed; those of one extent keep their layouts.
  name_map matrices = names;
  matrices.rules[1] = {.file = {"w.*.t"}, .model = "10.*ight", .transposed = true};
  trainer<net, adam> training = in_job(), here = alone(2);
  steps(training, 0, 2), steps(here, 0, 2);
  const std::string mine = folder.beside("alone." + std::to_string(the_job().rank()) + ".safetensors");
  for (const name_map& map : {name_map{}, matrices}) {
    training.save(folder.beside("job.safetensors"), {.names = map});
    here.save(mine, {.names = map});
    CHECK(temporary_folder::read_file(mine) == temporary_folder::read_file(folder.beside("job.safetensors")));
    trainer<net, adam> second = in_job(6);
    second.load(folder.beside("job.safetensors"), {.names = map});
    CHECK(second.parameter_hash() == training.parameter_hash());
  }
  CHECK(refusal([&] {
          training.save(folder.beside("job.safetensors"), {.names = names});
        }).starts_with("the rule for \"*.weight\" is transposed, but "));
  steps(training, 2, 3), steps(here, 2, 3);
  CHECK(state_of(training) == state_of(here));
}

TEST_CASE("a save that cannot write on one process fails on all, and leaves the checkpoint before") {
  const shared_folder folder;
  trainer<plain_net, adam> training = in_job<plain_net>();
  std::signal(SIGXFSZ, SIG_IGN);
  for (int r = 0; r < the_job().ranks(); ++r) {
    CAPTURE(r);
    steps(training, r, r + 1);
    training.save(folder.path());
    const std::uint64_t saved = state_of(training);
    steps(training, r + 1, r + 2);
    const std::uint64_t later = state_of(training);
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    for (const rlim_t bytes : {rlim_t{0}, rlim_t{40}}) {  // nothing fits, or the first bytes
      rlimit small = before;
      small.rlim_cur = bytes;
      if (the_job().rank() == r) REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
      int rank = -1;
      const std::string cause = refusal([&] { training.save(folder.path()); }, &rank);
      REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
      CHECK(cause.find("File too large") != cause.npos);
      CHECK(rank == r);
      CHECK(state_of(training) == later);
      MPI_Barrier(MPI_COMM_WORLD);
      CHECK(std::none_of(fs::directory_iterator(folder.path()), fs::directory_iterator(), [](const auto& entry) {
        return entry.path().filename().string().find(".part") != std::string::npos;
      }));
    }
    trainer<plain_net, adam> second = in_job<plain_net>(6);
    second.load(folder.path());
    CHECK(state_of(second) == saved);
    training.load(folder.path());
    CHECK(state_of(training) == saved);
  }
}

TEST_CASE("a load that cannot read on one process, or differs, fails on all, and changes nothing") {
  const shared_folder folder;
  const int last = the_job().ranks() - 1;
  const bool differs = the_job().rank() == last;
  trainer<net, adam> training = in_job();
  steps(training, 0, 1);
  training.save(folder.path());
  training.save(folder.beside("model.safetensors"));
  steps(training, 1, 2);
  const std::uint64_t before = state_of(training);
  const std::string two = "ranks 0 and " + std::to_string(last) + " do not agree on ";
  const auto load = [&](const name_map& names) { training.load(folder.beside("model.safetensors"), {.names = names}); };
  CHECK(refusal([&] { load(differs ? hugging_face_gpt2() : name_map{}); }) == two + "the names in the file");
  CHECK(refusal([&] { training.load(folder.path() + (differs ? "/." : "")); }) == two + "the path");
  CHECK(refusal([&] {
          training.save(folder.path(), {.texts = {{"rank", differs ? "last" : "other"}}});
        }) == two + "the texts");
  CHECK(refusal([&] { training.load(folder.path(), differs ? load_mode::partial : load_mode::exact); }) ==
        two + "the mode: 0 and 1");
  CHECK(refusal([&] { training.load(folder.path(), {.allow_older = differs}); }) == two + "allow_older: 0 and 1");
  // Every descriptor is in use. A limit of 0 would also fail the poll by which MPI waits for other hosts.
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  rlimit few = files;
  few.rlim_cur = (std::min)(files.rlim_cur, rlim_t{256});
  std::vector<int> in_use;
  if (differs) {
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int file = open("/dev/null", O_RDONLY); file >= 0; file = open("/dev/null", O_RDONLY)) in_use.push_back(file);
  }
  int rank = -1;
  const std::string cause = refusal([&] { load({}); }, &rank);
  for (const int file : in_use) close(file);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  CHECK(cause.find("Too many open files") != cause.npos);
  CHECK(rank == last);
  CHECK(state_of(training) == before);
  training.load(folder.path());
  CHECK(state_of(training) == state_after(1));
}
