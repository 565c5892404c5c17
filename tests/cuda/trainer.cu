#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>

#include "support/nets.hpp"
#include "support/temporary_folder.hpp"

// Optimizers and the trainer's calls on two stages on GPUs: their numbers are the host's.

using namespace gpipe;

namespace {

struct small : model<input<float, 12>, linear<9>, layer_norm, gelu, linear<7>, softmax_cross_entropy> {};

const laws::samples<float> drawn(12, 12, 1);
const plan_options two_stages{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};

class number_list {
 public:
  template <class List>
  void add(const List& list) {
    all_.insert(all_.end(), list.begin(), list.end());
  }
  void add(const step_result& of) { add(std::vector{of.loss, of.weight, of.correct, of.norm}); }

  /// Each number is the host's, to `tolerance` of it or of 1.
  void check_near(const number_list& host, double tolerance) const {
    REQUIRE(all_.size() == host.all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      CAPTURE(i);
      CHECK(std::fabs(all_[i] - host.all_[i]) <= tolerance * (1 + std::fabs(host.all_[i])));
    }
  }

 private:
  std::vector<double> all_;
};

/// Three steps, with a group of a smaller rate and an average of the weights.
template <class Device, class Optimizer>
number_list optimized(const Optimizer& by) {
  training_options how{.seed = 3, .max_grad_norm = 0.5};
  how.groups = {{.parameters = {"*bias"}, .rate_factor = 0.25}};
  how.average_weights = 0.75;
  trainer<small, Optimizer, Device> training(two_stages, by, how);
  number_list found;
  for (int step = 0; step < 3; ++step) found.add(training.step(drawn.take(0, 6)));
  for (const auto& one : training.parameters()) {
    found.add(one.values()), found.add(one.average());
    for (int m = 0; m < Optimizer::moments; ++m) found.add(one.moment(m));
  }
  found.add(training.evaluate(drawn.take(6, 6), weights::averaged));
  return found;
}

template <class Optimizer>
void is_as_on_the_host(const Optimizer& by) {
  optimized<cuda_device>(by).check_near(optimized<host_device>(by), 1e-4);
}

/// Calls other than a plain step.
template <class Device>
number_list called(const std::string& folder) {
  training_options how{.seed = 3};
  how.digest_calls = 2, how.canary = true, how.layer_times = true, how.trace_events = 1000;
  trainer<small, adam, Device> training(two_stages, adam{.learning_rate = 0.01}, how);
  number_list found;
  const auto add_parameters = [&] {
    for (const auto& one : training.parameters()) found.add(one.values());
  };
  training.watch(1);
  training.freeze(0);
  training.accumulate(drawn.take(0, 5));
  found.add(training.step(drawn.take(5, 6)));
  found.add(training.activation(1).all()), found.add(training.activation_gradient(1).all());
  add_parameters();
  training.unfreeze(0), training.unwatch(1);
  auto bias = training.parameter(0, "bias");
  for (float& x : bias) x += 1;
  training.array(0, "bias").set(bias);
  found.add(training.step(drawn.take(0, 6)));
  training.accumulate(drawn.take(0, 6)), training.discard_accumulated();
  std::vector<std::byte> kept;
  training.keep_values(kept);
  found.add(training.step(drawn.take(3, 6)));
  training.restore_values(kept);
  add_parameters();
  found.add(training.predict(drawn.take(0, 4)).all());
  training.save(folder);
  const auto hash = training.parameter_hash();
  found.add(training.step(drawn.take(6, 6)));
  const auto after = training.parameter_hash();
  training.load(folder);
  CHECK(training.parameter_hash() == hash);
  found.add(training.step(drawn.take(6, 6)));
  CHECK(training.parameter_hash() == after);
  CHECK(training.profile_layers(drawn.take(0, 6), 2).layers.size() == 5);
  return found;
}

/// One worker has both stages. A short step has one micro-batch, so that its n-th action is of the other stage.
template <class Device>
number_list alternated() {
  plan_options one_worker = two_stages;
  one_worker.workers = 1;
  trainer<small, adam, Device> training(one_worker, adam{.learning_rate = 0.01}, {.seed = 3});
  number_list found;
  for (const int samples : {6, 1, 6}) {
    found.add(training.step(drawn.take(0, samples)));
    found.add(training.evaluate(drawn.take(6, 6)));
  }
  return found;
}

/// The error of a step with a parameter that is not finite.
template <class Device>
std::string refused() {
  trainer<small, adam, Device> training(two_stages, adam{}, {.seed = 3});
  auto weight = training.parameter(3, "weight");
  weight[5] = std::numeric_limits<float>::quiet_NaN();
  training.array(3, "weight").set(weight);
  const auto before = training.parameter_hash();
  std::string message;
  try {
    training.step(drawn.take(0, 6));
  } catch (const error& failure) {
    message = failure.what();
  }
  CHECK(training.parameter_hash() == before);
  return message;
}

}  // namespace

// change: an optimizer
TEST_CASE("each optimizer's steps are the host's, with groups and with an average of the weights") {
  is_as_on_the_host(lion{.learning_rate = 0.01});
  is_as_on_the_host(adafactor{});
#if !GPIPE_TEST_FEW  // other tests have steps of sgd, adam and adamw
  is_as_on_the_host(sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  is_as_on_the_host(adam{.learning_rate = 0.01});
  is_as_on_the_host(adamw{.learning_rate = 0.01});
  is_as_on_the_host(rmsprop{.momentum = 0.5});
  is_as_on_the_host(rmsprop_tf{});
#endif
}

TEST_CASE("the trainer's calls give the host's number_list") {
  const temporary_folder on_host, on_gpus;
  called<cuda_device>(on_gpus.path()).check_near(called<host_device>(on_host.path()), 1e-4);
}

TEST_CASE("a training on GPUs goes on on the host, and back") {
  const temporary_folder folder;
  trainer<small, adam, cuda_device> there(two_stages, adam{});
  there.step(drawn.take(0, 6));
  there.save(folder.path());
  trainer<small, adam> here({.stages = 1, .micro_batches = 1, .micro_batch_size = 6}, adam{});
  here.load(folder.path());
  CHECK(here.parameter_hash() == there.parameter_hash());
  CHECK(here.steps() == 1);
  here.step(drawn.take(0, 6));
  here.save(folder.path());
  there.load(folder.path());
  CHECK(there.parameter_hash() == here.parameter_hash());
}

TEST_CASE("a worker with stages on two GPUs times full steps and short ones") {
  alternated<cuda_device>().check_near(alternated<host_device>(), 1e-4);
}

TEST_CASE("a step that is not finite is refused as on the host, with the layer and the array") {
  const std::string message = refused<host_device>();
  CHECK(message.find("layer 3") != std::string::npos);
  CHECK(refused<cuda_device>() == message);
}
