#include <gpipe/plan/program/slot_channels.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using detail::slot_channels;

namespace {

using enum slot_channels::result;

// One link and three micro-batches; the first and the third share an activation's slot.
constexpr int stash[] = {0, 1, 0}, returned[] = {0, 0, 0}, copies[] = {2, 1};

constexpr bool takes_turns() {
  slot_channels channels({stash, returned, copies}, 1, 3);
  bool right = channels.acquire(0, 0) == done && channels.acquire(0, 0) == done;  // again, after another channel's wait
  right = right && channels.acquire(0, 1) == done;
  right = right && channels.acquire(0, 2) == waits && channels.is_busy(0, 2) && !channels.is_busy(0, 0);
  right = right && channels.consume(0, 0) == waits && channels.publish(0, 0) == done;
  right = right && channels.publish(0, 0) == wrong && channels.publish(0, 2) == wrong;
  right = right && channels.acquire(0, 2) == waits && channels.release(0, 0) == wrong;
  right = right && channels.consume(0, 2) == wrong && channels.consume(0, 0) == done;
  right = right && channels.acquire(0, 2) == waits && channels.release(0, 2) == wrong;
  right = right && channels.release(0, 0) == done && !channels.is_busy(0, 2) && channels.acquire(0, 2) == done;
  // Gradients are a channel of their own.
  return right && channels.acquire(1, 0) == done && channels.acquire(1, 1) == waits;
}
static_assert(takes_turns());

}  // namespace

TEST_CASE("a slot goes from free to taken, full, in use and free again, each for its own micro-batch") {
  CHECK(takes_turns());
}

TEST_CASE("a slot that the receiver's memory does not have is none") {
  constexpr int too_few[] = {1, 1};
  const slot_channels channels({stash, returned, too_few}, 1, 3);
  CHECK(channels.exists(0, 0));
  CHECK_FALSE(channels.exists(0, 1));
  CHECK(channels.exists(1, 1));
}
