#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/hooks/activation_recorder.hpp>
#include <gpipe/runtime/hooks/canary.hpp>
#include <gpipe/runtime/hooks/nonfinite_finder.hpp>

namespace gpipe::detail {

/// The timed parts of a layer; `backward` is both parts at once.
enum class timed : std::uint8_t { forward, backward_input, backward_parameters, backward };

/// The times of each layer of a stage: the newest times of each part. Allocates at construction only.
class layer_timer {
 public:
  explicit layer_timer(int layers) : series_(static_cast<std::size_t>(4 * layers)) {
    for (series& s : series_) s.newest.resize(kept);
  }

  void add(int layer, timed part, std::int64_t ns) noexcept {
    series& s = series_[index(layer, part)];
    s.newest[s.count++ % kept] = ns;
  }

  /// The median of the newest calls; -1 if there were none.
  GPIPE_COLD std::int64_t median(int layer, timed part) const {
    const series& s = series_[index(layer, part)];
    if (s.count == 0) return -1;
    std::vector<std::int64_t> sorted = s.newest;
    sorted.resize((std::min)(s.count, kept));
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  static constexpr std::size_t kept = 256;
  struct series {
    std::vector<std::int64_t> newest;
    std::size_t count = 0;
  };
  static std::size_t index(int layer, timed part) {
    return 4 * static_cast<std::size_t>(layer) + static_cast<std::size_t>(part);
  }

  std::vector<series> series_;  // [layer][part]
};

/// Code that runs between the layers of a stage: `nonfinite_finder` in a diagnosis, `activation_recorder` for watched
/// layers and digests, `canary`, and `layer_timer`. All are off by default; then a hook is one branch that is not
/// taken.
///
///     before_forward  | forward        |                                           | after_forward
///     before_backward | input part     | ran_input_part, sums with other readers'  | after_input_part
///                     | parameter part | ran_parameter_part                        | after_parameter_part
class layer_hooks {
 public:
  using bound = bound_layer;
  using bound_layers = std::vector<bound>;

  /// `context` is the stage's.
  layer_hooks(const device_context& context, const network& net, const step_plan& plan, int stage)
      : context_(context), net_(net), plan_(plan), stage_(stage), recorder_(net, plan.options.optimizer_moments) {}

  /// Called once the stage is bound.
  GPIPE_COLD void use_canary(const bound_layers& layers) {
    canary_.emplace(stage_view(net_, plan_.cut(), stage_), plan_.requirements(stage_), layers);
  }
  GPIPE_COLD void time_layers(bool enabled) {
    if (!enabled) timer_.reset();
    else if (!timer_) timer_ = std::make_unique<layer_timer>(plan_.cut().first[stage_ + 1] - first());
  }
  const layer_timer* timer() const { return timer_.get(); }
  void record_in(digest& target) {
    recorder_.record_in(target);
    recorded_ = true;
  }
  /// The set of watched layers has changed.
  void update_watched(const bound_layers& layers) {
    recorded_ = recorder_.has_digest();
    for (const bound& b : layers) recorded_ = recorded_ || b.watched != nullptr;
  }

  /// A hook runs between two micro-batches, so their parameter parts must not run together.
  bool need_each_micro_batch(const step_context& step) const { return recorded_ || step.diagnoses() || canary_; }

  void before_forward(const bound& b, const step_context& step, int m, bool recompute) const {
    if (step.diagnoses()) finder().check_inputs(b, step, m, recompute);
  }
  void after_forward(const bound& b, const call& done, const step_context& step, int m) {
    if (step.diagnoses()) finder().check_outputs(b, step, m, done);
    if (recorded_ && !done.recompute) recorder_.after_forward(context_, b, done, step, m);
    if (canary_) canary_->after_forward(context_, b.layer_index, m, done.recompute);
  }

  /// Called when the gradients of the outputs are complete.
  void before_backward(const bound& b, const step_context& step, int m) const {
    if (recorded_) recorder_.before_backward(context_, b, step, m);
  }
  /// Called when the layer has computed its part of its inputs' gradients, before it is added to the other readers'
  /// parts.
  void ran_input_part(const bound& b, const step_context& step, int m) {
    if (recorded_) recorder_.after_input_part(context_, b, step, m);
  }
  void ran_parameter_part(const bound& b, const step_context& step, int m) {
    if (recorded_) recorder_.after_parameter_part(context_, b, step, m);
  }
  /// Also called for a layer without this part.
  void after_input_part(const bound& b, const step_context& step, int m) const {
    if (step.diagnoses()) finder().check_input_part(b, step, m);
    if (canary_) canary_->after_input_part(context_, b.layer_index, m);
  }
  void after_parameter_part(const bound& b, const step_context& step, int m) const {
    if (step.diagnoses()) finder().check_parameter_part(b, step, m);
    if (canary_) canary_->after_parameter_part(context_, b.layer_index, m);
  }
  /// Called for a layer whose two parts run one after the other.
  void after_both_parts(const bound& b, const step_context& step, int m) const {
    if (step.diagnoses()) finder().check_input_part(b, step, m), finder().check_parameter_part(b, step, m);
    if (canary_) canary_->after_input_part(context_, b.layer_index, m);
  }
  /// Called when all layers have run. Only then are the buffers for parameter parts dead: an earlier layer may still
  /// read a buffer that a later one held for it.
  void after_backward(const bound_layers& layers, int m) const {
    if (!canary_) return;
    for (const bound& b : layers) canary_->after_parameter_part(context_, b.layer_index, m);
  }
  /// `moments`: the moments of the layer's first parameter, `stride` bytes apart.
  void after_update(const bound& b, const std::byte* moments, std::size_t stride) {
    if (recorded_) recorder_.after_update(context_, b, moments, stride);
  }

  /// Runs a part of a layer on `group` micro-batches, the first of which is m, and records their mean time.
  template <class Run>
  void time(const bound& b, timed part, const step_context& step, int m, Run&& run, int group = 1) {
    const std::int64_t begin = timer_ ? finished_ns() : 0;
    run();
    if (timer_) record_time(b, part, step, m, group, begin);
  }

 private:
  // A timed step waits for its device before and after each part.
  GPIPE_OUT_OF_LINE std::int64_t finished_ns() const {
    context_.finish();
    return now_ns();
  }
  GPIPE_OUT_OF_LINE void record_time(const bound& b, timed part, const step_context& step, int m, int group,
                                     std::int64_t begin) {
    const std::int64_t end = finished_ns();
    if (step.samples(m + group - 1) == plan_.options.micro_batch_size)
      timer_->add(b.layer_index - first(), part, (end - begin) / group);
  }
  nonfinite_finder finder() const { return {context_, net_, stage_}; }
  int first() const { return plan_.cut().first[stage_]; }

  const device_context& context_;
  const network& net_;
  const step_plan& plan_;
  int stage_;
  bool recorded_ = false;  ///< there is a digest, or a layer is watched
  activation_recorder recorder_;
  std::optional<canary> canary_;
  std::unique_ptr<layer_timer> timer_;
};

}  // namespace gpipe::detail
