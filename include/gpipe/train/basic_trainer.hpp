#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/rate.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/train/checkpoint/checkpoint_options.hpp>
#include <gpipe/train/data/data_source.hpp>
#include <gpipe/train/model_array.hpp>

namespace gpipe {

class executor;

namespace broken {

template <class Given, bool Holds>
struct array_has_a_path {
  static_assert(Holds,
                "gpipe: an array is named by its path, parameter(\"h.0.ln_1.weight\"), or by the layer's position and "
                "its name there, parameter(3, \"weight\")");
};

}  // namespace broken

namespace detail {

/// The memory and the thread that a trainer keeps between saves.
struct saving;

/// Saves and loads. Only <gpipe/checkpoint.hpp> completes it.
struct trainer_checkpoints;

class token_generator;

/// Destroys an executor, or keeps it until the process ends if a kernel in it does not return: that thread still uses
/// the executor's memory.
struct keep_stuck {
  void operator()(executor* run) const;
};

/// Each training has one. A training that was moved from has none, and its calls throw `error`.
class executor_owner : public std::unique_ptr<executor, keep_stuck> {
 public:
  using std::unique_ptr<executor, keep_stuck>::unique_ptr;

  executor& operator*() const {
    if (this->get() == nullptr) throw_moved();
    return *this->get();
  }
  executor* operator->() const { return &**this; }

 private:
  [[noreturn]] GPIPE_COLD static void throw_moved() {
    throw_error({"the training was moved to another object"}, {"use that one"});
  }
};

/// The source of a trainer's plan.
struct plan_source {
  plan_options options;
  /// A plan made at run time, with the cut and the job of the training; else null.
  plan_maker made = nullptr;
  /// A plan made by the compiler: its arrays, and its cut, with which another plan is made for a job.
  step_plan (*constant)(const network& net, const plan_options& options) = nullptr;
  std::span<const int> cut{};
};

/// The further plans of a training whose model has several lengths.
struct shorter_lengths {
  struct length {
    int tokens;
    const network* net;
    const kernel_row* kernels;
  };
  std::span<const length> lengths{};  ///< without the longest, the shortest first; empty: the model has one length
  int longest = 0;
  const bool* derives_anew = nullptr;  ///< see `length_plan`
  plan_maker made = nullptr;           ///< for the cut of the longest
};

/// A value for code after an error: never defined, it only lets an erroneous program be compiled to its end.
template <class T>
T never();

}  // namespace detail

/// The weights that a forward pass uses: the current ones, or their moving average.
enum class weights : std::uint8_t { current, averaged };

// change: a trainer call
// assumes: one kind of device
/// The part of a trainer that depends neither on the model's type nor on the optimizer's. The definitions are in
/// basic_trainer-inl.hpp.
class basic_trainer {
 public:
  using step_hook = std::function<void(const step_result&, std::uint64_t steps)>;

  /// A training moves without its arrays: handles of them stay valid. The other can be destroyed or assigned.
  basic_trainer(basic_trainer&&) noexcept;
  basic_trainer& operator=(basic_trainer&&) noexcept;

  /// One step over a batch of 1 to R x M x B samples, and at least one for each replica: forward, backward, update. The
  /// learning rate is the schedule's for this step, or `rate`. Throws `error` and leaves parameters, moments, state and
  /// step count as they were. A model of several `lengths` runs the plan that fits the batch's rows, as do
  /// all calls that take a batch.
  step_result step(const batch& data) { return step(data, rate()); }
  step_result step(const batch& data, double rate);

  /// Forward and backward over a part of the next step's mini-batch. Call `accumulate` once for each part but the last:
  /// the next `step` adds the last part and divides by the weight of all. The result covers the mini-batch so far, as
  /// the result of `step` covers all of it. Dropout sees one mini-batch: the position of a sample counts on from call
  /// to call. Averages that layers keep, such as batch_norm's, move at the step, by all samples of the mini-batch.
  ///
  /// Throws `error`. If the batch is refused, nothing has changed. If the call, or the step, fails later, everything
  /// accumulated is dropped, as the error reports: gradients are summed in place, and no copy is kept.
  step_result accumulate(const batch& data);
  /// The number of accumulated calls that wait for the next step.
  int accumulated() const;
  void discard_accumulated();

  /// Calls `hook(step_result, steps)` after every step that succeeds; `steps` counts that step. The hook may read and
  /// evaluate, set parameters, and add hooks. If the hook throws, `step` throws the same, and the step stays taken.
  void on_step(step_hook hook);

  /// Times of each layer for one micro-batch, for `plan_options{.profile = costs.view()}`: medians over `steps` steps
  /// that change nothing but the gradients. The batch fills a micro-batch: it has more than R x M x (B - 1) samples.
  measured_profile profile_layers(const batch& data, int steps = 10);
  /// The same from the steps taken, the newest first, if the training has `layer_times`.
  measured_profile layer_profile() const;

