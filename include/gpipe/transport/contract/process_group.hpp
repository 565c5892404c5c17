#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe {

/// A call that the processes of a job make together.
enum class collective_kind : std::uint8_t {
  make,
  step,
  accumulate,
  measure,
  examine,
  evaluate,
  predict,
  read,
  write,
  freeze,
  watch,
  save,
  load,
  generate,
  search,
  refresh
};

constexpr const char* name_of(collective_kind kind) {
  constexpr const char* names[] = {"make a trainer", "step",     "accumulate",      "measure",
                                   "examine",        "evaluate", "predict",         "read",
                                   "write",          "freeze",   "watch",           "save",
                                   "load",           "generate", "search by beams", "refresh a generator"};
  return names[static_cast<int>(kind)];
}

/// A value that all processes of a job must agree on: a number, or a hash of larger data. It owns nothing.
struct agreed_value {
  static constexpr std::uint64_t unknown = 0x8f3c'51d2'7be9'46a0;  ///< agrees with every value

  std::string_view name;
  std::uint64_t value;
  std::string (*text)(std::uint64_t) = nullptr;  ///< the value as text; null: the value is a hash

  GPIPE_COLD static agreed_value number(std::string_view name, std::int64_t value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::to_string(static_cast<std::int64_t>(x)); }};
  }
  GPIPE_COLD static agreed_value real(std::string_view name, double value) {
    return {name, std::bit_cast<std::uint64_t>(value), [](std::uint64_t x) {
              char digits[32];
              std::snprintf(digits, sizeof digits, "%.17g", std::bit_cast<double>(x));
              return std::string(digits);
            }};
  }
  /// A value of an enumeration for which `name_of` returns a name.
  template <class Choice>
  GPIPE_COLD static agreed_value choice(std::string_view name, Choice value) {
    return {name, static_cast<std::uint64_t>(value),
            [](std::uint64_t x) { return std::string(name_of(static_cast<Choice>(x))); }};
  }
};

/// A call and its agreed values, as words that can be sent.
struct call_fingerprint {
  static constexpr std::size_t max_values = 31;
  std::array<std::uint64_t, 1 + max_values> words{};

  call_fingerprint() = default;
  call_fingerprint(collective_kind kind, std::span<const agreed_value> values) {
    if (values.size() > max_values)
      detail::throw_error({"a call has ", values.size(), " agreed values"}, {"choose at most ", max_values});
    words[0] = static_cast<std::uint64_t>(kind);
    for (std::size_t i = 0; i < values.size(); ++i) words[1 + i] = values[i].value;
  }
  /// Whether both are the same call with the same values, apart from unknown ones.
  bool operator==(const call_fingerprint& right) const {
    bool equal = true;
    for (std::size_t i = 0; i < words.size(); ++i) equal &= agree(words[i], right.words[i]);
    return equal;
  }

  // change: an error location
  /// The error if `rank` makes `call`, and rank 0 this call with these values.
  GPIPE_COLD error difference(const call_fingerprint& call, int rank, std::span<const agreed_value> values) const {
    std::string name = "the call", both;
    const auto text_of = [](std::string (*text)(std::uint64_t), std::uint64_t a, std::uint64_t b) {
      return text == nullptr ? "" : detail::concat({": ", text(a), " and ", text(b)});
    };
    if (words[0] != call.words[0]) {
      both = text_of(agreed_value::choice("", collective_kind{}).text, words[0], call.words[0]);
    } else {
      std::size_t i = 0;
      while (i + 1 < values.size() && agree(words[1 + i], call.words[1 + i])) ++i;
      if (i < values.size()) name = values[i].name, both = text_of(values[i].text, words[1 + i], call.words[1 + i]);
    }
    return {detail::concat({"ranks 0 and ", rank, " do not agree on ", name, both}),
            "run the same program with the same options and data in every process",
            {.rank = rank}};
  }

 private:
  static bool agree(std::uint64_t a, std::uint64_t b) {
    return a == b || a == agreed_value::unknown || b == agreed_value::unknown;
  }
};

// A channel joins one sender to one receiver over K slots of the receiver's memory. Calls name a micro-batch, whose
// slot is in the program of both ends. In one process both ends are one object, between processes two.
//
//   sender     acquire(m) ... write ... publish(m, n)
//   receiver                                         n = consume(m) ... read ... release(m)
//   m's slot   free       taken         full         in use                      free
//
// All implementations follow this law (tests/support/channel_law.hpp):
//   - values written before `publish` are read after `consume`, with their number of samples; nothing is lost or
//     duplicated, each slot's contents arrive in order, and slots may be released in another order than acquired;
//   - `acquire` and `consume` are the only calls that wait. A failure elsewhere ends both, spinning or asleep, by
//     throwing `detail::interrupted`; so does a deadline without progress, whose error has the `wait_context` as its
//     location: the wait throws that error, or the job returns it when it recovers;
//   - nothing is allocated after construction;
//   - after a failure, and once the channel or its job is reset, every slot is free; destruction never waits for an end
//     that failed.
//
// Between processes the sender also has slots: `acquire` waits until earlier micro-batches have left its slot. Ends for
// a device's queue are used in its order: they make the queue wait, the host waits only in `process_group::wait`, and
// `consume` returns the number of samples of a full micro-batch.

// change: a transport
/// The end of a channel that sends.
class sending_end {
 public:
  virtual ~sending_end() = default;
  virtual void acquire(int micro_batch, wait_context context) = 0;
  virtual void publish(int micro_batch, int samples) = 0;
};

