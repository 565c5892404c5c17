// expect: tied parameters can be planned, but not trained yet
// expect: tied_parameters_run<gpipe::tied<
// errors: 1
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/linear.hpp>
#include <gpipe/runtime/kernels.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, tied<"shared", linear<8>>, tied<"shared", linear<8>>> {};
#else
struct net : model<input<float, 8>, linear<8>, linear<8>> {};
#endif
const auto* rows = kernels_of<net, host::context>;
