// expect: non-.?constexpr.? function .*fields_differ_in_size_or_type
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <int Size>
struct reader {
  template <class In>
  struct on {
    using output = In;
    static constexpr field fields[] = {{"labels", Size, dtype::int32}};
  };
};
#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, reader<1>, reader<2>> {};
#else
struct net : model<input<float, 8>, reader<2>, reader<2>> {};
#endif
static_assert(network_of<net>.field_count == 1);
