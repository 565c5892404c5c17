// expect: the schedule's workers wait in a circle
// expect: waits<0, 1, gpipe::action_kind::backward, 0, 0>, gpipe::broken::waits<1, 0, gpipe::action_kind::forward, 1,
// 1>
#include <gpipe/layer.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 4>, linear<4>, relu, linear<2>, softmax_cross_entropy> {};

/// Worker 1 begins with the micro-batch that worker 0 sends only after its first backward:
///
///     tick      0   1   2   3   4   5
///     worker 0  F0  B0  F1  B1            (as it should not be; right: F0 . . B0, then F1 . . B1)
///     worker 1  F1  F0  B0  B1
struct wishful {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "wishful"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 2 && micro_batches == 2; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int, int) { return 8; }
  static constexpr int in_flight(int, int, int) { return 2; }
  static constexpr cell at(int, int, int worker, int tick) {
    using enum action_kind;
#ifdef GPIPE_FAIL
    constexpr cell rows[2][8] = {{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}},
                                 {{forward, 1, 1}, {forward, 1, 0}, {backward, 1, 0}, {backward, 1, 1}}};
#else
    constexpr cell rows[2][8] = {{{forward, 0, 0}, {}, {}, {backward, 0, 0}, {forward, 0, 1}, {}, {}, {backward, 0, 1}},
                                 {{}, {forward, 1, 0}, {backward, 1, 0}, {}, {}, {forward, 1, 1}, {backward, 1, 1}}};
#endif
    return rows[worker][tick];
  }
};

using planned = plan<net, stages<2>, micro_batches<2>, micro_batch_size<1>, schedule<wishful>>;
static_assert(planned::S == 2);
