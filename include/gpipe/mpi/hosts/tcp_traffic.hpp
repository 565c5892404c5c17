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

/// The bytes that were sent and received over the TCP connections that a process had when this object was made. These
/// are MPI's connections if all processes have sent one another a message.
///
/// A message of 100 MB takes a minute at 16 Mbit/s, and MPI reports nothing before it is complete. The kernel counts
/// the bytes that the other host has acknowledged, so a slow link differs from a dead one.
class tcp_traffic {
 public:
  GPIPE_COLD tcp_traffic() {
    const long limit = sysconf(_SC_OPEN_MAX);
    for (int file = 0; file < (limit > 0 && limit < 4096 ? static_cast<int>(limit) : 4096); ++file)
      if (std::uint64_t bytes = 0; read(file, bytes)) connections_.push_back({file, identity(file)});
  }

  std::size_t connections() const noexcept { return connections_.size(); }
  /// All bytes so far on open connections.
  GPIPE_COLD std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& [file, expected] : connections_)
      if (std::uint64_t transferred = 0; identity(file) == expected && read(file, transferred)) sum += transferred;
    return sum;
  }

 private:
  /// The beginning of the kernel's `struct tcp_info`; <linux/tcp.h> and <netinet/tcp.h> cannot be included together.
  struct info {
    unsigned char state, before[119];
    std::uint64_t acknowledged, received;
  };
  static bool read(int file, std::uint64_t& bytes) noexcept {
    constexpr int tcp = 6, tcp_info = 11, established = 1;
    info connection{};
    socklen_t size = sizeof connection;
    if (getsockopt(file, tcp, tcp_info, &connection, &size) != 0 || size < sizeof connection ||
        connection.state != established)
      return false;
    bytes = connection.acknowledged + connection.received;
    return true;
  }
  static std::uint64_t identity(int file) noexcept {
    struct stat status {};
    return fstat(file, &status) == 0 ? status.st_ino : 0;
  }

  std::vector<std::pair<int, std::uint64_t>> connections_;  // a file and its identity: numbers are reused
};

}  // namespace gpipe::mpi