/// The end that receives.
class receiving_end {
 public:
  virtual ~receiving_end() = default;
  virtual int consume(int micro_batch, wait_context context) = 0;  ///< returns the number of samples
  /// Whether `consume` would return at once; false if that is unknown.
  virtual bool arrived(int /* micro_batch */) { return false; }
  virtual void release(int micro_batch) = 0;
};

// assumes: links in a process move no bytes
/// The slots of a value, which a channel between processes transfers, in this process's memory.
struct buffer_layout {
  std::byte* base = nullptr;
  std::size_t stride = 0;  ///< bytes from slot to slot
  std::size_t row = 0;     ///< bytes of a sample
};

/// A channel to or from another process.
struct channel_layout {
  int peer = 0;      ///< the rank at the other end
  int capacity = 1;  ///< samples of a full micro-batch
  std::vector<buffer_layout> values;
  std::vector<int> receiver_slot;  ///< [micro-batch]
  std::vector<int> sender_slot;    ///< [micro-batch]; the receiver does not read it
  const void* queue = nullptr;     ///< the queue of the memory's device, in whose order the ends work; null: the host
};

/// All processes contribute bytes and read the bytes of all others, at the end of every call. All or none: when
/// `gather` returns, all processes have contributed, and none had failed before.
class all_gather {
 public:
  virtual ~all_gather() = default;
  virtual std::byte* mine() = 0;  ///< to fill before `gather`
  /// On return the slots that the ends in `settled` sent from are free again.
  virtual void gather(wait_context context, const std::vector<sending_end*>& settled) = 0;
  virtual const std::byte* of(int rank) const = 0;
};

/// The processes of a host, from the view of one of them. Processes that may run on the same cores divide them by their
/// numbers of workers.
struct host_cores {
  int processes = 1, workers = 1;
  int cores = 0;  ///< that the processes may run on together; 0: unknown
  int alike = 1;  ///< workers of the processes that may run on the same cores, including this one
  int first = 0;  ///< the index of this process's first worker among these
};

// change: a transport
/// An executor's interface to the processes of a job; this one is `rank()`. Every process makes the same calls in the
/// same order, from one thread at a time; if one does not, all fail. After a failure elsewhere calls that wait throw
/// `detail::interrupted`; `agree` and `broadcast`, which are called outside of steps, throw the cause.
///
/// A failure is *thrown*, by a process that continues, or a process is *lost*: it has ended, was killed, or shows no
/// sign of life. After a throw all processes call `recover` and the next call works; after a loss every call throws the
/// cause.
class process_group {
 public:
  virtual ~process_group() = default;
  virtual int rank() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  /// Whether its channels read and write the memory of devices that have queues.
  virtual bool reaches_devices() const noexcept { return false; }
  virtual host_cores on_this_host() const noexcept { return {}; }
  /// Whether several threads of this process may call `begin` and `poll`, and use channels, one thread each, at once.
  virtual bool takes_threads() const noexcept { return false; }
  /// Sets the number of workers, each in a thread, of the processes from now on: [rank].
  virtual void set_workers(const std::vector<int>& /* counts */) {}

  /// Sets how long a wait may last without progress, from now on.
  virtual void expect(std::chrono::nanoseconds deadline) = 0;
  /// Returns if all processes make the same call; otherwise throws, on every rank, an `error` that names two that
  /// differ.
  virtual void agree(collective_kind kind, std::span<const agreed_value> values) = 0;
  virtual std::unique_ptr<sending_end> sender(const channel_layout& layout) = 0;
  virtual std::unique_ptr<receiving_end> receiver(const channel_layout& layout) = 0;
  /// `sizes[r]`: the bytes that rank r contributes.
  virtual std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) = 0;

  /// Begins a call that ends in an `all_gather`. It does not wait: if a process makes another call, that is a failure,
  /// which is found before all have gathered.
  virtual void enter(collective_kind kind, std::span<const agreed_value> values) = 0;
  /// Called when all ends have been made, to allocate their resources before the first step.
  virtual void connect() {}
  /// Reports the next action of this process, which counts as progress, and checks for failures elsewhere.
  virtual void begin(wait_context context) = 0;
  /// Reports that this process is alive, without progress, and checks for failures elsewhere.
  virtual void poll() = 0;
  /// Reports the location of a kernel that runs for long, repeatedly, and then once a location without a stage. The
  /// errors of other processes name it: another worker of this process may have made a call after the kernel's.
  virtual void runs_long(const detail::location& /* kernel */) noexcept {}
  /// The host waits until a queue has done all its work; null: there is nothing to wait for.
  virtual void wait(const void* /* queue */, wait_context /* context */) {}
  /// Sends bytes of rank `root` to all processes; `tag` identifies them and is the same in all processes.
  virtual void broadcast(void* bytes, std::size_t size, int root, std::uint64_t tag) = 0;

  /// Reports to all others that this process has failed, and the cause, unless another failure was first.
  virtual void fail(const error& cause) noexcept = 0;
  /// Called first after a failure: ends all waits of devices for other processes.
  virtual void abandon() noexcept {}
  /// After a failure: returns the first cause, or the loss, when no message is in flight and all processes have called
  /// it.
  virtual error recover() = 0;

  /// Called in a program's last handler: this process ends for this cause, and all others end too. Returns whether this
  /// process is to print the cause: rank 0 is, or, if rank 0 is lost, each of the others.
  virtual bool leave(const error& cause) noexcept = 0;
  /// Whether another process is lost that has not left because of an error: a new job may continue without it.
  virtual bool lost() const noexcept = 0;
};

}  // namespace gpipe
