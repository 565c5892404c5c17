#pragma once

// Saves a training every few steps and at its end, goes on with it, and ends it between two steps at SIGINT or SIGTERM.

#include <csignal>
#include <iostream>
#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/record/progress.hpp>
#include <gpipe/train/checkpoint/checkpoint_options.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace example {

/// From its construction on the first SIGINT (Ctrl-C) or SIGTERM is only noted. The second has its usual effect.
class interrupt {
 public:
  interrupt() {
    struct sigaction noted {};
    noted.sa_handler = [](int signal) { received_ = signal; };
    noted.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &noted, nullptr);
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
  static inline volatile std::sig_atomic_t received_ = 0;
};

struct save_settings {
  std::string folder, resumed;  // empty: none
  int every = 0;                // steps; 0: at the end alone
};

/// Loads the newest checkpoint, if one is asked for. Returns where the data go on.
template <class Trainer>
gpipe::data_position resume(Trainer& training, const save_settings& how, std::ostream& out) {
  if (how.resumed.empty()) return {};
  const gpipe::load_result found = training.load(how.resumed);
  for (const std::string& broken : found.skipped) out << "skipped " << broken << '\n';
  out << "goes on after step " << found.steps << " of " << found.path << '\n';
  return found.position;
}

template <class Trainer>
class saver {
 public:
  saver(Trainer& training, const save_settings& how, gpipe::process_group* job)
      : training_(training), how_(how), job_(job), prints_(job == nullptr || job->rank() == 0) {}

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

  /// At the end: saves, and returns the exit code, which is not 0 after a signal.
  int finish() {
    if (!how_.folder.empty()) {
      warn([&] { training_.wait_for_save(); });
      training_.save(how_.folder, {.position = position_});
    }
    if (signal_ == 0) return 0;
    if (prints_) {
      std::cerr << "digits: stopped by " << (signal_ == SIGINT ? "SIGINT" : "SIGTERM") << " after step "
                << training_.steps();
      if (how_.folder.empty()) std::cerr << "; with --save FOLDER it could go on" << std::endl;
      else std::cerr << "; go on by the same command with --resume " << how_.folder << std::endl;
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
      if (prints_) std::cerr << "digits: a checkpoint is not saved: " << failure.what() << std::endl;
    }
  }

  Trainer& training_;
  const save_settings& how_;
  gpipe::process_group* job_;
  bool prints_;
  interrupt interrupt_;
  gpipe::data_position position_{};
  int signal_ = 0;
};

}  // namespace example
