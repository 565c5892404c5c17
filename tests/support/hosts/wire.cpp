// A cable between a host and its port of the bridge, with a delay, a rate and losses. Few kernels can delay frames
// (netem), so this program carries them: each end of the cable is a virtual card (TAP), which it reads and writes.
//
//     wire PORT HOST DELAY RATE [LOSS]          wire to_b b 1ms 100mbit 0.001
//
//     eth0 of HOST  -->  [ a frame leaves behind the frame before, and arrives DELAY later ]  -->  PORT
//                   <--  [ the same the other way                                          ]  <--
//
// DELAY is in s, ms or us, RATE in kbit, mbit or gbit a second, LOSS a share of all frames. A frame that finds more
// than `capacity` bytes on their way is lost, too. It prints "ready" when both cards exist, and ends with the card.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

constexpr std::size_t capacity = 4 << 20;  // 33 ms at 1 Gbit/s

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "wire: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

/// "1.5ms" in seconds, "100mbit" in bits a second.
double number_of(const char* word, std::initializer_list<std::pair<const char*, double>> units) {
  char* unit = nullptr;
  const double number = std::strtod(word, &unit);
  for (const auto& [name, factor] : units)
    if (unit != word && number >= 0 && std::strcmp(unit, name) == 0) return number * factor;
  std::fprintf(stderr, "wire: \"%s\" is unknown; write a number and one of", word);
  for (const auto& [name, factor] : units) std::fprintf(stderr, " \"%s\"", name);
  std::fputs(" behind it\n", stderr);
  std::exit(2);
}

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// A card in the network of this process; it exists as long as its file is open.
int make_card(const char* name) {
  const int card = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (card < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(card, TUNSETIFF, &request) < 0) fail(name);
  return card;
}
int make_card_of(const std::string& host, const char* name) {
  const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int other = open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0 || other < 0 || setns(other, CLONE_NEWNET) < 0) fail(host);
  const int card = make_card(name);
  if (setns(own, CLONE_NEWNET) < 0) fail("setns");
  close(own), close(other);
  return card;
}

/// One direction of the cable.
class direction {
 public:
  direction(int from, int to, double delay_seconds, double bits_per_second, double loss)
      : from_(from),
        to_(to),
        delay_(static_cast<std::int64_t>(1e9 * delay_seconds)),
        ns_per_byte_(8e9 / bits_per_second),
        loss_(loss) {}

  /// Takes the frames that the card at this end sends.
  void take() {
    static char bytes[65536];
    for (ssize_t size = 0; (size = read(from_, bytes, sizeof bytes)) > 0;) {
      const auto length = static_cast<std::size_t>(size);
      if (carried_ + length > capacity || std::uniform_real_distribution(0.0, 1.0)(random_) < loss_) continue;
      free_ = std::max(free_, now()) + static_cast<std::int64_t>(ns_per_byte_ * static_cast<double>(length));
      frames_.push_back({free_ + delay_, {bytes, bytes + length}});
      carried_ += length;
    }
  }
  /// Hands over those that have arrived. A card that is down takes none: they are lost.
  void deliver() {
    for (; !frames_.empty() && frames_.front().arrives <= now(); frames_.pop_front()) {
      const std::vector<char>& bytes = frames_.front().bytes;
      carried_ -= bytes.size();
      if (write(to_, bytes.data(), bytes.size()) < 0 && errno == EBADFD) fail("write");
    }
  }
  std::int64_t next_arrival() const { return frames_.empty() ? INT64_MAX : frames_.front().arrives; }

 private:
  struct frame {
    std::int64_t arrives;
    std::vector<char> bytes;
  };

  int from_, to_;
  std::int64_t delay_;
  double ns_per_byte_, loss_;
  std::deque<frame> frames_{};  // on their way, in order
  std::size_t carried_ = 0;     // their bytes
  std::int64_t free_ = 0;       // when the last of them has left
  std::minstd_rand random_{1};
};

}  // namespace

int main(int count, char** words) {
  if (count != 5 && count != 6) {
    std::fputs("usage: wire PORT HOST DELAY RATE [LOSS], such as: wire to_b b 1ms 100mbit 0.001\n", stderr);
    return 2;
  }
  const double delay = number_of(words[3], {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}});
  const double rate = number_of(words[4], {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}});
  const double loss = count == 6 ? number_of(words[5], {{"", 1}}) : 0;
  const int port = make_card(words[1]), card = make_card_of(words[2], "eth0");
  direction directions[] = {{port, card, delay, rate, loss}, {card, port, delay, rate, loss}};

  // It runs before the programs whose frames it carries, where it may; else frames come late on a busy machine.
  const sched_param first{.sched_priority = 1};
  static_cast<void>(sched_setscheduler(0, SCHED_FIFO, &first));
  prctl(PR_SET_TIMERSLACK, 1);
  std::puts("ready");
  std::fclose(stdout);
  while (true) {
    const std::int64_t left = std::min(directions[0].next_arrival(), directions[1].next_arrival()) - now();
    const std::int64_t ns = std::clamp<std::int64_t>(left, 0, 1'000'000'000);
    const timespec limit{ns / 1'000'000'000, static_cast<long>(ns % 1'000'000'000)};
    pollfd ends[] = {{port, POLLIN, 0}, {card, POLLIN, 0}};
    if (ppoll(ends, 2, &limit, nullptr) < 0 && errno != EINTR) fail("poll");
    for (const pollfd& end : ends)
      if (end.revents & (POLLERR | POLLNVAL)) return 0;  // the card is gone
    for (direction& it : directions) it.take(), it.deliver();
  }
}
