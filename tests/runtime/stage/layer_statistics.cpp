// sanitizers: address

#include <gpipe/runtime/stage/layer_statistics.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;

TEST_CASE("partials of calls stand one after the other, with room for those of one more call") {
  const double first[] = {1, 2, 3, 4, 5, 6}, last[] = {7, 8};
  const host::context c;
  detail::accumulated_statistics<host_device> partials;
  CHECK(partials.count() == 0);
  partials.keep(c, first, 2, 3, 4);
  const double* before = partials.all();
  partials.append(c, last, 2, 1);
  CHECK(partials.all() == before);
  CHECK(partials.count() == 4);
  CHECK(std::vector<double>(partials.all(), partials.all() + 8) == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  partials.clear();
  CHECK(partials.count() == 0);
}
