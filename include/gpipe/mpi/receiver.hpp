#pragma once

#include <gpipe/mpi/end.hpp>

#include <cstdint>
#include <vector>

namespace gpipe::mpi {

/// Receives directly into its slots: a receive is posted for each free slot.
class receiver final : public receiving_end, public end {
 public:
  GPIPE_COLD receiver(connection& job, const channel_layout& layout, int tag)
      : end(job, layout, tag),
        received_(index(memory_slots(layout))),
        posted_(received_.size()),
        states_(layout.values.size()),
        requests_(received_.size() * layout.values.size(), MPI_REQUEST_NULL) {
    for (int k = 0; k < memory_slots(layout); ++k) {
      for (int v = 0; v < values(); ++v)
        check(MPI_Recv_init(at(v, k), bytes(v, layout.capacity), MPI_BYTE, layout.peer, tag_of(k, v), job.data,
                            &requests_[index(k * values() + v)]),
              "MPI_Recv_init");
      post(k);
    }
  }
  GPIPE_COLD ~receiver() override {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (posted_[i / layout_.values.size()]) {
        MPI_Cancel(&requests_[i]);
        MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
      }
      MPI_Request_free(&requests_[i]);
    }
  }

  int consume(int m, wait_context context) override {
    const int k = layout_.receiver_slot[index(m)];
    take(k, context);
    int got = 0;
    MPI_Get_count(&states_[0], MPI_BYTE, &got);
    return got / static_cast<int>(layout_.values[0].row);
  }
  bool arrived(int m) override {
    const auto turn = job_.progress.turn();
    int complete = 1;
    for (int v = 0, value_complete = 0; v < values() && complete != 0; ++v, complete = value_complete)
      check(MPI_Request_get_status(requests_[index(layout_.receiver_slot[index(m)] * values() + v)], &value_complete,
                                   MPI_STATUS_IGNORE),
            "MPI_Request_get_status");
    return complete != 0;
  }
  void release(int m) override { post(layout_.receiver_slot[index(m)]); }

  void drain() override {
    std::vector<std::int64_t> started(received_.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(started.data(), static_cast<int>(started.size()), MPI_INT64_T, layout_.peer, tag_, job_.control,
                    &request),
          "MPI_Irecv");
    await_one(request, recovering);
    for (int k = 0; k < static_cast<int>(received_.size()); ++k) {
      while (received_[index(k)] < started[index(k)]) post(k), take(k, recovering);
      post(k);
    }
  }

 private:
  void post(int k) {
    if (posted_[index(k)]) return;
    const auto turn = job_.progress.turn();
    check(MPI_Startall(values(), &requests_[index(k * values())]), "MPI_Startall");
    posted_[index(k)] = 1;
  }
  void take(int k, wait_context context) {
    await(&requests_[index(k * values())], context, states_.data());
    posted_[index(k)] = 0;
    ++received_[index(k)];
  }

  std::vector<std::int64_t> received_;  // [slot]
  std::vector<char> posted_;            // [slot]
  std::vector<MPI_Status> states_;
  std::vector<MPI_Request> requests_;  // [slot][value]
};

}  // namespace gpipe::mpi
