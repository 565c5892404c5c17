// expect: a pointwise function needs `template <class T> static T value.T x.`
// expect: pointwise_has_value<squared, false>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct squared : pointwise<squared> {
#ifndef GPIPE_FAIL
  template <class T>
  static T value(T x) {
    return x * x;
  }
#endif
};

struct net : model<input<float, 8>, squared> {};
static_assert(network_of<net>.layer_count == 1);
