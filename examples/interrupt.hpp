#pragma once

// Ends a training between two steps when the process gets SIGINT (Ctrl-C) or SIGTERM.

#include <csignal>

#include <gpipe/transport/contract/process_group.hpp>

namespace example {

/// From its construction on the first SIGINT or SIGTERM is only noted. The second has its usual effect.
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

}  // namespace example
