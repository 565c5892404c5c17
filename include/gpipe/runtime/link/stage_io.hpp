#pragma once

#include <cstdint>
#include <vector>

#include <gpipe/plan/program/lower.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// What a worker's stages give to others and take from them, over the wires of their replica, and how long it waits for
/// that. A stage's device is told what to wait for, and marks what others wait for.
template <class Device>
class handover {
 public:
  using context = typename Device::context;
  using marker = typename Device::marker;

  handover(const run_plan& plan, std::vector<wire<marker>>& wires) : plan_(plan), wires_(wires) {}

  /// An action begins.
  void begin() { waited_ = linked_ = 0; }
  /// In it, for others: in all, and of this for what was on a link.
  std::int64_t waited() const { return waited_; }
  std::int64_t linked() const { return linked_; }

  GPIPE_OUT_OF_LINE void receive(const context& device, const instruction& i, const errand& what) {
    wire<marker>& over = wires_[index(i.link)];
    const bool forth = i.kind == act::receive_activation;
    const int place = forth ? stash_place(i.link, i.micro_batch) : returned_place(i.link, i.micro_batch);
    consume(device, i.micro_batch, forth ? over.activations : over.gradients, place, what);
    if (const auto& slow = forth ? over.forth : over.back) carried(*slow, place);
  }
  GPIPE_OUT_OF_LINE void send(const context& device, const step_state& step, const instruction& i) {
    wire<marker>& over = wires_[index(i.link)];
    const bool forth = i.kind == act::send_activation;
    const int m = i.micro_batch, place = forth ? stash_place(i.link, m) : returned_place(i.link, m);
    if (const auto& slow = forth ? over.forth : over.back)
      slow->depart(place, (forth ? over.of_sample.forward_bytes : over.of_sample.backward_bytes) * step.samples(m));
    publish(device, m, step.samples(m), forth ? over.activations : over.gradients, place);
  }

  /// Before the stage writes what others read.
  GPIPE_OUT_OF_LINE void acquire_activations(const context& device, const instruction& i, const errand& what) {
    for (const int k : plan_.outgoing[index(i.stage)])
      acquire(device, i.micro_batch, wires_[index(k)].activations, stash_place(k, i.micro_batch), what);
  }
  GPIPE_OUT_OF_LINE void acquire_gradients(const context& device, const instruction& i, const errand& what) {
    for (const int k : plan_.incoming[index(i.stage)])
      acquire(device, i.micro_batch, wires_[index(k)].gradients, returned_place(k, i.micro_batch), what);
  }
  /// The last use of what the stage received for this micro-batch is over.
  GPIPE_OUT_OF_LINE void release(const context& device, const instruction& i, bool training) {
    for (const int k : plan_.incoming[index(i.stage)])
      release(device, i.micro_batch, wires_[index(k)].activations, stash_place(k, i.micro_batch));
    if (!training) return;
    for (const int k : plan_.outgoing[index(i.stage)])
      release(device, i.micro_batch, wires_[index(k)].gradients, returned_place(k, i.micro_batch));
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int stash_place(int link, int m) const { return plan_.places_of_links[index(link)].stash[index(m)]; }
  int returned_place(int link, int m) const { return plan_.places_of_links[index(link)].returned[index(m)]; }

  template <class Call>
  void waiting(Call&& call) {
    const auto begin = now_ns();
    call();
    waited_ += now_ns() - begin;
  }
  void carried(slow_link& link, int place) {
    const auto before = waited_;
    waiting([&] { link.arrive(place); });
    linked_ += waited_ - before;
  }

  GPIPE_OUT_OF_LINE void acquire(const context& device, int m, lane<marker>& to, int place, const errand& what) {
    if (to.near) {
      waiting([&] { to.near->acquire(place, what); });
      device.await(to.near->marker(place));
    } else if (to.out) {
      waiting([&] { to.out->acquire(m, what); });
    }
  }
  void publish(const context& device, int m, int samples, lane<marker>& to, int place) {
    if (to.out) return to.out->publish(m, samples);
    device.mark(to.near->marker(place));
    to.near->publish(place, samples);
  }
  void consume(const context& device, int m, lane<marker>& from, int place, const errand& what) {
    if (from.in) return waiting([&] { from.in->consume(m, what); });
    waiting([&] { from.near->consume(place, what); });
    device.await(from.near->marker(place));
  }
  GPIPE_OUT_OF_LINE void release(const context& device, int m, lane<marker>& from, int place) {
    if (from.near) {
      device.mark(from.near->marker(place));
      from.near->release(place);
    } else if (from.in) {
      from.in->release(m);
    }
  }

  const run_plan& plan_;
  std::vector<wire<marker>>& wires_;
  std::int64_t waited_ = 0, linked_ = 0;
};

}  // namespace gpipe::detail
