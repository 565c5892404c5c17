// expect: an optimizer has more moments than gpipe::max_moments
#include <gpipe/device/host/context.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

using namespace gpipe;
using namespace gpipe::detail;

struct greedy : sgd {
#ifdef GPIPE_FAIL
  static constexpr int moments = 5;
#else
  static constexpr int moments = 4;
#endif
};
optimizer_update rule = optimizer_update::of<host::context>(greedy{});
