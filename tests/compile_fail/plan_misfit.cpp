// expect: a stage needs more memory than it is allowed .Stage, BytesNeeded, BytesAllowed.
// expect: stage_fits_memory<1, 256, 200, false>
// expect: stage_fits_memory<1, 256, 100, false>
// expect: no cut into these stages fits the memory limit .Stages, Stage, BytesAllowed, SmallestLimit.
// expect: some_cut_fits_memory<2, 1, 256, 24640, false>
// expect: some_cut_fits_memory<2, 1, 256, 16448, false>
// errors: 4
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct narrow : model<input<float, 8>, relu, relu, relu> {};
struct wide : model<input<float, 64>, relu, relu, relu> {};

#ifdef GPIPE_FAIL
constexpr long narrow_limit = 200, wide_limit = 256, device_limit = 100;
#else
constexpr long narrow_limit = 1_MiB, wide_limit = 1_MiB, device_limit = 1_MiB;
#endif
constexpr device_spec narrow_device = l4.with_limit(device_limit), wide_device = l4.with_limit(wide_limit);
using fixed = plan<narrow, micro_batch_size<1>, cut_at<1>, memory_limit<narrow_limit>>;
using fixed_on_devices = plan<narrow, micro_batch_size<1>, cut_at<1>, on_devices<h100, narrow_device>>;
using chosen = plan<wide, stages<2>, memory_limit<wide_limit>>;
using chosen_on_devices = plan<wide, stages<2>, on_devices<h100, wide_device>>;
static_assert(fixed::memory(0).total() < 1_MiB && fixed_on_devices::memory(0).total() < 1_MiB);
static_assert(chosen::cut().stages == 2 && chosen_on_devices::cut().stages == 2);
