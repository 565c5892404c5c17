#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/partition/transfer_charges.hpp>
#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/channel.hpp>
#include <gpipe/transport/in_process/emulated_link.hpp>

namespace gpipe {

/// One direction of a link: a channel, or the end of one that this process has. Empty: nothing flows.
template <class Marker>
struct lane {
  std::unique_ptr<channel<Marker>> near;
  std::unique_ptr<remote_sender> out;
  std::unique_ptr<remote_receiver> in;

  explicit operator bool() const { return near || out || in; }
  void reset() {
    if (near) near->reset();
  }
};

/// The channels of one link: activations forward, gradients back if any flow; and, where links are emulated, how they
/// delay what these carry. `Marker` is the device's.
template <class Marker = unmarked>
struct link_channels {
  lane<Marker> activations, gradients;
  std::unique_ptr<emulated_link> forth, back;
  traffic of_sample;  ///< what each sample of a micro-batch adds

  void reset() {
    activations.reset();
    gradients.reset();
    if (forth) forth->reset();
    if (back) back->reset();
  }
};

/// A wire for each link of a plan, empty where one worker has both ends: what it writes is where it reads it. Links are
/// emulated at so many bytes a second, unless that is 0. The plan's workers have the line's seats from `first_seat` on.
template <class Marker>
GPIPE_COLD std::vector<link_channels<Marker>> make_link_channels(const network& net, const runtime_plan& plan, worker_signals& line,
                                                std::int64_t bytes_per_second, int first_seat = 0) {
  if (bytes_per_second < 0)
    detail::throw_error({"a link of ", bytes_per_second, " bytes a second"}, {"choose 0, for none, or more"});
  const auto count = [](const std::vector<int>& places) {
    return *std::max_element(places.begin(), places.end()) + 1;
  };
  std::vector<link_channels<Marker>> channels(plan.links.size());
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    const auto& [from, to, gradient] = plan.links[k];
    const int sender = first_seat + plan.worker_of(from), receiver = first_seat + plan.worker_of(to);
    if (sender == receiver) continue;
    link_channels<Marker>& w = channels[k];
    const int there = count(plan.slots_of_links[k].stash), here = count(plan.slots_of_links[k].returned);
    w.activations.near = std::make_unique<channel<Marker>>(line, sender, receiver, there);
    if (gradient) w.gradients.near = std::make_unique<channel<Marker>>(line, receiver, sender, here);
    if (bytes_per_second == 0) continue;
    w.forth = std::make_unique<emulated_link>(line, receiver, there, bytes_per_second);
    if (gradient) w.back = std::make_unique<emulated_link>(line, sender, here, bytes_per_second);
    w.of_sample = traffic_of(net, plan.cut(), plan.links[k], 1);
  }
  return channels;
}

}  // namespace gpipe
