// expect: second_stage.8.
// expect: throw_misfit
// errors: 1
#include <gpipe/plan/partition/partition.hpp>

using namespace gpipe;

constexpr int second_stage(int max) {
  const pass_cost costs[] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
  const int bytes[] = {3, 3, 9, 3};
  const auto fits = [&](int begin, int end) {
    int held = 0;
    for (int l = begin; l < end; ++l) held += bytes[l];
    return held <= max;
  };
  int first[3] = {};
  partition(costs, 4, 2, 8, first, fits);
  return first[1];
}

#ifdef GPIPE_FAIL
constexpr int too_small = second_stage(8);
#endif
constexpr int enough = second_stage(12);
static_assert(enough == 2);
