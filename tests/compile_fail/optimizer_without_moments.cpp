// expect: an optimizer of your own lacks `static constexpr int moments`
// expect: optimizer_is_complete<descent, false, true, true>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

struct descent {
  double learning_rate = 1e-3;
#ifndef GPIPE_FAIL
  static constexpr int moments = 0;
#endif
  template <class T>
  struct rule_for {
    update_operands<T> of;
    T rate;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { of.parameter[i] -= rate * of.gradient[i]; }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& of, const update_terms& now) const {
    return {of, static_cast<T>(now.rate * now.scale)};
  }
};
trainer<net, descent> training{plan_options{}};
