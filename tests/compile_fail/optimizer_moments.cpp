// expect: an optimizer asks for more than gpipe::max_moments arrays
#include <gpipe/device/host/context.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>

using namespace gpipe;

struct greedy : sgd {
#ifdef GPIPE_FAIL
  static constexpr int moments = 5;
#else
  static constexpr int moments = 4;
#endif
};
update_rule<host::context> rule(greedy{});
