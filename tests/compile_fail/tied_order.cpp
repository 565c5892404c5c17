// expect: A slice of a head needs a first layer that has all of its rows
// expect: tied_parameters_match<gpipe::broken::position<1>
// expect: gpipe::broken::here<gpipe::tensor<float, 9, 2>
// expect: gpipe::broken::first<gpipe::tensor<float, 4, 2>
// errors: 1
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct table {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {9, 2}}};
  };
};
struct part {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {4, 2}}};
    static constexpr int first_row = 5;
  };
};

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, tied<"w", part>, tied<"w", table>> {};
#else
struct net : model<input<float, 8>, tied<"w", table>, tied<"w", part>> {};
#endif
static_assert(layers_of<net> == 2);
