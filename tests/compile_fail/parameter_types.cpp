// expect: non-.?constexpr.? function .*parameters_differ_in_type
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class T>
struct trained {
  template <class In>
  struct on {
    using output = In;
    using value_type = T;
    static constexpr parameter parameters[] = {{"weight", {3}}};
  };
};
#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, trained<float>, trained<double>> {};
#else
struct net : model<input<float, 8>, trained<double>, trained<double>> {};
#endif
static_assert(network_of<net>.type == dtype::float64);
