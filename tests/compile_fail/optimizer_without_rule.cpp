// expect: an optimizer of your own lacks `template <class T> auto rule
// expect: optimizer_is_complete<descent, true, true, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

struct descent {
  double learning_rate = 1e-3;
  static constexpr int moments = 0;
  template <class T>
  struct rule_for {
    update_operands<T> of;
    T rate;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { of.parameter[i] -= rate * of.gradient[i]; }
  };
  template <class T>
#ifdef GPIPE_FAIL
  rule_for<T> rule(const update_operands<T>& of) const {
    const update_terms now;
#else
  rule_for<T> rule(const update_operands<T>& of, const update_terms& now) const {
#endif
    return {of, static_cast<T>(now.rate * now.scale)};
  }
};
trainer<net, descent> training{plan_options{}};
