// sanitizers: address

#include <gpipe/runtime/stage/layer_statistics.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;

TEST_CASE("partials of calls stand one after the other, with room for those of one more call") {
  const double first[] = {1, 2, 3, 4, 5, 6}, last[] = {7, 8};
  const detail::device_context c(detail::device_of<host_device>, 0);
  detail::accumulated_statistics partials;
  CHECK(partials.count() == 0);
  partials.keep(c, first, 2, 3, 4);
  const double* before = partials.all();
  for (int again = 0; again < 2; ++again) {  // a step that is refused leaves nothing behind
    CHECK(partials.followed_by(c, last, 2, 1) == before);
    CHECK(partials.count() == 3);
    CHECK(std::vector<double>(before, before + 8) == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  }
  partials.clear();
  CHECK(partials.count() == 0);
}
