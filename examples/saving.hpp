#pragma once

// Saves a training every few steps and at its end, goes on with it, and ends it between two steps at a signal.

#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/train/checkpoint/checkpoint_options.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace example {

/// From its construction on the first SIGINT (Ctrl-C), SIGTERM, or SIGUSR1, which mpirun and Slurm can forward, is only
/// noted. The second has its usual effect.
class interrupt {
 public:
  interrupt() {
    struct sigaction noted {};
    noted.sa_handler = [](int signal) { received_.store(signal); };
    noted.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (const int signal : signals) sigaction(signal, &noted, nullptr);
  }

  /// From now on the first one has its usual effect, too.
  static void end() {
    for (const int signal : signals) std::signal(signal, SIG_DFL);
  }

  static const char* name_of(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
  }

  /// The signal that any process of the job has got so far; 0: none. All processes call this together.
  int received(gpipe::process_group* job) const {
    if (job == nullptr) return received_;
    int first = 0;
    for (int rank = 0; rank < job->ranks(); ++rank) {
      int there = received_;
      job->broadcast(&there, sizeof there, rank, 0);
      if (first == 0) first = there;
    }
    return first;
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGUSR1};
  static inline std::atomic<int> received_ = 0;  // a handler runs in any thread
  static_assert(std::atomic<int>::is_always_lock_free);
};

struct save_settings {
  std::string folder, resumed;  // empty: none
  int every = 0;                // steps; 0: at the end alone
  std::string program;          // its name in messages
  std::string command;          // that goes on from `folder`

  /// Checks the options together, and remembers the command line.
  void read(int count, char** words) {
    if (every > 0 && folder.empty())
      throw gpipe::error("option --save-every: " + std::to_string(every) + " without --save", "give --save FOLDER");
    program = std::filesystem::path(words[0]).filename().string();
    for (int i = 0; i < count; ++i) {
      const std::string_view word = words[i];
      if (word == "--resume") ++i;  // and its value
      else if (!word.starts_with("--resume=")) command += for_shell(word) + ' ';
    }
    command += "--resume " + for_shell(folder);
  }

  /// A word that a shell reads as it stands.
  static std::string for_shell(std::string_view word) {
    bool plain = !word.empty();
    std::string quoted = "'";
    for (const char c : word) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) ||
                        std::string_view("-_=./,:+@%").find(c) != std::string_view::npos);
      if (c == '\'') quoted += "'\\''";
      else quoted += c;
    }
    return plain ? std::string(word) : quoted + '\'';
  }
};

/// Loads the newest checkpoint of a folder, or the one that is named, if any is asked for. The data go on where they
/// were, in the same order.
template <class Trainer>
void resume(Trainer& training, const save_settings& how, gpipe::fit_options& data, std::ostream& out) {
  if (how.resumed.empty()) return;
  const gpipe::load_result found = training.load(how.resumed);
  out << "goes on after step " << found.steps << " of " << found.path << '\n';
  data.first = found.position;
  data.seed = found.seed;  // the examples have one seed for the training and for the order of its data
}

template <class Trainer>
class saver {
 public:
  /// `first`: where the data begin.
  saver(Trainer& training, const save_settings& how, gpipe::data_position first, gpipe::process_group* job)
      : training_(training), how_(how), job_(job), prints_(job == nullptr || job->rank() == 0), position_(first) {}

  /// After each step: saves if it is time, and says whether the training goes on.
  gpipe::loop_control operator()(const gpipe::fit_progress& now) {
    position_ = now.next;
    signal_ = interrupt_.received(job_);
    if (signal_ != 0) return gpipe::loop_control::stop;
    if (!how_.folder.empty() && how_.every > 0 && training_.steps() % static_cast<unsigned>(how_.every) == 0) {
      warn([&] { training_.wait_for_save(); });
      warn([&] { training_.save(how_.folder, {.position = position_, .wait = false}); });
    }
    return gpipe::loop_control::go;
  }

  /// At the end: saves, and returns the exit code, which is not 0 after a signal. A later signal ends the program.
  int finish() {
    if (!how_.folder.empty()) {
      warn([&] { training_.wait_for_save(); });
      training_.save(how_.folder, {.position = position_});
    }
    interrupt::end();
    if (signal_ == 0) return 0;
    if (prints_) {
      std::cerr << how_.program << ": stopped by " << interrupt::name_of(signal_) << " after step "
                << training_.steps();
      if (how_.folder.empty()) std::cerr << ", and not saved; give --save FOLDER to go on later" << std::endl;
      else std::cerr << "; go on with: " << how_.command << std::endl;
    }
    return 128 + signal_;
  }

 private:
  // The training goes on if a save fails.
  template <class Call>
  void warn(Call&& call) const {
    try {
      call();
    } catch (const gpipe::error& failure) {
      if (prints_) std::cerr << how_.program << ": a checkpoint is not saved: " << failure.what() << std::endl;
    }
  }

  Trainer& training_;
  const save_settings& how_;
  gpipe::process_group* job_;
  bool prints_;
  gpipe::data_position position_;
  interrupt interrupt_;
  int signal_ = 0;
};

}  // namespace example