  /// The learning rate of the next step.
  double rate() const;

  /// Freezes a layer, or the layers [first, last), from the next call on: their parameters and moments do not change.
  /// Their gradients are zero, cost nothing, and do not count in the norm.
  void freeze(int layer) { freeze(layer, layer + 1); }
  void freeze(int first, int last) { set_frozen(first, last, true); }
  void unfreeze(int layer) { unfreeze(layer, layer + 1); }
  void unfreeze(int first, int last) { set_frozen(first, last, false); }

  /// Forward only, without dropout: mean loss and accuracy of a batch, or of a whole dataset.
  step_result evaluate(const batch& data, weights choice = weights::current);
  step_result evaluate(const data_source& data, weights choice = weights::current);

  /// The loss's inputs, such as a classifier's logits: one row per sample, in the order of the data, of a batch or of a
  /// dataset of any length. Runs forward, without dropout, up to the loss, so labels may be missing. If the loss reads
  /// several tensors, the rows hold them all. All batches of a dataset have one length.
  tensor_rows predict(const batch& data, weights choice = weights::current);
  tensor_rows predict(const data_source& data, weights choice = weights::current);

  /// Copies the outputs of a layer, and their gradients, out of every call from now on. `activation` has the rows of
  /// the last call of `step`, `accumulate`, `evaluate` or `predict`; for a dataset, the rows of its last batch. It has
  /// none if that call failed or, as `predict` may, ended before the layer. `activation_gradient` has rows if there was
  /// a backward: the gradient of the loss summed over samples. This call allocates the memory, for M x B samples.
  void watch(int layer) { set_watched(layer, true); }
  void unwatch(int layer) { set_watched(layer, false); }
  const tensor_rows& activation(int layer) const;
  const tensor_rows& activation_gradient(int layer) const;

  /// Hashes of all results of the first `digest_calls` calls: see `first_difference`.
  const gpipe::digest& digest() const;

  /// A parameter, or an array of a layer's state, such as the moving mean of batch_norm: by its path, such as
  /// "h.0.ln_1.weight", or by the layer's position and the array's name in the layer, such as "weight". Throws `error`
  /// if the model has no such array; for a path, the error names the nearest one.
  model_array array(std::string_view path) { return find(array_kind::parameter, path); }
  model_array array(int layer, std::string_view name) { return find(array_kind::parameter, layer, name); }
  model_array state_array(std::string_view path) { return find(array_kind::state, path); }
  model_array state_array(int layer, std::string_view name) { return find(array_kind::state, layer, name); }
  // A layer's position without a name, since 0 would be a null pointer to a path: here for the error.
  template <std::integral Layer>
  model_array array(Layer layer) {
    return find(array_kind::parameter, layer);
  }
  template <std::integral Layer>
  model_array state_array(Layer layer) {
    return find(array_kind::state, layer);
  }
  /// Copies of values, named in the same two ways: `parameter(path)` is `array(path).values()`.
  template <detail::element T = float, class... Key>
  std::vector<T> parameter(const Key&... key) const {
    return find(array_kind::parameter, key...).template values<T>();
  }
  template <detail::element T = float, class... Key>
  std::vector<T> gradient(const Key&... key) const {
    return find(array_kind::parameter, key...).template gradient<T>();
  }
  template <detail::element T = float, class... Key>
  std::vector<T> state(const Key&... key) const {
    return find(array_kind::state, key...).template values<T>();
  }
  template <detail::element T = float>
  std::vector<T> moment(std::string_view path, int index) const {
    return find(array_kind::parameter, path).template moment<T>(index);
  }
  /// `set_parameter(path, values)` is `array(path).set(values)`.
  template <class Values>
  void set_parameter(std::string_view path, const Values& values) {
    array(path).set(values);
  }
  template <class Values>
  void set_parameter(int layer, std::string_view name, const Values& values) {
    array(layer, name).set(values);
  }
  /// Every parameter and every part of a layer's state, in model order.
  std::vector<model_array> parameters();
  /// The groups of parameters in words, one line per group; empty without groups. `summary(training)` ends with it.
  std::string group_summary() const;

