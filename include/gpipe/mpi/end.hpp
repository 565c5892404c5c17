#pragma once

#include <gpipe/mpi/progress_engine.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace gpipe::mpi {

class end;

/// The resources that all ends of a job share.
struct connection {
  progress_engine& progress;
  MPI_Comm data = MPI_COMM_NULL, control = MPI_COMM_NULL;
  std::vector<end*> ends{};  ///< existing ends in order of construction, which is the same in all processes
};

/// The common part of sender and receiver. Each slot of each value has a separate tag, so that the messages of a slot
/// arrive in order:
///
///     sender     sender_slot(m) ---- tag + receiver_slot(m) V + v ----> receiver_slot(m)     receiver
///
/// A full micro-batch is sent by a persistent request, a short one by a message of its length.
class end {
 public:
  GPIPE_COLD end(connection& job, const channel_layout& layout, int tag) : job_(job), layout_(layout), tag_(tag) {
    for (const buffer_layout& v : layout.values)
      if (v.row > static_cast<std::size_t>((std::numeric_limits<int>::max)() / layout.capacity))
        gpipe::detail::throw_error(
            {"a micro-batch of ", layout.capacity, " samples of ", v.row, " bytes is more than one message carries"},
            {"make micro-batches smaller"});
    job.ends.push_back(this);
  }
  virtual ~end() { std::erase(job_.ends, this); }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// After a failure: both ends complete or discard all messages in flight.
  virtual void drain() = 0;

  /// The number of tags that the channel uses.
  static int tags(const channel_layout& layout) {
    return memory_slots(layout) * static_cast<int>(layout.values.size());
  }

 protected:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int memory_slots(const channel_layout& layout) {
    return *std::max_element(layout.receiver_slot.begin(), layout.receiver_slot.end()) + 1;
  }
  int values() const { return static_cast<int>(layout_.values.size()); }
  int tag_of(int receiver_slot, int v) const { return tag_ + receiver_slot * values() + v; }
  std::byte* at(int v, int slot) const {
    return layout_.values[index(v)].base + layout_.values[index(v)].stride * index(slot);
  }
  int bytes(int v, int samples) const { return static_cast<int>(layout_.values[index(v)].row) * samples; }

  void await(MPI_Request* requests, wait_context context, MPI_Status* states = MPI_STATUSES_IGNORE) {
    job_.progress.await(
        [&] {
          int done = 0;
          check(MPI_Testall(values(), requests, &done, states), "MPI_Testall");
          return done != 0;
        },
        context, layout_.peer);
  }
  void await_one(MPI_Request& request, wait_context context) {
    job_.progress.await(
        [&] {
          int done = 0;
          check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        context, layout_.peer);
  }
  static constexpr wait_context recovering{.action = "recover"};

  connection& job_;
  channel_layout layout_;
  int tag_;
};

}  // namespace gpipe::mpi
