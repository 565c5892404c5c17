// sanitizers: address

#include <gpipe/runtime/stage/accumulated_statistics.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/device/host/host.hpp>

using namespace gpipe;

TEST_CASE("what calls have told stands one after the other, with room for one call more") {
  const double first[] = {1, 2, 3, 4, 5, 6}, last[] = {7, 8};
  const host::context c;
  detail::told_earlier<host_device> told;
  CHECK(told.count() == 0);
  told.keep(c, first, 2, 3, 4);
  const double* before = told.all();
  told.append(c, last, 2, 1);
  CHECK(told.all() == before);
  CHECK(told.count() == 4);
  CHECK(std::vector<double>(told.all(), told.all() + 8) == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  told.forget();
  CHECK(told.count() == 0);
}
