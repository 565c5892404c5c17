#pragma once

#include <gpipe/mpi/shared_status.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// Sends causes of failures to all processes on other hosts, which share no memory with this one. Each process has a
/// receive posted for them.
class failure_broadcast {
 public:
  /// Nothing else may use `failures` with tag 0; `elsewhere` has the ranks on other hosts.
  GPIPE_COLD failure_broadcast(MPI_Comm failures, std::vector<int> elsewhere)
      : failures_(failures), elsewhere_(std::move(elsewhere)) {
    post();
  }
  GPIPE_COLD ~failure_broadcast() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
    for (auto& pending : leaving_)  // MPI may still read it: a process that is lost takes no message
      if (!sent(*pending)) static_cast<void>(pending.release());
  }
  failure_broadcast(const failure_broadcast&) = delete;
  failure_broadcast& operator=(const failure_broadcast&) = delete;

  /// Does not wait for earlier messages, which a lost process never receives.
  GPIPE_COLD void send(const cause& reason) noexcept {
    std::erase_if(leaving_, [](const auto& pending) { return sent(*pending); });
    message& made = *leaving_.emplace_back(std::make_unique<message>());
    made.reason = reason;
    made.requests.resize(elsewhere_.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < elsewhere_.size(); ++i)
      MPI_Isend(&made.reason, static_cast<int>(sizeof made.reason), MPI_BYTE, elsewhere_[i], 0, failures_,
                &made.requests[i]);
  }
  /// Whether all messages have left.
  GPIPE_COLD bool all_sent() noexcept {
    return std::all_of(leaving_.begin(), leaving_.end(), [](const auto& pending) { return sent(*pending); });
  }

  /// Returns a cause that has arrived, which is valid until the next call, or null.
  const cause* receive() {
    int arrived = 0;
    check(MPI_Test(&receiving_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (!arrived) return nullptr;
    received_ = arriving_;
    post();
    return &received_;
  }

 private:
  struct message {
    cause reason{};
    std::vector<MPI_Request> requests{};
  };

  static bool sent(message& pending) noexcept {
    int complete = 0;
    MPI_Testall(static_cast<int>(pending.requests.size()), pending.requests.data(), &complete, MPI_STATUSES_IGNORE);
    return complete != 0;
  }
  GPIPE_COLD void post() {
    check(
        MPI_Irecv(&arriving_, static_cast<int>(sizeof arriving_), MPI_BYTE, MPI_ANY_SOURCE, 0, failures_, &receiving_),
        "MPI_Irecv");
  }

  MPI_Comm failures_;
  std::vector<int> elsewhere_;
  cause arriving_, received_;
  std::vector<std::unique_ptr<message>> leaving_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
};

}  // namespace gpipe::mpi
