// expect: the plan's programs do not run in the plan's slots
// expect: programs_run<0, [0-9]+, gpipe::action_kind::forward, 0, 1, gpipe::detail::fault::stash, false>
#include <gpipe/layer.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct net : model<input<float, 4>, linear<4>, relu, linear<2>, softmax_cross_entropy> {};

/// 1F1B whose formula gives memory one slot for activations where the table needs more.
struct scanty : one_f_one_b {
#ifdef GPIPE_FAIL
  static constexpr int stash_slots(int, int, int, int, int) { return 1; }
#endif
};

using planned = plan<net, stages<3>, micro_batches<4>, micro_batch_size<1>, schedule<scanty>>;
static_assert(planned::S == 3);
