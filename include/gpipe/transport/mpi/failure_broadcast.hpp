#pragma once

#include <gpipe/transport/mpi/shared_status.hpp>

#include <algorithm>
#include <vector>

namespace gpipe::mpi {

/// Carries causes between hosts, whose processes share no memory: as messages to everybody elsewhere, for which
/// everybody has a receive posted.
class herald {
 public:
  /// `line` is for nothing else; `elsewhere` are the ranks on other hosts.
  GPIPE_ONCE herald(MPI_Comm line, std::vector<int> elsewhere)
      : line_(line), elsewhere_(std::move(elsewhere)), sending_(3 * elsewhere_.size(), MPI_REQUEST_NULL) {
    post();
  }
  GPIPE_ONCE ~herald() {
    MPI_Cancel(&receiving_);
    MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  }
  herald(const herald&) = delete;
  herald& operator=(const herald&) = delete;

  /// What was lost goes even if what was thrown is still on its way.
  GPIPE_ONCE void send(const cause& what) noexcept {
    const std::size_t kind = what.leaves ? 2 : what.lost ? 1 : 0, first = kind * elsewhere_.size();
    MPI_Waitall(static_cast<int>(elsewhere_.size()), sending_.data() + first, MPI_STATUSES_IGNORE);
    cause& leaving = sent_[kind];
    leaving = what;
    for (std::size_t i = 0; i < elsewhere_.size(); ++i)
      MPI_Isend(&leaving, static_cast<int>(sizeof leaving), MPI_BYTE, elsewhere_[i], 0, line_, &sending_[first + i]);
  }

  /// What has come, until the next call; null if nothing has.
  const cause* receive() {
    int here = 0;
    check(MPI_Test(&receiving_, &here, MPI_STATUS_IGNORE), "MPI_Test");
    if (!here) return nullptr;
    received_ = arriving_;
    post();
    return &received_;
  }

 private:
  GPIPE_ONCE void post() {
    check(MPI_Irecv(&arriving_, static_cast<int>(sizeof arriving_), MPI_BYTE, MPI_ANY_SOURCE, 0, line_, &receiving_),
          "MPI_Irecv");
  }

  MPI_Comm line_;
  std::vector<int> elsewhere_;
  cause sent_[3], arriving_, received_;
  std::vector<MPI_Request> sending_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
};

}  // namespace gpipe::mpi
