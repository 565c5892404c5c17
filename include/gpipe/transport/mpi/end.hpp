#pragma once

#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/mpi/progress_engine.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace gpipe::mpi {

class end;

/// What all ends of a job share.
struct wiring {
  progress_engine& watch;
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
  GPIPE_COLD end(wiring& of, const channel_layout& along, int tag) : of_(of), along_(along), tag_(tag) {
    for (const buffer_layout& v : along.values)
      if (v.row > static_cast<std::size_t>((std::numeric_limits<int>::max)() / along.capacity))
        gpipe::detail::throw_error({"a micro-batch of ", along.capacity, " samples of ", v.row,
                               " bytes is more than one message carries"},
                              {"make micro-batches smaller"});
    of.ends.push_back(this);
  }
  virtual ~end() { std::erase(of_.ends, this); }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// After a failure: both ends see to it that nothing is under way.
  virtual void drain() = 0;

  static int tags(const channel_layout& along) { return slots(along) * static_cast<int>(along.values.size()); }

 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int slots(const channel_layout& along) { return *std::max_element(along.receiver_slot.begin(), along.receiver_slot.end()) + 1; }
  int values() const { return static_cast<int>(along_.values.size()); }
  int tag_of(int slot, int v) const { return tag_ + slot * values() + v; }
  std::byte* at(int v, int place) const {
    return along_.values[index(v)].base + along_.values[index(v)].stride * index(place);
  }
  int bytes(int v, int samples) const { return static_cast<int>(along_.values[index(v)].row) * samples; }

  void await(MPI_Request* requests, wait_context what, MPI_Status* states = MPI_STATUSES_IGNORE) {
    of_.watch.await(
        [&] {
          int done = 0;
          check(MPI_Testall(values(), requests, &done, states), "MPI_Testall");
          return done != 0;
        },
        what, along_.peer);
  }
  void await_one(MPI_Request& collective_kind, wait_context what) {
    of_.watch.await(
        [&] {
          int done = 0;
          check(MPI_Test(&collective_kind, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        what, along_.peer);
  }
  static constexpr wait_context recovering{.action = "recover"};

  wiring& of_;
  channel_layout along_;
  int tag_;
};

}  // namespace gpipe::mpi
