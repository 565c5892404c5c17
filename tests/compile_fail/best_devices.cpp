// expect: best<...> needs the number of devices and the samples of a mini-batch
// expect: best_has_devices_and_a_batch<2, 0, 64, 65536, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/tools/best/best.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<32>, linear<8>> {};
#ifdef GPIPE_FAIL
using some = plan<net, best<devices<2>>>;
#else
using some = plan<net, best<devices<2>, mini_batch<4>>>;
#endif
static_assert(some::S > 0);
