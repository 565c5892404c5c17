// expect: a layer has more Inputs or Outputs than gpipe::max_tensors_per_edge
// errors: 1
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net
    : model<input<float, 8>, from<"a", tensor<float, 2>>, from<"b", tensor<float, 2>>, from<"c", tensor<float, 2>>,
#ifdef GPIPE_FAIL
            from<"d", tensor<float, 2>>,
#endif
            concat<>> {
};
static_assert(layers_of<net> > 0);
