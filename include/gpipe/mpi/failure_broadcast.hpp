#pragma once

#include <gpipe/mpi/shared_status.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// Carries causes of failures between hosts, whose processes share no memory: as messages to all processes of other
/// hosts, each of which has a receive posted for them.
class failure_broadcast {
 public:
  /// `failures` is used for nothing else with tag 0; `elsewhere` are the ranks on other hosts.
  GPIPE_COLD failure_broadcast(MPI_Comm failures, std::vector<int> elsewhere)
      : failures_(failures), elsewhere_(std::move(elsewhere)) {
    post();
  }
  GPIPE_COLD ~failure_broadcast() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
    for (auto& one : leaving_)  // MPI may still read it: a process that is lost takes no message
      if (!sent(*one)) static_cast<void>(one.release());
  }
  failure_broadcast(const failure_broadcast&) = delete;
  failure_broadcast& operator=(const failure_broadcast&) = delete;

  /// Does not wait for earlier messages, which a lost process never receives.
  GPIPE_COLD void send(const cause& what) noexcept {
    std::erase_if(leaving_, [](const auto& one) { return sent(*one); });
    message& made = *leaving_.emplace_back(std::make_unique<message>());
    made.what = what;
    made.requests.resize(elsewhere_.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < elsewhere_.size(); ++i)
      MPI_Isend(&made.what, static_cast<int>(sizeof made.what), MPI_BYTE, elsewhere_[i], 0, failures_,
                &made.requests[i]);
  }
  /// Whether all messages have left.
  GPIPE_COLD bool all_sent() noexcept {
    return std::all_of(leaving_.begin(), leaving_.end(), [](const auto& one) { return sent(*one); });
  }

  /// Returns a cause that has arrived, which is valid until the next call; null if none has.
  const cause* receive() {
    int here = 0;
    check(MPI_Test(&receiving_, &here, MPI_STATUS_IGNORE), "MPI_Test");
    if (!here) return nullptr;
    received_ = arriving_;
    post();
    return &received_;
  }

 private:
  struct message {
    cause what{};
    std::vector<MPI_Request> requests{};
  };

  static bool sent(message& one) noexcept {
    int all = 0;
    MPI_Testall(static_cast<int>(one.requests.size()), one.requests.data(), &all, MPI_STATUSES_IGNORE);
    return all != 0;
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
