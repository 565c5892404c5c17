#pragma once

#include <gpipe/core/config.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// The bytes that have come and gone over the TCP connections that a process had when this object was made: MPI's,
/// once all processes have sent one another a message.
///
/// A message of 100 MB takes a minute at 16 Mbit/s, and MPI says nothing before it is whole. The kernel counts the
/// bytes that the other host has acknowledged: a slow link moves, a dead one does not.
class tcp_traffic {
 public:
  GPIPE_COLD tcp_traffic() {
    const long limit = sysconf(_SC_OPEN_MAX);
    for (int file = 0; file < (limit > 0 && limit < 4096 ? static_cast<int>(limit) : 4096); ++file)
      if (std::uint64_t bytes = 0; read(file, bytes)) connections_.push_back({file, identity(file)});
  }

  std::size_t connections() const noexcept { return connections_.size(); }
  /// All bytes so far; a connection that has been closed counts no more.
  GPIPE_COLD std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& [file, its] : connections_)
      if (std::uint64_t of = 0; identity(file) == its && read(file, of)) sum += of;
    return sum;
  }

 private:
  /// The kernel's `struct tcp_info` begins so; <linux/tcp.h> and <netinet/tcp.h> cannot be included together.
  struct info {
    unsigned char state, before[119];
    std::uint64_t acknowledged, received;
  };
  static bool read(int file, std::uint64_t& bytes) noexcept {
    constexpr int tcp = 6, tcp_info = 11, established = 1;
    info of{};
    socklen_t size = sizeof of;
    if (getsockopt(file, tcp, tcp_info, &of, &size) != 0 || size < sizeof of || of.state != established) return false;
    bytes = of.acknowledged + of.received;
    return true;
  }
  static std::uint64_t identity(int file) noexcept {
    struct stat of {};
    return fstat(file, &of) == 0 ? of.st_ino : 0;
  }

  std::vector<std::pair<int, std::uint64_t>> connections_;  // a file and its identity: a number is used again
};

}  // namespace gpipe::mpi
