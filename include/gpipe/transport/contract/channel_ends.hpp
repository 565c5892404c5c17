#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>

#include <concepts>

namespace gpipe {

// A channel joins one sender to one receiver over K slots. The program gives each micro-batch its slot, so both sides
// know the number and nothing is looked up. Where memory is shared both ends are one object, between processes two.
//
//   sender     acquire(k) ... write ... publish(k, n)
//   receiver                                         n = consume(k) ... read ... release(k)
//   slot k     free       taken         full         in use                      free
//
// The law, kept by every model (tests/laws/channel.cpp):
//   - what was written before `publish` is seen after `consume`, with its number of samples; nothing is lost or
//     doubled, each slot's contents arrive in order, and slots may be released in another order than acquired;
//   - `acquire` and `consume` are the only calls that wait; poison ends both, from spin and from sleep, by throwing
//     `detail::poisoned`; a deadline of silence ends one of them with a `gpipe::error` whose place is the errand;
//   - nothing is allocated after construction;
//   - `reset`, while no worker runs, frees every slot whatever happened before; destruction never waits.

template <class C>
concept sending_end = requires(C& channel, const C& same, int slot, int samples, errand what) {
  channel.acquire(slot, what);
  { channel.publish(slot, samples) } noexcept;
  { channel.reset() } noexcept;
  { same.slots() } noexcept -> std::same_as<int>;
};

template <class C>
concept receiving_end = requires(C& channel, const C& same, int slot, errand what) {
  { channel.consume(slot, what) } -> std::same_as<int>;
  { channel.release(slot) } noexcept;
  { channel.reset() } noexcept;
  { same.slots() } noexcept -> std::same_as<int>;
};

}  // namespace gpipe
