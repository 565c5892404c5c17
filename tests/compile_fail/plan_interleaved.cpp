// expect: the schedule does not admit these stages and micro-batches
// expect: schedule_admits<8, 9, gpipe::broken::admitted_stages<6, 10>, gpipe::broken::admitted_micro_batches<8, 10>, false>
#include <gpipe/plan/timetable/promises.hpp>

using namespace gpipe;
using namespace gpipe::detail;

#ifdef GPIPE_FAIL
constexpr int M = 9;
#else
constexpr int M = 8;
#endif
struct table {
  static constexpr interleaved schedule{2};
  static constexpr int stages = 8, micro_batches = M, link_count = 1;
  static constexpr stage_link links[] = {{0, 1}};
};
static_assert(require_sound<table>());
