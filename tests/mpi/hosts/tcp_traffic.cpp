#include <gpipe/mpi/hosts/tcp_traffic.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/processes.hpp"

namespace {

/// Both ends of a connection of this process with itself.
struct loop {
  int out = -1, in = -1;
  loop() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    sockaddr* const address = reinterpret_cast<sockaddr*>(&at);
    REQUIRE(bind(listener, address, size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, address, &size) == 0);
    out = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(out, address, size) == 0);
    in = accept(listener, nullptr, nullptr);
    REQUIRE(in >= 0);
    close(listener);
  }
  ~loop() { close(out), close(in); }

  void send(int bytes) {
    const std::string words(static_cast<std::size_t>(bytes), 'x');
    REQUIRE(write(out, words.data(), words.size()) == bytes);
    std::string there(words.size(), ' ');
    REQUIRE(recv(in, there.data(), there.size(), MSG_WAITALL) == bytes);
  }
};

}  // namespace

TEST_CASE("bytes are counted on the connections that were there, and on no later one") {
  the_job();  // its connections may be among them, and its messages are few
  loop first;
  gpipe::mpi::tcp_traffic traffic;
  CHECK(traffic.connections() >= 2);
  const auto before = traffic.bytes();
  first.send(50'000);
  const auto after = traffic.bytes();
  CHECK(after - before >= 50'000);
  CHECK(after - before < 110'000);  // received at one end, and acknowledged at the other
  loop later;
  later.send(50'000);
  CHECK(traffic.bytes() - after < 50'000);  // the last bytes of before may have been acknowledged since
}
