// Does every process of a job over several hosts detect and name a host that the network, or its own end, takes away?
// What do two hosts cost, and are their steps as long as predicted?
//
//     hosts                     all figures, then all faults at all phases: eight minutes
//     hosts --faults N [FIRST]  every N-th case, from the FIRST one on
//     hosts --share [ROUNDS]    these figures alone
//     hosts --predicted [STEPS]
//     hosts --cut-gain [STEPS]
//
// Each case is a job of three processes on three hosts that tests/support/hosts makes: `hosts --inside FAULT PHASE`
// starts mpirun and brings the fault, and in each process runs `hosts --rank FOLDER FAULT PHASE`.

#include "../mpi/share.hpp"
#include "predicted.hpp"

#include <gpipe.hpp>
#include <gpipe/mpi.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "../measure.hpp"

using namespace gpipe;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct net : model<input<float, 8>, linear<16>, stash<"x">, gelu, linear<16>, pop<"x">, add, linear<16>, gelu,
                   linear<4>, softmax_cross_entropy> {};
/// An activation takes two seconds on the slow link, twice the deadline there.
struct net_of_a_wide_edge : model<input<float, 8>, linear<65536>, gelu, linear<4>, softmax_cross_entropy> {};

constexpr int ranks = 3, lost = 2, batch_size = 7, skipped = 77;
const char* const phases[] = {"launch", "start", "first_step", "step", "evaluate", "save", "end"};
const char* const faults[] = {"cut", "kill", "freeze", "deaf", "mute", "slow"};

std::chrono::seconds deadline_of(const std::string& fault) { return fault == "slow" ? 1s : 2s; }

// A process of a case -------------------------------------------------------------------------------------------------

/// Where the fault comes: the process of the last host waits until it is there.
void wait_for_fault(const std::string& folder) {
  if (mpi::call_deadline::rank_before_init() != lost) return;
  std::ofstream(folder + "/reached") << "reached";
  for (int i = 0; i < 30'000 && !fs::exists(folder + "/done"); ++i) std::this_thread::sleep_for(1ms);
}

template <class Net>
void train(process_group& job, const std::string& folder, const std::string& fault, auto&& at) {
  const bool wide = std::is_same_v<Net, net_of_a_wide_edge>;
  training_options how;
  how.deadline = deadline_of(fault);
  how.job = &job;
  if (wide) how.cut = {1, 2};
  const int samples = wide ? 1 : batch_size;
  trainer<Net, adam> training({.stages = ranks, .micro_batches = wide ? 1 : 2, .micro_batch_size = wide ? 1 : 4},
                              adam{}, how);
  const std::vector<float> x(static_cast<std::size_t>(8 * samples), 0.25F);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(samples), 1);
  const batch all = std::move(
      batch(samples).with("inputs", std::span<const float>(x)).with("labels", std::span<const std::int32_t>(labels)));
  at("first_step");
  training.step(all);
  at("step");
  training.step(all);
  at("evaluate");
  training.evaluate(all);
  at("save");
  training.save(folder + "/run");
  at("end");
}

int run_rank(const std::string& folder, const std::string& fault, const std::string& phase) {
  const std::string mine = folder + "/rank." + std::to_string(mpi::call_deadline::rank_before_init());
  if (std::freopen(mine.c_str(), "w", stderr) == nullptr) return 2;
  const auto at = [&](const std::string& here) {
    if (phase == here) wait_for_fault(folder);
  };
  at("launch");
  if (int level = 0; phase == "start") MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  at("start");
  std::unique_ptr<mpi::job> job;
  try {
    job = std::make_unique<mpi::job>(true, deadline_of(fault));
    if (fault == "slow") train<net_of_a_wide_edge>(*job, folder, fault, at);
    else train<net>(*job, folder, fault, at);
  } catch (const error& cause) {
    std::cerr << cause.what() << std::endl;
    if (job) job->leave(cause);
    return 3;
  }
  job.reset();
  if (phase == "start") MPI_Finalize();
  std::cerr << "whole" << std::endl;
  return 0;
}

// A case, in the place from which the hosts are reached ---------------------------------------------------------------

int call(const std::string& line) { return std::system(line.c_str()); }
std::string text_of(const std::string& path) {
  std::stringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

/// The processes of this job that run and are not stopped.
int count_running(const std::string& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::string words = text_of(entry.path() / "cmdline");
    std::replace(words.begin(), words.end(), '\0', ' ');
    if (words.find("--rank " + folder) == std::string::npos || words.find("mpirun") != std::string::npos ||
        words.find("orted") != std::string::npos)
      continue;
    const std::string state = text_of(entry.path() / "stat");
    const auto name_end = state.rfind(')');
    if (name_end != std::string::npos && state[name_end + 2] != 'T' && state[name_end + 2] != 'Z') ++count;
  }
  return count;
}

