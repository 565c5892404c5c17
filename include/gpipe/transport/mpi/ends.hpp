#pragma once

#include <gpipe/transport/mpi/lookout.hpp>
#include <gpipe/transport/peers.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace gpipe::mpi {

class end;

/// What all ends of a job share.
struct wiring {
  lookout& watch;
  MPI_Comm line = MPI_COMM_NULL, control = MPI_COMM_NULL;
  std::vector<end*> ends{};  ///< that live, in the order of making, which is the same everywhere
};

/// What the ends of a channel have in common. Each slot of each value has a tag of its own, so that what arrives in a
/// slot arrives in order:
///
///     sender     place(m) ---- tag + slot(m) V + v ----> slot(m)     receiver
///
/// A full micro-batch goes by a persistent request, a short one by a message of its length.
class end {
 public:
  GPIPE_ONCE end(wiring& of, const route& along, int tag) : of_(of), along_(along), tag_(tag) {
    for (const cargo& v : along.values)
      if (v.row > static_cast<std::size_t>((std::numeric_limits<int>::max)() / along.capacity))
        gpipe::detail::refuse({"a micro-batch of ", along.capacity, " samples of ", v.row,
                               " bytes is more than one message carries"},
                              {"make micro-batches smaller"});
    of.ends.push_back(this);
  }
  virtual ~end() { std::erase(of_.ends, this); }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// After a failure: both ends see to it that nothing is under way.
  virtual void drain() = 0;

  static int tags(const route& along) { return slots(along) * static_cast<int>(along.values.size()); }

 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int slots(const route& along) { return *std::max_element(along.slot.begin(), along.slot.end()) + 1; }
  int values() const { return static_cast<int>(along_.values.size()); }
  int tag_of(int slot, int v) const { return tag_ + slot * values() + v; }
  std::byte* at(int v, int place) const {
    return along_.values[index(v)].base + along_.values[index(v)].stride * index(place);
  }
  int bytes(int v, int samples) const { return static_cast<int>(along_.values[index(v)].row) * samples; }

  void await(MPI_Request* requests, errand what, MPI_Status* states = MPI_STATUSES_IGNORE) {
    of_.watch.await(
        [&] {
          int done = 0;
          check(MPI_Testall(values(), requests, &done, states), "MPI_Testall");
          return done != 0;
        },
        what, along_.peer);
  }
  void await_one(MPI_Request& request, errand what) {
    of_.watch.await(
        [&] {
          int done = 0;
          check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        what, along_.peer);
  }
  static constexpr errand recovering{.action = "recover"};

  wiring& of_;
  route along_;
  int tag_;
};

class sender final : public far_sender, public end {
 public:
  GPIPE_ONCE sender(wiring& of, const route& along, int tag)
      : end(of, along, tag), started_(index(slots(along))) {
    const int places = *std::max_element(along.place.begin(), along.place.end()) + 1;
    active_.assign(index(places), -1);
    short_.assign(index(places * values()), MPI_REQUEST_NULL);
    full_.assign(along.place.size() * index(values()), MPI_REQUEST_NULL);
    for (int m = 0; m < static_cast<int>(along.place.size()); ++m)
      for (int v = 0; v < values(); ++v)
        check(MPI_Send_init(at(v, along.place[index(m)]), bytes(v, along.capacity), MPI_BYTE, along.peer,
                            tag_of(along.slot[index(m)], v), of.line, &full_[index(m * values() + v)]),
              "MPI_Send_init");
  }
  /// Waits until what left is gone, for its memory goes next; not after a loss.
  GPIPE_ONCE ~sender() override {
    of_.watch.leave(true);
    try {
      for (int p = 0; p < static_cast<int>(active_.size()); ++p) settle(p, {.action = "leave"});
    } catch (...) {
    }
    of_.watch.leave(false);
    for (MPI_Request& r : full_)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

  void acquire(int m, errand what) override { settle(along_.place[index(m)], what); }

  void publish(int m, int samples) override {
    const int place = along_.place[index(m)], slot = along_.slot[index(m)];
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
    MPI_Request telling = MPI_REQUEST_NULL;
    check(MPI_Isend(started_.data(), static_cast<int>(started_.size()), MPI_INT64_T, along_.peer, tag_, of_.control,
                    &telling),
          "MPI_Isend");
    await_one(telling, recovering);
    for (int p = 0; p < static_cast<int>(active_.size()); ++p) settle(p, recovering);
  }

 private:
  // What left from the place before is gone.
  void settle(int place, errand what) {
    if (const int m = active_[index(place)]; m >= 0) await(&full_[index(m * values())], what);
    active_[index(place)] = -1;
    await(&short_[index(place * values())], what);
  }

  std::vector<std::int64_t> started_;         // [slot]
  std::vector<int> active_;                   // [place]: the full micro-batch that leaves from it
  std::vector<MPI_Request> full_, short_;     // [micro-batch][value], [place][value]
};

class receiver final : public far_receiver, public end {
 public:
  GPIPE_ONCE receiver(wiring& of, const route& along, int tag)
      : end(of, along, tag),
        received_(index(slots(along))),
        posted_(received_.size()),
        states_(along.values.size()),
        requests_(received_.size() * along.values.size(), MPI_REQUEST_NULL) {
    for (int k = 0; k < slots(along); ++k) {
      for (int v = 0; v < values(); ++v)
        check(MPI_Recv_init(at(v, k), bytes(v, along.capacity), MPI_BYTE, along.peer, tag_of(k, v), of.line,
                            &requests_[index(k * values() + v)]),
              "MPI_Recv_init");
      post(k);
    }
  }
  GPIPE_ONCE ~receiver() override {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (posted_[i / along_.values.size()]) {
        MPI_Cancel(&requests_[i]);
        MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
      }
      MPI_Request_free(&requests_[i]);
    }
  }

  int consume(int m, errand what) override {
    const int k = along_.slot[index(m)];
    take(k, what);
    int got = 0;
    MPI_Get_count(&states_[0], MPI_BYTE, &got);
    return got / static_cast<int>(along_.values[0].row);
  }
  void release(int m) override { post(along_.slot[index(m)]); }

  void drain() override {
    std::vector<std::int64_t> started(received_.size());
    MPI_Request hearing = MPI_REQUEST_NULL;
    check(MPI_Irecv(started.data(), static_cast<int>(started.size()), MPI_INT64_T, along_.peer, tag_, of_.control,
                    &hearing),
          "MPI_Irecv");
    await_one(hearing, recovering);
    for (int k = 0; k < static_cast<int>(received_.size()); ++k) {
      while (received_[index(k)] < started[index(k)]) post(k), take(k, recovering);
      post(k);
    }
  }

 private:
  void post(int k) {
    if (posted_[index(k)]) return;
    check(MPI_Startall(values(), &requests_[index(k * values())]), "MPI_Startall");
    posted_[index(k)] = 1;
  }
  void take(int k, errand what) {
    await(&requests_[index(k * values())], what, states_.data());
    posted_[index(k)] = 0;
    ++received_[index(k)];
  }

  std::vector<std::int64_t> received_;  // [slot]
  std::vector<char> posted_;            // [slot]
  std::vector<MPI_Status> states_;
  std::vector<MPI_Request> requests_;   // [slot][value]
};

}  // namespace gpipe::mpi
