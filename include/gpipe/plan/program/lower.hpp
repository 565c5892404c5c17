#pragma once

#include <initializer_list>
#include <limits>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe::detail {

/// A send or a receive, and its order: the tick that it precedes, then its rank among the transfers before this tick.
struct pending_transfer {
  int tick = 0, rank = 0;
  instruction line{};

  constexpr bool operator<(const pending_transfer& right) const {
    if (tick != right.tick) return tick < right.tick;
    if (rank != right.rank) return rank < right.rank;
    return line.micro_batch < right.line.micro_batch;
  }
};

/// The transfers that a worker has not made yet, in their order.
class transfer_queue {
 public:
  constexpr transfer_queue() : list_(new pending_transfer[4]{}), capacity_(4) {}
  constexpr ~transfer_queue() { delete[] list_; }
  transfer_queue(const transfer_queue&) = delete;
  transfer_queue& operator=(const transfer_queue&) = delete;

  constexpr void put(const pending_transfer& transfer) {
    if (count_ == capacity_) grow();
    int i = count_++;
    for (; i > 0 && list_[i - 1] < transfer; --i) list_[i] = list_[i - 1];
    list_[i] = transfer;
  }
  constexpr bool holds_one_before(int tick) const { return count_ > 0 && list_[count_ - 1].tick <= tick; }
  constexpr instruction take() { return list_[--count_].line; }

 private:
  constexpr void grow() {
    pending_transfer* larger = new pending_transfer[static_cast<unsigned>(2 * capacity_)]{};
    for (int i = 0; i < count_; ++i) larger[i] = list_[i];
    delete[] list_;
    list_ = larger;
    capacity_ *= 2;
  }

  pending_transfer* list_;  // the next one is the last
  int capacity_, count_ = 0;
};

/// How a program sends: a `synchronous` program runs even if a send waits for its receive, a `buffered` one only if it
/// never does.
enum class send_mode { synchronous, buffered };

