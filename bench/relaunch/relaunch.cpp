// Does a job that loses processes, and that examples/relaunch starts again, end with the same bits? How long does it
// take from a loss to the next step?
//
//   relaunch              200 trainings: some minutes
//   relaunch --cases N    N of them
//
// Each is a job of 4 processes. SIGKILL ends a random one at a random moment, from before it has joined the job until
// after the last step, in every second training behind the first checkpoint; and in every fourth another one later. The
// end is compared with that of a training in one process, parameters and arrays of the optimizer, by memcmp. The script
// starts this program as `relaunch --train LOG --processes P --save FOLDER --resume FOLDER`.

#include <gpipe.hpp>
#include <gpipe/mpi.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../result.hpp"

using namespace gpipe;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct block : residual<layer_norm, linear<32>, gelu, dropout<10>, linear<16>> {};
struct net : model<input<float, 16>, repeat<8, block>, linear<4>, softmax_cross_entropy> {};

constexpr int stages = 4, batch_size = 16;
constexpr std::uint64_t steps = 100, save_every = 8;

plan_options plan_of(int of_stages, int workers) {
  return {.stages = of_stages, .micro_batches = 4, .micro_batch_size = 4, .workers = workers};
}

dataset data_of(std::uint64_t step) {
  std::vector<float> x(batch_size * 16);
  std::vector<std::int32_t> labels(batch_size);
  for (std::uint32_t i = 0; i < x.size(); ++i)
    x[i] = uniform(draw({}, static_cast<std::uint32_t>(step), i).word[0]) - 0.5F;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = x[16 * i] > 0 ? x[16 * i + 1] > 0 : 2;
  return dataset{}.with("inputs", 16, x).with("labels", 1, labels);
}

/// Nanoseconds of a clock that all processes share.
long now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

template <class Training>
void take_step(Training& training) {
  const dataset data = data_of(training.steps());
  for (const batch& all : data.batches(batch_size)) training.step(all);
}

// A process of a training ---------------------------------------------------------------------------------------------

/// Rank 0 notes in `log` when its first step has ended, and how long the loading before it took.
int train(const std::string& log, int processes, const std::string& folder, bool resumes) {
  std::unique_ptr<mpi::job> job;  // destroyed last: after the error is printed
  try {
    job = std::make_unique<mpi::job>(true, 20s);
    trainer<net, adamw> training{plan_of(stages, processes), adamw{}, {.seed = 7, .deadline = 20s, .job = job.get()}};
    const long begin = now();
    if (resumes) training.load(folder);
    const long loading = now() - begin;
    for (bool first = true; training.steps() < steps; first = false) {
      take_step(training);
      if (first && job->rank() == 0) std::ofstream(log, std::ios::app) << now() << ' ' << loading << std::endl;
      if (training.steps() % save_every == 0) training.save(folder);
      std::this_thread::sleep_for(2ms);
    }
    training.save(folder);
    return 0;
  } catch (const error& failure) {
    if (job == nullptr || job->leave(failure)) std::cerr << "relaunch: " << failure.what() << std::endl;
    return job != nullptr && job->lost() ? 75 : 1;
  }
}

// All trainings -------------------------------------------------------------------------------------------------------

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Parameters and arrays of the optimizer, as one process saves them.
template <class Training>
std::string bytes_of(Training& training, const fs::path& scratch) {
  fs::remove_all(scratch);
  training.save(scratch.string());
  std::string all;
  for (const auto& step : fs::directory_iterator(scratch))
    for (const char* const name : {"model.safetensors", "optimizer.safetensors"})
      all += bytes_of_file(step.path() / name);
  return all;
}

/// The processes of this program that write to `log`.
std::vector<pid_t> processes_of(const fs::path& self, const std::string& log) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code none;
    if (fs::read_symlink(entry.path() / "exe", none) != self) continue;
    if (bytes_of_file(entry.path() / "cmdline").find('\0' + log + '\0') != std::string::npos)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

class trial {
 public:
  trial(const fs::path& self, fs::path scratch) : self_(self), scratch_(std::move(scratch)) {
    trainer<net, adamw> alone{plan_of(1, 1), adamw{}, {.seed = 7}};
    while (alone.steps() < steps) take_step(alone);
    expected_ = bytes_of(alone, scratch_ / "one");
  }

  /// Trains with a loss at each of `moments`, seconds from the beginning, the first checkpoint, or the last loss.
  /// Returns the seconds.
  double run(const std::vector<double>& moments, bool behind_checkpoint, std::mt19937& random) {
    fs::remove_all(scratch_ / "run");
    fs::remove(scratch_ / "log");
    const long begin = now();
    const pid_t script = start();
    losses_.clear();
    while (behind_checkpoint && !fs::exists(scratch_ / "run" / "step-00000008")) std::this_thread::sleep_for(1ms);
    for (const double moment : moments) lose(script, moment, random);
    int status = 0;
    if (!ended_) waitpid(script, &status, 0);
    else status = status_;
    ended_ = false;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return 1e-9 * static_cast<double>(now() - begin);
  }

