// expect: the value of a pointwise function is called without an object, and for T
// expect: pointwise_value_takes_numbers<of_float, gpipe::math::dual<float>, false>
// expect: pointwise_value_takes_numbers<of_object, gpipe::math::dual<float>, false>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct of_float : pointwise<of_float> {
  static float value(float x) { return x * x; }
};
struct of_object : pointwise<of_object> {
  template <class T>
  T value(T x) const {
    return x * x;
  }
};
#else
struct of_float : pointwise<of_float> {  // with a formula, the function need not take a math::dual
  static float value(float x) { return x * x; }
  static float derivative(float x) { return 2 * x; }
};
struct of_object : pointwise<of_object> {
  template <class T>
  static T value(T x) {
    return x * x;
  }
};
#endif
struct net : model<input<float, 8>, of_float, of_object> {};
constexpr int layers = layers_of<net>;
