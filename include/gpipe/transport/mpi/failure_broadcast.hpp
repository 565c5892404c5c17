#pragma once

#include <gpipe/transport/mpi/shared_status.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// Carries causes of failures between hosts, whose processes share no memory: as messages to all processes of other
/// hosts, each of which has a receive posted for them.
class failure_broadcast {
 public:
  /// `failures` is used for nothing else; `elsewhere` are the ranks on other hosts.
  GPIPE_COLD failure_broadcast(MPI_Comm failures, std::vector<int> elsewhere)
      : failures_(failures), elsewhere_(std::move(elsewhere)), sending_(3 * elsewhere_.size(), MPI_REQUEST_NULL) {
    post();
  }
  GPIPE_COLD ~failure_broadcast() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  }
  failure_broadcast(const failure_broadcast&) = delete;
  failure_broadcast& operator=(const failure_broadcast&) = delete;

  /// A loss is sent even if a throw is still under way.
  GPIPE_COLD void send(const cause& what) noexcept {
    const std::size_t kind = what.leaves ? 2 : what.lost ? 1 : 0, first = kind * elsewhere_.size();
    MPI_Waitall(static_cast<int>(elsewhere_.size()), sending_.data() + first, MPI_STATUSES_IGNORE);
    cause& leaving = sent_[kind];
    leaving = what;
    for (std::size_t i = 0; i < elsewhere_.size(); ++i)
      MPI_Isend(&leaving, static_cast<int>(sizeof leaving), MPI_BYTE, elsewhere_[i], 0, failures_,
                &sending_[first + i]);
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
  GPIPE_COLD void post() {
    check(
        MPI_Irecv(&arriving_, static_cast<int>(sizeof arriving_), MPI_BYTE, MPI_ANY_SOURCE, 0, failures_, &receiving_),
        "MPI_Irecv");
  }

  MPI_Comm failures_;
  std::vector<int> elsewhere_;
  cause sent_[3], arriving_, received_;
  std::vector<MPI_Request> sending_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
};

}  // namespace gpipe::mpi