  /// Saves a checkpoint: parameters, state, the optimizer's arrays, the step count, the seed and the frozen paths. It
  /// is the folder `path`/step-00000120, which appears when it is complete and on the disk. PyTorch's `load_state_dict`
  /// takes the `model.safetensors` in it. If `path` ends with .safetensors, the model alone is saved, in that file,
  /// with the names and layouts of `save_options::names`; this call always waits.
  ///
  /// Throws `error` if the save fails. Earlier checkpoints stay as they were, and the training can continue. Include
  /// <gpipe/checkpoint.hpp> to call this, `wait_for_save` or `load`.
  template <class Checkpoints = detail::trainer_checkpoints>
  void save(const std::string& path, const save_options& options = {}) {
    checkpoints<Checkpoints>([&]<class Calls>(Calls) { Calls::save(*this, path, options); });
  }
  /// Waits for a background save, and throws its error.
  template <class Checkpoints = detail::trainer_checkpoints>
  void wait_for_save() {
    checkpoints<Checkpoints>([&]<class Calls>(Calls) { Calls::wait(*this); });
  }
  /// Loads the newest checkpoint of a folder, a checkpoint's folder, or the model alone from a .safetensors file or an
  /// index of such files. From a checkpoint the training continues with the same bits as the saved one, for every
  /// number of stages, schedule and transport: the load also sets the seed, and what is frozen. Values are converted to
  /// the model's type. A folder whose newest checkpoint cannot be read is an error, unless `load_options::allow_older`
  /// is set.
  ///
  /// Throws `error`, which lists names, if the file is not this model's or not this optimizer's, or cannot be read to
  /// its end. Then nothing has changed: arrays are copied before a load overwrites them, which takes as much memory as
  /// they have, unless the training still has its first values.
  template <class Checkpoints = detail::trainer_checkpoints>
  load_result load(const std::string& path, const load_options& options = {}) {
    return checkpoints<Checkpoints>([&]<class Calls>(Calls) { return Calls::load(*this, path, options); });
  }
  template <class Checkpoints = detail::trainer_checkpoints>
  load_result load(const std::string& path, load_mode mode) {
    return load<Checkpoints>(path, load_options{mode, {}});
  }

  /// Copies all parameters and the state of all layers, in model order, and sets them again: bit for bit, in any cut of
  /// the same model. `values` is resized once and then used again.
  void keep_values(std::vector<std::byte>& values) const;
  void restore_values(std::span<const std::byte> values);
  /// The same for the arrays of this process: its share in a job, else all. Only a plan with the same stages in this
  /// process can restore them. No process waits for another one.
  void keep_own_values(std::vector<std::byte>& values) const;
  void restore_own_values(std::span<const std::byte> values);

  /// A hash of the bits of all parameters, in model order: the same for every cut, and of every replica.
  std::uint64_t parameter_hash(int replica = 0) const;

  /// The network of the model, or of its longest length.
  const network& net() const;
  /// The plan that runs: its cut, costs and memory. A model of several lengths has the plan of the longest, with the
  /// memory of the largest.
  const step_plan& plan() const;
  /// The fewest samples of a step's batch.
  int min_batch() const { return plan().min_batch(); }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const;
  /// The times of each stage, of replica after replica, in all steps since the last `reset_report`. For `write_report`.
  const std::vector<stage_report>& report() const;
  /// The events of each worker since the last `reset_report` or `reset_trace`, at most `trace_events` of them.
  const std::vector<recorder>& trace() const;
  void reset_report();
  void reset_trace();
  /// The executor of the plan, for what a trainer does not pass on. Include <gpipe/runtime/executor.hpp> to use it.
  const gpipe::executor& executor() const { return *executor_; }

 protected:
  basic_trainer(const detail::device_functions& device, const network& net, const detail::kernel_row* kernels,
                const detail::plan_source& plan, const detail::optimizer_update& update, double learning_rate,
                const training_options& settings, const detail::shorter_lengths& shorter = {});
  ~basic_trainer();

 private:
  model_array handle(const detail::named_array& array) const;
  model_array find(array_kind kind, std::string_view path) const;
  model_array find(array_kind kind, int layer, std::string_view name) const;
  // A layer's position without a name: here for the error.
  template <class Given, class = std::enable_if_t<!std::is_convertible_v<Given, std::string_view>>>
  model_array find(array_kind, const Given&) const {
    static_assert(sizeof(broken::array_has_a_path<Given, sizeof(Given) == 0>) > 0);
    return find(array_kind::parameter, std::string_view());
  }
  void set_frozen(int first, int last, bool frozen);
  void set_watched(int layer, bool watched);

  friend detail::trainer_checkpoints;
  friend class detail::token_generator;
  template <class Checkpoints, class Call>
  decltype(auto) checkpoints(Call&& call) {
    using calls = Checkpoints;
    static_assert(detail::included<calls>,
                  "gpipe: a training is saved and loaded by another header: #include <gpipe/checkpoint.hpp>");
    if constexpr (detail::included<calls>) return call(calls{});
  }

  double learning_rate_, max_grad_norm_;
  rate_schedule schedule_;
  std::vector<std::vector<bool>> frozen_;          // [layer][its own parameter]
  std::vector<std::unique_ptr<step_hook>> hooks_;  // a hook that adds another stays where it is
  std::string optimizer_name_;
  double optimizer_trial_;
  std::shared_ptr<detail::saving> saving_;  // null before the first save; assigned before the executor that it reads
  detail::executor_owner executor_;
};

}  // namespace gpipe
