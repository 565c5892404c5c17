// expect: best<...> needs the number of devices and the samples of a mini-batch
// expect: best_has_devices_and_a_batch<2, 0, 64, 65536, false>
// expect: finds no plan that fits the memory of a device .Devices, BytesAllowed, SufficientBytes.
// expect: some_plan_fits_its_devices<2, 1000, [0-9]+, false>
// expect: best<...> chooses stages, chunks and cut itself
// expect: option_beside_best<.*stages.*, false>
// expect: no plan has these fixed choices
// expect: best_has_a_plan<2, 40, 0, 0, 3, 4, false>
// errors: 4
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/tools/best/best.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<32>, linear<8>> {};
using some = best<devices<2>, mini_batch<4>, workers<2>, schedule<one_f_one_b>>;
#ifdef GPIPE_FAIL
constexpr int stages_of[] = {plan<net, best<devices<2>>>::S, plan<net, some, memory_limit<1000>>::S,
                             plan<net, best<devices<2>, mini_batch<4>>, stages<2>>::S,
                             plan<net, best<devices<2>, mini_batch<40>, micro_batches<3>, micro_batch_size<4>>>::S};
#else
constexpr int stages_of[] = {plan<net, best<devices<2>, mini_batch<4>>>::S, plan<net, some, memory_limit<20'000>>::S,
                             plan<net, best<devices<2>, mini_batch<4>>, workers<2>>::S,
                             plan<net, best<devices<2>, mini_batch<12>, micro_batches<3>, micro_batch_size<4>>>::S};
#endif
