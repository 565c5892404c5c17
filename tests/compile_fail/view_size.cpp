// expect: a view .reshape. must keep the number of elements and their type
// expect: view_keeps_size<gpipe::broken::position<1>, flat, gpipe::tensor<float, 4, 4>, gpipe::tensor<float, 1[57]>,
// expect: gpipe::broken::elements_of_input<16>, gpipe::broken::elements_of_output<1[57]>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct flat {
  template <class In>
  struct on {
    static constexpr bool view = true;
#ifdef GPIPE_FAIL
    using output = tensor<float, 15>;
#else
    using output = tensor<float, 16>;
#endif
  };
};
struct net : model<input<float, 4, 4>, relu, flat, relu> {};
constexpr int layers = layers_of<net>;
