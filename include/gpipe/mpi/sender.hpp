#pragma once

#include <gpipe/mpi/end.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpipe::mpi {

/// Sends directly from the sender's slots.
class sender final : public sending_end, public end {
 public:
  GPIPE_COLD sender(connection& job, const channel_layout& layout, int tag)
      : end(job, layout, tag), started_(index(memory_slots(layout))) {
    const int slot_count = *std::max_element(layout.sender_slot.begin(), layout.sender_slot.end()) + 1;
    active_.assign(index(slot_count), -1);
    short_.assign(index(slot_count * values()), MPI_REQUEST_NULL);
    full_.assign(layout.sender_slot.size() * index(values()), MPI_REQUEST_NULL);
    for (int m = 0; m < static_cast<int>(layout.sender_slot.size()); ++m)
      for (int v = 0; v < values(); ++v)
        check(MPI_Send_init(at(v, layout.sender_slot[index(m)]), bytes(v, layout.capacity), MPI_BYTE, layout.peer,
                            tag_of(layout.receiver_slot[index(m)], v), job.data, &full_[index(m * values() + v)]),
              "MPI_Send_init");
  }
  /// Waits until all messages have left, because their memory is freed next; not after a loss.
  GPIPE_COLD ~sender() override {
    job_.progress.leave(true);
    try {
      for (int k = 0; k < static_cast<int>(active_.size()); ++k) settle(k, {.action = "leave"});
    } catch (...) {
    }
    job_.progress.leave(false);
    for (MPI_Request& r : full_)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

  void acquire(int m, wait_context context) override { settle(layout_.sender_slot[index(m)], context); }

  void publish(int m, int samples) override {
    const auto turn = job_.progress.turn();
    const int slot = layout_.sender_slot[index(m)], receiver_slot = layout_.receiver_slot[index(m)];
    if (samples == layout_.capacity) {
      check(MPI_Startall(values(), &full_[index(m * values())]), "MPI_Startall");
      active_[index(slot)] = m;
    } else {
      for (int v = 0; v < values(); ++v)
        check(MPI_Isend(at(v, slot), bytes(v, samples), MPI_BYTE, layout_.peer, tag_of(receiver_slot, v), job_.data,
                        &short_[index(slot * values() + v)]),
              "MPI_Isend");
    }
    ++started_[index(receiver_slot)];
  }

  void drain() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(started_.data(), static_cast<int>(started_.size()), MPI_INT64_T, layout_.peer, tag_, job_.control,
                    &request),
          "MPI_Isend");
    await_one(request, recovering);
    for (int k = 0; k < static_cast<int>(active_.size()); ++k) settle(k, recovering);
  }

 private:
  // Waits until the last message from the slot has left it.
  void settle(int slot, wait_context context) {
    if (const int m = active_[index(slot)]; m >= 0) await(&full_[index(m * values())], context);
    active_[index(slot)] = -1;
    await(&short_[index(slot * values())], context);
  }

  std::vector<std::int64_t> started_;      // [receiver's slot]: messages
  std::vector<int> active_;                // [sender's slot]: the full micro-batch that leaves from it; -1: none
  std::vector<MPI_Request> full_, short_;  // [micro-batch][value], [sender's slot][value]
};

}  // namespace gpipe::mpi
