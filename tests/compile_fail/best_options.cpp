// expect: best<...> chooses stages, chunks and cut itself
// expect: option_beside_best<.*stages.*, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/tools/best/best.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<32>, linear<8>> {};
#ifdef GPIPE_FAIL
using some = plan<net, best<devices<2>, mini_batch<4>>, stages<2>>;
#else
using some = plan<net, best<devices<2>, mini_batch<4>>, workers<2>>;
#endif
static_assert(some::S > 0);
