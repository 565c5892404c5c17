// expect: layers tied under one name share the parameters of the same name, but this one has another shape or type here
// expect: gpipe::broken::here<gpipe::tensor<double, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 8>
// errors: 1
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class T>
struct scaled {
  template <class In>
  struct on {
    using output = In;
    using value_type = T;
    static constexpr parameter parameters[] = {{"weight", {8}}};
  };
};
#ifdef GPIPE_FAIL
using second = double;
#else
using second = float;
#endif
struct net : model<input<float, 8>, tied<"w", scaled<float>>, tied<"w", scaled<second>>> {};
static_assert(layers_of<net> == 2);
