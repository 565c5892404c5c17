// expect: gpipe: .*here they are .beta1 and .beta2
// expect: gpipe: .*.eps is the name of PyTorch. here it is .epsilon
// expect: gpipe: .*.lr is the name of PyTorch. here it is .learning_rate
// expect: an optimizer of your own lacks `static constexpr int moments`
// expect: optimizer_is_complete<without_moments, false, true, true>
// expect: an optimizer of your own lacks `double learning_rate`
// expect: optimizer_is_complete<without_rate, true, false, true>
// expect: an optimizer of your own lacks `template <class T> auto rule
// expect: optimizer_is_complete<without_rule, true, true, false>
// expect: an optimizer has more moments than gpipe::max_moments
// errors: 7
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

template <class T>
struct descent_rule {
  update_operands<T> of;
  T rate;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { of.parameter[i] -= rate * of.gradient[i]; }
};
struct descent {
  template <class T>
  descent_rule<T> rule(const update_operands<T>& of, const update_terms& now) const {
    return {of, static_cast<T>(now.rate * now.scale)};
  }
};

#ifdef GPIPE_FAIL
const adamw with_betas{.betas = {0.9, 0.95}};
const adamw with_epsilon{.eps = 1e-6};
const adamw with_rate{.lr = 1e-3};
struct without_moments : descent {
  double learning_rate = 1e-3;
};
struct without_rate : descent {
  static constexpr int moments = 0;
  double rate = 1e-3;
};
struct without_rule {
  static constexpr int moments = 0;
  double learning_rate = 1e-3;
  template <class T>
  descent_rule<T> rule(const update_operands<T>& of) const {
    return {of, T(1)};
  }
};
struct greedy : sgd {
  static constexpr int moments = 5;
};
#else
const adamw with_betas{.beta1 = 0.9, .beta2 = 0.95};
const adamw with_epsilon{.epsilon = 1e-6};
const adamw with_rate{.learning_rate = 1e-3};
struct without_moments : descent {
  double learning_rate = 1e-3;
  static constexpr int moments = 0;
};
struct without_rate : without_moments {};
struct without_rule : without_moments {};
struct greedy : sgd {
  static constexpr int moments = 4;
};
#endif
trainer<net, without_moments> first{plan_options{}};
trainer<net, without_rate> second{plan_options{}};
trainer<net, without_rule> third{plan_options{}};
detail::optimizer_update update = detail::optimizer_update::of<host::context>(greedy{});
