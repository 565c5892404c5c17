// Does every process detect and name the loss of any other? A step of a job of processes is disturbed at every action
// of every process, in every way: by a throw, an exit, SIGKILL and SIGSTOP.
//
//   faults                  all cases, for 2 and for 4 stages: some minutes
//   faults --every N        every N-th case
//
// Each case is a separate job, which mpirun starts from this program: `faults --case S KIND ACTION`.

#include <gpipe.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/mpi.hpp>
#include <gpipe/runtime/executor.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

#include "../result.hpp"

using namespace gpipe;
using namespace std::chrono_literals;

namespace {

struct net : model<input<float, 8>, linear<16>, stash<"x">, gelu, linear<16>, pop<"x">, add, linear<16>, gelu,
                   linear<4>, softmax_cross_entropy> {};

constexpr auto deadline = 1s;
constexpr int steps_before = 2, batch_size = 7, no_such_action = 77;
const char* const kinds[] = {"throw", "exit", "kill", "stop"};

plan_options plan_of(int stages) { return {.stages = stages, .micro_batches = 2, .micro_batch_size = 4}; }

struct data {
  std::vector<float> x = std::vector<float>(8 * batch_size, 0.25F);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(batch_size, 1);
  batch all() const {
    return std::move(batch(batch_size)
                         .with("inputs", std::span<const float>(x))
                         .with("labels", std::span<const std::int32_t>(labels)));
  }
};

/// The actions of a step before its commit, stage after stage.
std::vector<instruction> actions_of(int stages) {
  std::vector<std::vector<instruction>> programs(static_cast<std::size_t>(stages));
  training_options noting;
  noting.before = [&](const instruction& i) { programs[static_cast<std::size_t>(i.stage)].push_back(i); };
  trainer<net, adam>(plan_of(stages), adam{}, noting).step(data{}.all());
  std::vector<instruction> all;
  for (const auto& program : programs) all.insert(all.end(), program.begin(), program.end());
  // Updates after a worker's first come after the commit; here each has one stage.
  return all;
}

std::uint64_t bits_of(const std::byte* at, std::size_t bytes) {
  gpipe::detail::hash sum;
  sum.add(at, bytes);
  return sum.value();
}

// A process of a case -------------------------------------------------------------------------------------------------

void disturb(const std::string& kind) {
  if (kind == "throw") throw std::runtime_error("thrown on purpose");
  if (kind == "exit") _exit(3);
  std::raise(kind == "kill" ? SIGKILL : SIGSTOP);
}

/// Runs two steps and a disturbed third one, and prints the result on one line.
int run_case(int stages, const std::string& kind, int number) {
  mpi::job job;
  const data here;
  const auto actions = actions_of(stages);
  if (number >= static_cast<int>(actions.size())) return no_such_action;
  const instruction at = actions[static_cast<std::size_t>(number)];
  trainer<net, adam> twin(plan_of(1), adam{});
  for (int i = 0; i < steps_before; ++i) twin.step(here.all());

  bool armed = false;
  training_options how;
  how.deadline = deadline;
  how.job = &job;
  how.before = [&](const instruction& i) {
    if (armed && i == at) disturb(kind);
  };
  trainer<net, adam> training(plan_of(stages), adam{}, how);
  for (int i = 0; i < steps_before; ++i) training.step(here.all());
  armed = true;
  std::string message = "nothing";
  gpipe::detail::location where;
  try {
    training.step(here.all());
  } catch (const error& cause) {
    message = cause.wrong();
    where = cause.where();
  }
  // No update is half-applied: this process has its previous parameters.
  bool same = true;
  for (int l = 0; l < layers_of<net>; ++l) {
    const auto& run = training.executor();
    if (!run.net().owns(l) || run.plan().worker_of(run.plan().cut().stage_of(l)) != job.rank()) continue;
    const std::size_t bytes = run.net().type_of(l).parameter_bytes();
    same = same && bits_of(run.parameters(l), bytes) == bits_of(twin.executor().parameters(l), bytes);
  }
  // After a loss every later call throws its cause, also calls that only write; after a throw they work.
  const auto throws = [&](auto&& call) {
    try {
      call();
      return false;
    } catch (const error& again) {
      return again.wrong() == message;
    }
  };
  const bool lost = kind != std::string("throw");
  const std::vector<float> bias(16, 0.5F);
  const bool again = throws([&] { training.array(0, "bias").set(bias); }) == lost &&
                     throws([&] { training.freeze(0); }) == lost && throws([&] { training.watch(0); }) == lost &&
                     throws([&] { training.parameter_hash(); }) == lost;
  const bool named = again && job.lost() == lost && where.rank == at.stage && where.stage == at.stage &&
                     where.micro_batch == at.micro_batch && where.action == name_of(at.kind);
  std::printf("rank %d %s %s %s: %s\n", job.rank(), named ? "named" : "unnamed", same ? "unchanged" : "changed",
              std::string(training.steps() == steps_before ? "uncounted" : "counted").c_str(), message.c_str());
  std::fflush(stdout);
  return 3;
}

// All cases -----------------------------------------------------------------------------------------------------------

/// The number of processes that run this program with `mark` in their arguments.
int count_running(const std::string& mark) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream line(entry.path() / "cmdline", std::ios::binary);
    std::string words((std::istreambuf_iterator<char>(line)), {});
    std::replace(words.begin(), words.end(), '\0', ' ');
    if (words.find(mark) != std::string::npos && words.find("sh -c") == std::string::npos) ++count;
  }
  return count;
}