/// Whether this process says which rank and host is lost, as far as it can know. Before MPI has begun, it knows the
/// call of MPI; before a process has joined, its rank. When the processes leave, rank 0 prints the loss for all on its
/// side.
bool names_the_lost(int rank, const std::string& text, const std::string& phase) {
  const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
  if (phase == "launch") return has("MPI_Init_thread") || has("not joined");
  if (phase == "start") return rank == lost ? has("not joined") : has("rank 2 ") && has(" not joined");
  if (phase == "end" && rank == 1) return true;
  return rank == lost ? has(", host a") || has(", host b") : has("rank 2, host c");
}

int run_inside(const std::string& self, const std::string& fault, const std::string& phase) {
  char name[] = "/tmp/gpipe_hosts_XXXXXX";
  if (mkdtemp(name) == nullptr) return 2;
  const std::string folder = name;
  if (fault == "slow")
    for (const char* host : {"a", "b", "c"}) call(std::string("hosts rate ") + host + " 100mbit");
  const auto seconds_since = [](auto begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const pid_t mpirun = fork();
  if (mpirun == 0) {
    setpgid(0, 0);
    if (std::freopen((folder + "/mpirun").c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(2);
    execlp("mpirun", "mpirun", "--host", "a,b,c", "-np", "3", self.c_str(), "--rank", folder.c_str(), fault.c_str(),
           phase.c_str(), nullptr);
    _exit(2);
  }
  const auto started = std::chrono::steady_clock::now();
  while (!fs::exists(folder + "/reached") && seconds_since(started) < 20) std::this_thread::sleep_for(2ms);
  const bool reached = fs::exists(folder + "/reached");
  const auto begin = std::chrono::steady_clock::now();
  call(fault == "slow" ? "hosts rate c 1mbit" : "hosts " + fault + " c 2>/dev/null");
  std::ofstream(folder + "/done") << "done";
  // A slow job goes on to its end; else each process ends within its deadline and two seconds.
  const double limit = fault == "slow" ? 60 : 2.0 + static_cast<double>(deadline_of(fault).count());
  while (count_running(folder) > 0 && seconds_since(begin) < limit) std::this_thread::sleep_for(10ms);
  const double took = seconds_since(begin);
  const int running = count_running(folder);
  const bool takes_it_away = fault == "kill" || fault == "freeze";
  std::string report;
  int unnamed = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::string text = text_of(folder + "/rank." + std::to_string(r));
    report += "  rank " + std::to_string(r) + ": " + text.substr(0, 400) + (text.empty() ? "nothing\n" : "");
    if (fault == "slow" ? text != "whole\n" : !(takes_it_away && r == lost) && !names_the_lost(r, text, phase))
      ++unnamed;
  }
  kill(-mpirun, SIGKILL);  // it would wait for a host that does not answer
  waitpid(mpirun, nullptr, 0);
  std::printf("case %s %s: %d running, %d unnamed, %.2f s\n", fault.c_str(), phase.c_str(), reached ? running : ranks,
              unnamed, took);
  if (!reached || running + unnamed > 0)
    std::printf("%s  mpirun: %s", report.c_str(), text_of(folder + "/mpirun").c_str());
  fs::remove_all(folder);
  return 0;
}

// All cases -----------------------------------------------------------------------------------------------------------

const std::string script = std::string(BENCH_ROOT) + "/tests/support/hosts/hosts";

/// Runs a command among hosts and hands its lines to `read`; returns its exit code.
template <class Read>
int among_hosts(int count, const std::string& command, Read&& read) {
  std::FILE* out = popen(
      ("env -u GPIPE_BENCH_HISTORY " + script + ' ' + std::to_string(count) + ' ' + command + " 2>/dev/null").c_str(),
      "r");
  if (out == nullptr) return -1;
  for (char line[2048]; std::fgets(line, sizeof line, out) != nullptr;) read(std::string(line));
  const int status = pclose(out);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run_matrix(const std::string& self, int every, int first) {
  int cases = 0, hangs = 0, unnamed = 0, next = 0;
  double longest = 0;
  for (const char* phase : phases)
    for (const char* fault : faults) {
      if (next++ % every != first) continue;
      bool seen = false;
      const int code = among_hosts(3, self + " --inside " + fault + ' ' + phase, [&](const std::string& line) {
        int running = 0, silent = 0;
        double took = 0;
        const auto values = line.starts_with("case ") ? line.find(": ") : std::string::npos;
        if (values != std::string::npos &&
            std::sscanf(line.c_str() + values, ": %d running, %d unnamed, %lf", &running, &silent, &took) == 3) {
          seen = true;
          hangs += running > 0, unnamed += silent > 0;
          if (fault != std::string("slow")) longest = (std::max)(longest, took);
        }
        std::cout << line << std::flush;
      });
      if (code == skipped) return skipped;
      ++cases;
      if (!seen) ++hangs, std::cout << "case " << fault << ' ' << phase << ": no result, code " << code << '\n';
    }
  std::cout << cases << " cases, the longest took " << longest << " s, with a deadline of 2 s\n";
  bench::result("hosts.hangs", hangs, "cases");
  bench::result("hosts.unnamed", unnamed, "cases");
  return hangs + unnamed == 0 ? 0 : 1;
}

// Figures of two hosts ------------------------------------------------------------------------------------------------

/// Runs a part of this bench as two processes on two hosts, behind a change of the network; records and returns its
/// figures.
int run_two(const std::string& change, const std::string& part, std::map<std::string, double>& figures) {
  const std::string line = change + "mpirun --host a,b -np 2 " + part;
  return among_hosts(2, "bash -c '" + line + "'", [&](const std::string& text) {
    char name[256], unit[64];
    double value = 0;
    if (std::sscanf(text.c_str(), "result %255s %lf %63s", name, &value, unit) == 3)
      bench::result(name, figures[name] = value, unit);
    else std::cout << text << std::flush;
  });
}

int run_share(const std::string& self, int rounds) {
  std::map<std::string, double> figures;
  return run_two("", self + " --share-rank " + std::to_string(rounds), figures);
}

/// A link, and the samples of a micro-batch, each with 1 KiB there.
struct tried_link {
  const char *name, *delay, *rate;
  int samples;
  const char* mpirun = "";  // options
};
// Open MPI sends a message of up to 64 KiB at once over TCP. A longer one waits until both processes poll.
constexpr tried_link fast{"1gbit", "0.1ms", "1gbit", 48}, slow{"100mbit", "1ms", "100mbit", 8},
    asking{"1gbit.128KiB", "0.1ms", "1gbit", 128},
    at_once{"1gbit.128KiB.at_once", "0.1ms", "1gbit", 128,
            " --mca btl_tcp_eager_limit 1048576 --mca btl_tcp_rndv_eager_limit 1048576"};

std::string cable(const tried_link& link) {
  return std::string("hosts wire b ") + link.delay + ' ' + link.rate + " && ";
}

int run_predicted(const std::string& self, int steps) {
  std::map<std::string, double> figures, of_long_messages;
  const auto run = [&](const tried_link& link, const char* schedule, std::map<std::string, double>& found) {
    return run_two(cable(link),
                   std::string(link.mpirun) + ' ' + self + " --predicted-rank " + link.name + ' ' +
                       std::to_string(link.samples) + ' ' + std::to_string(steps) + ' ' + schedule,
                   found);
  };
  for (const tried_link& link : {fast, slow})
    if (const int code = run(link, "all", figures); code != 0) return code;
  double worst = 1;
  for (const auto& [name, ratio] : figures)
    if (std::abs(ratio - 1) > std::abs(worst - 1)) worst = ratio;
  bench::result("hosts.predicted", worst, "ratio");
  for (const tried_link& link : {asking, at_once})
    if (const int code = run(link, "1f1b", of_long_messages); code != 0) return code;
  return 0;
}

int run_cut_gain(const std::string& self, int steps) {
  std::map<std::string, double> figures;
  return run_two(cable(slow), self + " --cut-gain-rank " + std::to_string(steps), figures);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  const auto is = [&](const char* word, std::size_t arguments) {
    return given.size() == 1 + arguments && given[0] == word;
  };
  try {
    const std::string self = fs::canonical("/proc/self/exe");
    if (is("--rank", 3)) return run_rank(given[1], given[2], given[3]);
    if (is("--inside", 2)) return run_inside(self, given[1], given[2]);
    if (is("--faults", 1)) return run_matrix(self, (std::max)(1, std::stoi(given[1])), 0);
    if (is("--faults", 2)) return run_matrix(self, (std::max)(1, std::stoi(given[1])), std::stoi(given[2]));
    if (is("--share-rank", 1)) return bench::measure_share("hosts", std::stoi(given[1])), 0;
    if (is("--predicted-rank", 4))
      return bench::measure_predicted(given[1], std::stoi(given[2]), std::stoi(given[3]), given[4]), 0;
    if (is("--cut-gain-rank", 1)) return bench::measure_cut_gain(48, std::stoi(given[1])), 0;
    const auto is_figure = [&](const char* word) { return is(word, 0) || is(word, 1); };
    const auto times = [&](int automatic) { return given.size() > 1 ? (std::max)(1, std::stoi(given[1])) : automatic; };
    if (is_figure("--share")) return run_share(self, times(15));
    if (is_figure("--predicted")) return run_predicted(self, times(15));
    if (is_figure("--cut-gain")) return run_cut_gain(self, times(7));
    if (given.empty()) {
      bench::print_environment();
      int code = run_share(self, 15);
      // A machine may have hosts and no cable with a delay.
      if (code == 0) code = run_predicted(self, 15);
      if (code == 0) code = run_cut_gain(self, 7);
      return code != 0 && code != skipped ? code : run_matrix(self, 1, 0);
    }
    std::cerr << "hosts: unknown arguments; use none, --share, --predicted, --cut-gain or --faults N\n";
  } catch (const std::exception& failure) {
    std::cerr << "hosts: " << failure.what() << '\n';
  }
  return 2;
}
