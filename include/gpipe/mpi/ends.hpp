#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gpipe/mpi/progress_engine.hpp>
#include <gpipe/transport/contract/process_group.hpp>

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
  static constexpr wait_context recovering{.action = "recover"};

  connection& job_;
  channel_layout layout_;
  int tag_;
};

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
    job_.progress.await(request, recovering, layout_.peer);
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
    job_.progress.await(request, recovering, layout_.peer);
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
