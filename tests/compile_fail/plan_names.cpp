// expect: .num_stages of a plan is .stages here
// expect: the numbers of a plan are .micro_batches and .micro_batch_size here
// expect: a plan has no .batch_size, which is replicas x .micro_batches x .micro_batch_size
// errors: 3
#include <gpipe/plan.hpp>

using namespace gpipe;

inline plan_options choices() {
#ifdef GPIPE_FAIL
  static_cast<void>(plan_options{.num_stages = 4});
  static_cast<void>(plan_options{.stages = 4, .num_micro_batches = 8});
  return plan_options{.stages = 4, .batch_size = 32L};
#else
  return plan_options{.stages = 4, .micro_batches = 8};
#endif
}
