// expect: finds no plan that fits the memory of a device .Devices, BytesAllowed, SufficientBytes.
// expect: some_plan_fits_its_devices<2, 1000, [0-9]+, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/tools/best/best.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<32>, linear<8>> {};
#ifdef GPIPE_FAIL
using some = plan<net, best<devices<2>, mini_batch<4>, workers<2>, schedule<one_f_one_b>>, memory_limit<1000>>;
#else
using some = plan<net, best<devices<2>, mini_batch<4>, workers<2>, schedule<one_f_one_b>>, memory_limit<20'000>>;
#endif
static_assert(some::S > 0);
