#pragma once

#include <gpipe/transport/mpi/end.hpp>

#include <algorithm>
#include <vector>

namespace gpipe::mpi {

/// Sends straight from its own places.
class sender final : public sending_end, public end {
 public:
  GPIPE_COLD sender(wiring& of, const channel_layout& along, int tag)
      : end(of, along, tag), started_(index(slots(along))) {
    const int places = *std::max_element(along.sender_slot.begin(), along.sender_slot.end()) + 1;
    active_.assign(index(places), -1);
    short_.assign(index(places * values()), MPI_REQUEST_NULL);
    full_.assign(along.sender_slot.size() * index(values()), MPI_REQUEST_NULL);
    for (int m = 0; m < static_cast<int>(along.sender_slot.size()); ++m)
      for (int v = 0; v < values(); ++v)
        check(MPI_Send_init(at(v, along.sender_slot[index(m)]), bytes(v, along.capacity), MPI_BYTE, along.peer,
                            tag_of(along.receiver_slot[index(m)], v), of.line, &full_[index(m * values() + v)]),
              "MPI_Send_init");
  }
  /// Waits until what left is gone, for its memory goes next; not after a loss.
  GPIPE_COLD ~sender() override {
    of_.watch.leave(true);
    try {
      for (int p = 0; p < static_cast<int>(active_.size()); ++p) settle(p, {.action = "leave"});
    } catch (...) {
    }
    of_.watch.leave(false);
    for (MPI_Request& r : full_)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

  void acquire(int m, wait_context what) override { settle(along_.sender_slot[index(m)], what); }

  void publish(int m, int samples) override {
    const int place = along_.sender_slot[index(m)], slot = along_.receiver_slot[index(m)];
    if (samples == along_.capacity) {
      check(MPI_Startall(values(), &full_[index(m * values())]), "MPI_Startall");
      active_[index(place)] = m;
    } else {
      for (int v = 0; v < values(); ++v)
        check(MPI_Isend(at(v, place), bytes(v, samples), MPI_BYTE, along_.peer, tag_of(slot, v), of_.line,
                        &short_[index(place * values() + v)]),
              "MPI_Isend");
    }
    ++started_[index(slot)];
  }

  void drain() override {
    MPI_Request layer_statistics = MPI_REQUEST_NULL;
    check(MPI_Isend(started_.data(), static_cast<int>(started_.size()), MPI_INT64_T, along_.peer, tag_, of_.control,
                    &layer_statistics),
          "MPI_Isend");
    await_one(layer_statistics, recovering);
    for (int p = 0; p < static_cast<int>(active_.size()); ++p) settle(p, recovering);
  }

 private:
  // What left from the place before is gone.
  void settle(int place, wait_context what) {
    if (const int m = active_[index(place)]; m >= 0) await(&full_[index(m * values())], what);
    active_[index(place)] = -1;
    await(&short_[index(place * values())], what);
  }

  std::vector<std::int64_t> started_;         // [slot]
  std::vector<int> active_;                   // [place]: the full micro-batch that leaves from it
  std::vector<MPI_Request> full_, short_;     // [micro-batch][value], [place][value]
};

}  // namespace gpipe::mpi
