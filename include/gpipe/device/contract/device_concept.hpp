#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpipe {

// A device gives each stage an arena and a context. Kernels of layers ask the context for operations (device/host/
// context.hpp lists them); beside these it has what the runtime asks for. The device works off what it was asked for in
// its own time:
//
//     the worker    upload(x)  each(..)  multiply(..)  mark(a)        download(y)   finish()......... y is here
//     the device               upload x  each  multiply  a | b  each ...   download y ^
//     another       ... await(a)  each(..)  mark(b) ...
//
// The law, kept by every model (tests/laws/device.cpp):
//   - what is asked of one context happens in the order in which it was asked for; of two contexts nothing is known
//     but by marks: what was asked of one before `mark(a)` has happened before what is asked of the other after
//     `await(a)`.
//     To await what was never marked is to go on; what is marked again is awaited as it was marked last;
//   - arenas are the device's memory, of whichever stage: the host neither reads nor writes them, but by `upload` and
//     `download`. What is uploaded stays as it is, and what is downloaded is not looked at, until `finish` has
//     returned;
//   - kernels, `refresh` and `absorb` among them, ask for operations and look at no result: sums go to where the arena
//     has a place for them;
//   - asking throws nothing of the device's own, and the host waits in `finish` alone: it returns when all is done, or
//     throws a `gpipe::error` if some of it failed: with what `asks` told last before it was asked for, as far as the
//     device knows. After either nothing is under way, and the context is as new;
//   - after a context was made nothing is allocated by it, and destruction waits for what is under way.
//
// A device that works later may tell when, by moments of a context:
//
//     note(a)  each(..)  note(b)  finish      a.ns_until(b): how long each(..) took
//
//   - a moment is when all that was asked for before `note` was done, and of two moments of one context the time
//     between them is known once `finish` has returned. What is noted again is the later moment.
// Of a device without moments, times that a runtime takes of kernels are times of asking; on the host that is the same.
//
// A device may have graphs besides: what was asked for is written down once and runs as often as wanted.
//
//     first.begin(g)  others begin(g), await a mark of first  ask ... ask  first awaits marks of others, that end(g)
//     first.end(g)  first.launch(g)  finish      g.refill(0, ..) g.refill(1, ..)  first.launch(g)  finish     ...
//
//   - between `begin` and `end` a context does nothing of what it is asked for. `launch` asks for all of it, each time:
//     the bits are the same. A `finish` in between drops what was written;
//   - uploads are numbered as they are asked for, over all contexts. What they read is copied while they are written
//     down, and by `refill`, while nothing is under way; all else is as it was: addresses, and what operations hold.

/// A marker of a device that does at once what it is asked for: there is nothing to mark.
struct unmarked {};

/// Whose operations follow: a layer's on a micro-batch. For errors and traces of devices that work later; a context may
/// have `asks(const asker&)`.
struct asker {
  std::string_view layer{};
  int slot = -1, stage = -1, micro_batch = -1;
};

template <class C, class Marker>
concept executing_context = requires(const C& context, std::ptrdiff_t bytes, const std::byte* from, std::byte* into,
                                     Marker& marker) {
  context.upload(bytes, from, into);    // from the host
  context.download(bytes, from, into);  // to the host
  context.mark(marker);
  context.await(marker);
  context.finish();
};

/// A context whose work is in a queue that others can be put in order with, such as a GPU's stream.
template <class C>
concept queueing_context = requires(const C& context) { context.queue(); };

template <class D>
concept executing_device =
    std::default_initializable<typename D::marker> && executing_context<typename D::context, typename D::marker> &&
    requires(const typename D::context& context, typename D::arena& arena, std::size_t bytes, std::byte fill) {
      { D::memory_left() } -> std::same_as<std::int64_t>;  // bytes that it can still give
      { D::make_context(0) } -> std::same_as<typename D::context>;  // of a stage, counted through replicas
      // One allocation, aligned, filled throughout with one byte; `alignment` bytes behind it are there, too.
      { D::make_arena(context, bytes, fill) } -> std::same_as<typename D::arena>;
      { arena.data() } -> std::same_as<std::byte*>;
      { arena.size() } -> std::same_as<std::size_t>;
    };

template <class D>
concept timing_device = executing_device<D> && std::default_initializable<typename D::moment> &&
                        requires(const typename D::context& context, typename D::moment& moment) {
                          context.note(moment);
                          { moment.ns_until(moment) } -> std::same_as<std::int64_t>;
                        };

template <class D>
concept graph_device = executing_device<D> && std::default_initializable<typename D::graph> &&
                       requires(const typename D::context& context, typename D::graph& graph, std::size_t upload,
                                std::ptrdiff_t bytes, const std::byte* from) {
                         context.begin(graph);
                         context.end(graph);
                         context.launch(graph);
                         graph.refill(upload, bytes, from);
                       };

}  // namespace gpipe
