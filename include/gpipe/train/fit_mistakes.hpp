#pragma once

#include <concepts>
#include <type_traits>

#include <gpipe/train/data/data_source.hpp>

// Mistaken calls of `fit`, and the error messages for them.

namespace gpipe {

struct fit_options;
struct fit_result;

namespace broken {

template <class Given, bool Holds>
struct fit_has_a_batch {
  static_assert(Holds, "gpipe: .batch_size of fit is .batch here: fit(training, data, {.epochs = 10, .batch = 32})");
};
template <class Given, bool Holds>
struct fit_has_epochs {
  static_assert(Holds, "gpipe: .num_epochs of fit is .epochs here: fit(training, data, {.epochs = 10, .batch = 32})");
};
template <class Given, bool Holds>
struct fit_shuffles {
  static_assert(Holds,
                "gpipe: fit has no .shuffle: it reads the samples in an order that is a function of its .seed and of "
                "the epoch");
};
template <class Given, bool Holds>
struct fit_has_no_rate {
  static_assert(Holds,
                "gpipe: fit has no learning rate: it is the optimizer's, adamw{.learning_rate = 1e-3}, and "
                "training_options{.learning_rate_schedule} changes it from step to step");
};
template <class Second, bool Holds>
struct fit_begins_with_the_trainer {
  static_assert(Holds, "gpipe: fit takes the trainer first: fit(training, data), or fit(training, data, held_out)");
};

template <class Given, bool Holds>
struct fit_takes_data {
  static_assert(Holds,
                "gpipe: fit takes a dataset or another source of batches, and was given something else: "
                "fit(training, dataset{}.with(\"inputs\", 64, pixels).with(\"labels\", 1, digits))");
};
template <class Given, bool Holds>
struct fit_calls_a_function {
  static_assert(Holds,
                "gpipe: behind the options stands the function that fit calls after each step, [](const fit_progress& "
                "now) { ... }; held-out data stand before the options");
};
template <class Returned, bool Holds>
struct fit_goes_on_or_stops {
  static_assert(Holds,
                "gpipe: the function that fit calls returns loop_control::go or loop_control::stop, or nothing; a bool "
                "or a number says neither");
};
template <class Given, bool Holds>
struct fit_takes_options {
  static_assert(Holds, "gpipe: the number of epochs is an option of fit: fit(training, data, {.epochs = 10})");
};

}  // namespace broken

// No source of data, and a number in place of the options. fit_result is incomplete here, so it is a parameter.
template <class Trainer, class Given, class... More, class Result = fit_result>
requires(!std::derived_from<Trainer, data_source> && !std::derived_from<Given, data_source>) Result
    fit(Trainer&, const Given&, const More&...) {
  static_assert(sizeof(broken::fit_takes_data<Given, std::derived_from<Given, data_source>>) > 0);
  return {};
}
template <class Trainer, class Given, class Result = fit_result>
requires(!std::derived_from<Trainer, data_source> && !std::derived_from<Given, data_source>) Result
    fit(Trainer&, const Given&, const fit_options&) {  // options in braces
  static_assert(sizeof(broken::fit_takes_data<Given, std::derived_from<Given, data_source>>) > 0);
  return {};
}
template <class Trainer, class Number, class Result = fit_result>
requires std::is_arithmetic_v<Number> Result fit(Trainer&, const data_source&, Number) {
  static_assert(sizeof(broken::fit_takes_options<Number, std::is_class_v<Number>>) > 0);
  return {};
}
// The data before the trainer.
template <class Second, class Result = fit_result>
requires(!std::derived_from<Second, data_source>) Result fit(const data_source&, Second&) {
  static_assert(sizeof(broken::fit_begins_with_the_trainer<Second, std::derived_from<Second, data_source>>) > 0);
  return {};
}
template <class Second, class Result = fit_result>
requires(!std::derived_from<Second, data_source>) Result fit(const data_source&, Second&, const fit_options&) {
  static_assert(sizeof(broken::fit_begins_with_the_trainer<Second, std::derived_from<Second, data_source>>) > 0);
  return {};
}

}  // namespace gpipe
