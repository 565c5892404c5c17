// expect: the schedule's table is wrong
// expect: schedule_is_sound<2, 8, gpipe::action_kind::backward, 2, 2, gpipe::detail::fault::premature, false>
#include <gpipe/plan/timetable/promises.hpp>

using namespace gpipe;
using namespace gpipe::detail;

/// 1F1B with one backward exchanged with the forward before it.
struct almost : one_f_one_b {
#ifdef GPIPE_FAIL
  static constexpr int broken_worker = 2;
#else
  static constexpr int broken_worker = -1;
#endif
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    const int read = worker == broken_worker && tick / 2 == 4 ? tick ^ 1 : tick;
    return one_f_one_b::at(stages, micro_batches, worker, read);
  }
};
struct table {
  static constexpr almost schedule{};
  static constexpr int stages = 4, micro_batches = 8, link_count = 3;
  static constexpr stage_link links[] = {{0, 1}, {1, 2}, {2, 3}};
};
static_assert(require_sound<table>());