  int losses() const { return static_cast<int>(losses_.size()); }
  bool equal() {
    if (code_ != 0) return false;
    trainer<net, adamw> alone{plan_of(1, 1), adamw{}, {.seed = 7}};
    alone.load((scratch_ / "run").string());
    const std::string found = bytes_of(alone, scratch_ / "one");
    return found.size() == expected_.size() && std::memcmp(found.data(), expected_.data(), found.size()) == 0;
  }
  /// From each loss to the next step, less the loading; none if no step was left.
  std::vector<double> seconds() const {
    std::vector<double> all;
    for (const long loss : losses_) {
      std::ifstream log(scratch_ / "log");
      for (long step = 0, loading = 0; log >> step >> loading;)
        if (step > loss) {
          all.push_back(1e-9 * static_cast<double>(step - loss - loading));
          break;
        }
    }
    return all;
  }
  std::string errors() const { return bytes_of_file(scratch_ / "errors"); }
  int code() const { return code_; }

 private:
  pid_t start() const {
    const std::string words[] = {"bash",           BENCH_ROOT "/examples/relaunch",
                                 "--processes",    std::to_string(stages),
                                 scratch_ / "run", self_,
                                 "--train",        scratch_ / "log"};
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    const std::string errors = scratch_ / "errors";
    const pid_t child = fork();
    if (child != 0) return child;
    dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    execvp("bash", pointers.data());
    _exit(127);
  }

  /// After `moment` seconds, or as soon as there is one: ends a random process.
  void lose(pid_t script, double moment, std::mt19937& random) {
    std::this_thread::sleep_for(std::chrono::duration<double>(moment));
    while (!ended_) {
      if (const auto all = processes_of(self_, scratch_ / "log"); !all.empty()) {
        const pid_t victim = all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
        const long at = now();
        if (kill(victim, SIGKILL) == 0) {
          losses_.push_back(at);
          return;
        }
      }
      ended_ = waitpid(script, &status_, WNOHANG) == script;
      std::this_thread::sleep_for(1ms);
    }
  }

  fs::path self_, scratch_;
  std::string expected_;
  std::vector<long> losses_;
  bool ended_ = false;
  int status_ = 0, code_ = -1;
};

int run_all(const fs::path& self, int cases) {
  if (geteuid() == 0) setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0), setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  std::string scratch = (fs::temp_directory_path() / "relaunch.XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) throw error("no folder can be made", "see the disk", {.file = scratch});
  trial one(self, scratch);
  std::mt19937 random(1);
  const double whole = one.run({}, false, random);
  if (!one.equal()) throw error("a training without a loss has other bits", "see its errors: " + one.errors());
  std::cout << "a training without a loss takes " << whole << " s" << std::endl;

  int equal = 0, losses = 0, behind_checkpoints = 0;
  std::vector<double> seconds;
  for (int done = 0, begun = 0; done < cases; ++begun) {
    std::uniform_real_distribution<double> moment(0, whole);
    std::vector<double> moments{moment(random)};
    if (begun % 4 == 3) moments.push_back(moment(random));
    if (begun % 2 == 1) moments[0] /= 4;
    one.run(moments, begun % 2 == 1, random);
    if (one.losses() == 0) continue;  // it had ended before
    ++done, losses += one.losses();
    const std::string errors = one.errors();
    for (auto at = errors.find(" on from step-"); at != std::string::npos; at = errors.find(" on from step-", at + 1))
      ++behind_checkpoints;
    if (one.equal()) ++equal;
    else
      std::cout << "training " << begun << " with " << one.losses() << " losses at " << moments[0]
                << " s has other bits, or code " << one.code() << ":\n"
                << errors << std::flush;
    for (const double each : one.seconds()) seconds.push_back(each);
  }
  fs::remove_all(scratch);
  std::sort(seconds.begin(), seconds.end());
  std::cout << losses << " losses, " << behind_checkpoints << " of them behind a checkpoint, " << seconds.size()
            << " of them before a step\n";
  bench::result("relaunch.equal", equal, "of " + std::to_string(cases) + " trainings");
  if (!seconds.empty()) {
    bench::result("relaunch.seconds", seconds.back(), "s, the longest");
    bench::result("relaunch.seconds.median", seconds[seconds.size() / 2], "s");
  }
  return equal == cases ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
    if (given.size() >= 6 && given[0] == "--train")
      return train(given[1], std::stoi(given[3]), given[5], given.size() > 6);
    if (given.empty()) return run_all(fs::canonical("/proc/self/exe"), 200);
    if (given.size() == 2 && given[0] == "--cases")
      return run_all(fs::canonical("/proc/self/exe"), (std::max)(1, std::stoi(given[1])));
    std::cerr << "relaunch: unknown arguments; use none, or --cases N\n";
  } catch (const std::exception& failure) {
    std::cerr << "relaunch: " << failure.what() << '\n';
  }
  return 2;
}
