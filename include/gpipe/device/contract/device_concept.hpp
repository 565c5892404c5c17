#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpipe {

// A device gives each stage an arena and a context. The kernels of layers enqueue operations on the context
// (device/host/context.hpp lists them); the runtime enqueues uploads, downloads and marks. The device executes what was
// enqueued asynchronously:
//
//     the worker    upload(x)  each(..)  multiply(..)  mark(a)        download(y)   finish()......... y is here
//     the device               upload x  each  multiply  a | b  each ...   download y ^
//     another       ... await(a)  each(..)  mark(b) ...
//
// The law, kept by every model (tests/laws/device/context.cpp):
//   - operations on one context happen in the order in which they were enqueued. Only marks order the operations of two
//     contexts: those enqueued on one before `mark(a)` happen before those enqueued on the other after `await(a)`.
//     Awaiting an unrecorded marker returns at once; of a marker recorded twice the later record counts;
//   - arenas are the device's memory: the host reads and writes them by `download` and `upload` only. Until `finish`
//     has returned, the host changes no source of an upload and reads no target of a download;
//   - kernels, `refresh` and `update_state` included, enqueue operations and read no result: sums go to the arena;
//   - enqueuing throws no error of the device, and the host waits in `finish` only. `finish` returns when all is done,
//     or throws a `gpipe::error` if an operation failed, with the `operation_tag` that was set last before it as far as
//     the device knows. After either, nothing is in flight and the context is as new;
//   - a context allocates nothing after its construction, and its destructor waits for what is in flight.
//
// A context may have `download_rows(rows, bytes, source, target, stride)`: rows of `bytes` bytes, one after the other
// on the device, come to the host `stride` bytes apart. Without it the runtime downloads each row.
//
// A device may measure its own time, by moments of a context:
//
//     note(a)  each(..)  note(b)  finish      a.ns_until(b): how long each(..) took
//
//   - a moment is the time at which all that was enqueued before `note` is done. The time between two moments of one
//     context is known once `finish` has returned. A moment noted again is the later one.
// On a device without moments, the runtime measures the time of enqueuing; on the host that is the time of execution.
//
// A device may have graphs: operations are captured once and run as often as wanted.
//
//     first.begin(g)  others begin(g), await a mark of first  ops ... ops  first awaits marks of others, that end(g)
//     first.end(g)  first.launch(g)  finish      g.refill(0, ..) g.refill(1, ..)  first.launch(g)  finish     ...
//
//   - between `begin` and `end` a context executes nothing. `launch` enqueues all that was captured, each time with the
//     same bits. A `finish` in between drops the capture;
//   - uploads are numbered in the order in which they are enqueued, over all contexts. Their data are copied at capture
//     and by `refill`, while nothing is in flight; addresses and the values inside operations do not change.

/// The marker of a synchronous device: there is nothing to record.
struct unmarked {};

/// The layer and micro-batch of the operations that follow, for errors and traces of asynchronous devices. A context
/// may have `set_operation(const operation_tag&)`.
struct operation_tag {
  std::string_view layer{};
  int layer_index = -1, stage = -1, micro_batch = -1;
};

// change: a kernel operation
template <class C, class Marker>
concept executing_context = requires(const C& context, std::ptrdiff_t bytes, const std::byte* source, std::byte* target,
                                     Marker& marker) {
  context.upload(bytes, source, target);    // from the host
  context.download(bytes, source, target);  // to the host
  context.mark(marker);
  context.await(marker);
  context.finish();
};

/// A context with a queue that other queues can be ordered against, such as a GPU's stream.
template <class C>
concept queueing_context = requires(const C& context) {
  context.queue();
};

// change: a device
template <class D>
concept device_concept = std::default_initializable<typename D::marker> &&
    executing_context<typename D::context, typename D::marker> &&
    requires(const typename D::context& context, typename D::arena& arena, std::size_t bytes, std::byte fill) {
  { D::memory_left() } -> std::same_as<std::int64_t>;           // available bytes
  { D::make_context(0) } -> std::same_as<typename D::context>;  // stage index, counted over all replicas
  // change: memory pages
  // One aligned allocation, filled with one byte; `alignment` more bytes after it are allocated, too.
  { D::make_arena(context, bytes, fill) } -> std::same_as<typename D::arena>;
  { arena.data() } -> std::same_as<std::byte*>;
  { arena.size() } -> std::same_as<std::size_t>;
};

template <class D>
concept timing_device = device_concept<D> && std::default_initializable<typename D::moment> &&
    requires(const typename D::context& context, typename D::moment& moment) {
  context.note(moment);
  { moment.ns_until(moment) } -> std::same_as<std::int64_t>;
};

template <class D>
concept graph_device = device_concept<D> && std::default_initializable<typename D::graph> &&
    requires(const typename D::context& context, typename D::graph& graph, std::size_t upload, std::ptrdiff_t bytes,
             const std::byte* source) {
  context.begin(graph);
  context.end(graph);
  context.launch(graph);
  graph.refill(upload, bytes, source);
};

}  // namespace gpipe