/// Returns true if any still runs a second after mpirun has ended.
bool left_running(const std::string& mark) {
  for (int i = 0; i < 100 && count_running(mark) > 0; ++i) usleep(10'000);
  return count_running(mark) > 0;
}

struct tally {
  int cases = 0, hangs = 0, unnamed = 0, others = 0;
  double longest = 0;
};

void run_one(const std::string& self, int stages, const char* kind, int number, const instruction& at, tally& all) {
  const std::string mark = gpipe::detail::concat({"--case ", stages, " ", kind, " ", number});
  const std::string command =
      "timeout -s KILL 30 mpirun -np " + std::to_string(stages) + " " + self + " " + mark + " 2>&1";
  const auto begin = std::chrono::steady_clock::now();
  FILE* out = popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  while (out != nullptr && std::fgets(piece, sizeof piece, out) != nullptr) text += piece;
  const int status = out == nullptr ? -1 : pclose(out);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  all.longest = (std::max)(all.longest, took);
  ++all.cases;

  // Every process that has not ended by itself must print the first cause; a stopped one may wake and print it too.
  const std::string way = kind;
  std::vector<std::string> wrong;
  if (took > 29 || left_running(mark)) ++all.hangs, wrong.push_back("a process hangs");
  for (int r = 0; r < stages; ++r) {
    if (r == at.stage && way != "throw") continue;
    const auto line = text.find("rank " + std::to_string(r) + " named unchanged uncounted: ");
    if (line == std::string::npos) {
      ++all.unnamed;
      wrong.push_back("rank " + std::to_string(r) + " does not name the cause");
      break;
    }
  }
  if (code == 0) ++all.others, wrong.push_back("the job's exit code is 0");
  if (text.find(" changed ") != std::string::npos || text.find(" counted:") != std::string::npos)
    ++all.others, wrong.push_back("an update was applied");
  if (!wrong.empty()) {
    std::cout << "S = " << stages << ", " << kind << " at " << number << " (stage " << at.stage << ", micro-batch "
              << at.micro_batch << ", " << name_of(at.kind) << "), " << took << " s, code " << code << ":\n";
    for (const std::string& one : wrong) std::cout << "  " << one << '\n';
    std::cout << text << std::flush;
  }
}

int run_matrix(const std::string& self, int every) {
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);  // the same from Open MPI 5 on
  if (geteuid() == 0) setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0), setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  tally all;
  for (int next = 0; const int stages : {2, 4}) {
    const auto actions = actions_of(stages);
    for (int number = 0; number < static_cast<int>(actions.size()); ++number)
      for (const char* kind : kinds)
        if (next++ % every == 0) run_one(self, stages, kind, number, actions[static_cast<std::size_t>(number)], all);
  }
  std::cout << all.cases << " cases, the longest took " << all.longest << " s, with a deadline of 1 s\n";
  bench::result("faults.hangs", all.hangs, "cases");
  bench::result("faults.unnamed", all.unnamed, "cases");
  bench::result("faults.half_applied_or_successful", all.others, "cases");
  return all.hangs + all.unnamed + all.others == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
    if (given.size() == 4 && given[0] == "--case") return run_case(std::stoi(given[1]), given[2], std::stoi(given[3]));
    if (given.empty()) return run_matrix(std::filesystem::canonical("/proc/self/exe"), 1);
    if (given.size() == 2 && given[0] == "--every")
      return run_matrix(std::filesystem::canonical("/proc/self/exe"), (std::max)(1, std::stoi(given[1])));
    std::cerr << "faults: unknown arguments; use none, or --every N\n";
  } catch (const std::exception& failure) {
    std::cerr << "faults: " << failure.what() << '\n';
  }
  return 2;
}
