#pragma once

#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/step_plan.hpp>

namespace gpipe {

/// Describes the model: one line per layer with its path, type, output and parameters, and its share of the operations
/// that forward and backward declare; totals below. A tied parameter counts where it is first used.
///
///         path       layer  output  parameters   share
///            0  linear<64>      64      4.16 k   1.1 %
///     h.0.ln_1  layer_norm      64         128   0.1 %
std::string summary(const network& net);

/// The same with the stage of each layer, and the shares of the time that the plan predicts.
std::string summary(const network& net, const step_plan& plan);

// change: the summary of a plan or a model
/// `std::cout << gpipe::summary<net>();`
template <class Model>
std::string summary() {
  return summary(network_of<Model>);
}

/// The model of a training, its plan, and its groups of parameters.
template <class Training>
requires requires(const Training& t) { t.net(), t.plan().stages(), t.group_summary(); }
std::string summary(const Training& training) {
  return summary(training.net(), training.plan()) + training.group_summary();
}

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/report/model_summary-inl.hpp>
#endif