// change: an action
/// Lowers a schedule to one worker's program: calls `sink(instruction)` for each line of a step, in order.
///
///     F_m  [receive activation]...  forward  [send activation]...
///     B_m  [recompute]  [receive gradient]...  backward input  [send gradient]...  backward parameters
///
/// - Recompute starts before the gradient arrives, and the gradient leaves before the parameter part. A stage that
///   sends no gradient runs the fused `backward`. Cells that the table has split stay at their ticks.
/// - The parameter parts of each `group_gradients` consecutive micro-batches come together, after the last one's input
///   part.
/// - After the last cell of a schedule that trains: `reduce` of each stage of the worker, then `update` of each.
/// - A link between two stages of one worker is no transfer and makes no instruction.
///
/// If sends are synchronous, a transfer happens before a tick that both ends can compute: the first tick after the cell
/// that produces the value, and after the cell that the receiver runs before the one that needs the value. (So a
/// receiver receives nothing early, and a sender may run cells in between.) Before a tick gradients go first, over
/// ascending links, then activations, over descending ones: a worker with one stage sends before it receives. `links`
/// ascend in (source, target).
///
/// This is one total order of all cells and transfers, and each program is a part of it: the first event that has not
/// happened can happen, because both of its ends have reached it. So programs of a sound table run to their end under
/// rendezvous, and also with slots between.
///
/// If sends are buffered, a send follows its cell at once, a receive comes right before its cell, and neither end waits
/// for the cells of the other in between; so channels need slots for the values on the way. Activations go over
/// ascending links, gradients over descending ones.
///
/// `recomputed` has one element per (stage, micro-batch), or is null.
template <scheduler Schedule, class Sink>
GPIPE_COLD constexpr void lower(tick_index<Schedule>& table, const bool* recomputed, const stage_link* links,
                                int link_count, int worker, Sink&& sink, send_mode mode = send_mode::synchronous) {
  const zeroed_array<int> indices(2 * link_count);  // the links that reach this worker, and those that leave it
  int *const incoming = indices.data(), *const outgoing = incoming + link_count;
  int incoming_count = 0, outgoing_count = 0;
  for (int i = 0; i < link_count; ++i) {
    const bool leaves = table.worker_of(links[i].source) == worker,
               reaches = table.worker_of(links[i].target) == worker;
    if (reaches && !leaves) incoming[incoming_count++] = i;
    if (leaves && !reaches) outgoing[outgoing_count++] = i;
  }

  transfer_queue transfers;
  cell behind;  // whose parameter part has not run yet, nor the parameter parts of its group
  cell ahead;   // that has not been recomputed yet
  const auto settle = [&] {
    if (behind.kind != action_kind::idle)
      for (int m = table.first_with(behind.micro_batch); m <= behind.micro_batch; ++m)
        sink(instruction{action_kind::backward_parameters, behind.stage, m, -1});
    if (ahead.kind != action_kind::idle) sink(instruction{action_kind::recompute, ahead.stage, ahead.micro_batch, -1});
    behind = ahead = {};
  };
  const auto make_transfers_before = [&](int tick) {
    while (transfers.holds_one_before(tick)) {
      const instruction next = transfers.take();
      if (is_receive(next.kind)) settle();
      sink(next);
    }
    settle();
  };
  const auto later = [](int a, int b) { return a > b ? a : b; };
  // Queues all transfers of a kind that a cell waits for, or causes; returns their number.
  const auto plan = [&](action_kind kind, int tick, const cell& c) {
    const bool back = kind == action_kind::send_gradient || kind == action_kind::receive_gradient;
    const bool leaves =
        kind == action_kind::send_activation || kind == action_kind::receive_gradient;  // over outgoing links
    const int *const chosen = leaves ? outgoing : incoming, count = leaves ? outgoing_count : incoming_count;
    int planned = 0;
    for (int i = 0; i < count; ++i) {
      const stage_link& link = links[chosen[i]];
      if ((leaves ? link.source : link.target) != c.stage || (back && !link.gradient)) continue;
      int rank = back ? -1 - chosen[i] : chosen[i];
      if (mode == send_mode::synchronous) {
        const cell_ticks &source = table.of(link.source)[c.micro_batch], &target = table.of(link.target)[c.micro_batch];
        tick =
            1 + (back ? later(target.backward, source.before_backward) : later(source.forward, target.before_forward));
        rank = back ? chosen[i] - link_count : link_count - chosen[i];
      }
      transfers.put({tick, rank, {kind, c.stage, c.micro_batch, chosen[i]}});
      ++planned;
    }
    return planned;
  };

  table.walk(worker, [&](int t, const cell& c) {
    if (!table.contains(c)) return sink(instruction{c.kind, c.stage, c.micro_batch, -1});
    const bool forward = c.kind == action_kind::forward,
               back = c.kind == action_kind::backward || c.kind == action_kind::backward_input;
    if (forward) plan(action_kind::receive_activation, t, c);
    if (back) plan(action_kind::receive_gradient, t, c);
    if (back && recomputed && recomputed[c.stage * table.micro_batches() + c.micro_batch]) ahead = c;
    make_transfers_before(t);
    const bool sends =
        forward ? plan(action_kind::send_activation, t, c) > 0 : back && plan(action_kind::send_gradient, t, c) > 0;
    const bool parts = c.kind == action_kind::backward && (sends || table.group_gradients() > 1);
    sink(instruction{parts ? action_kind::backward_input : c.kind, c.stage, c.micro_batch, -1});
    if (parts && c.micro_batch == table.last_with(c.micro_batch)) behind = c;
  });
  make_transfers_before((std::numeric_limits<int>::max)());
  if (table.schedule().trains)
    // assumes: one commit per step
    for (const action_kind kind : {action_kind::reduce, action_kind::update})
      for (int s = 0; s < table.stages(); ++s)
        if (table.worker_of(s) == worker) sink(instruction{kind, s, -1, -1});
}

}  // namespace gpipe::detail
