#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/predicted_columns.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

GPIPE_COLD inline const std::byte* rows_of(const batch& data, std::string_view name, std::size_t size, dtype type) {
  const batch::entry* found = data.find(name);
  if (found == nullptr) return nullptr;
  if (found->type != type)
    throw_error({"field \"", name, "\" of the batch holds ", name_of(found->type), ", the model reads ", name_of(type)},
                {"convert it before the step"});
  const std::size_t wanted = size * detail::index(data.samples());
  if (name != "inputs" && size > 1 && found->elements == detail::index(data.samples()))
    throw_error({"field \"", name, "\" of the batch has one element a sample, but the model reads ", size,
                 ": its layers see ", size, " rows in each sample"},
                {"if a sample is one row, put flatten before the first linear layer; else give one element a row"});
  if (found->elements != wanted)
    throw_error({"field \"", name, "\" of the batch has ", found->elements, " elements, but ", data.samples(),
                 " samples of ", size, " need ", wanted},
                {"give every sample the ", size, " elements that the model reads"});
  if (found->data == nullptr)
    throw_error({"field \"", name, "\" of the batch has no rows: their address is null"},
                {"give the address of its rows"});
  return static_cast<const std::byte*>(found->data);
}

GPIPE_COLD inline std::vector<std::string> fields_read(const network& net) {
  std::vector<std::string> names{"inputs"};
  for (int f = 0; f < net.field_count; ++f) names.emplace_back(net.fields[f].name);
  return names;
}
GPIPE_COLD inline bool reads(const network& net, std::string_view name) {
  bool known = name == "inputs";
  for (int f = 0; f < net.field_count; ++f) known = known || name == net.fields[f].name;
  return known;
}

// change: step input
/// Checks that the model reads every field of the batch that was not added by `with_unread`.
GPIPE_COLD inline void check_fields(const network& net, const batch& data) {
  for (const batch::entry& e : data.entries()) {
    if (e.unread || reads(net, e.name)) continue;
    const std::vector<std::string> known = fields_read(net);
    std::string names;
    for (const std::string& name : known) names.append(names.empty() ? "" : ", ").append(name);
    const std::string meant = meant_by(e.name, known);
    throw_error({"the batch has a field ", detail::quoted(e.name), ", which the model does not read"},
                {meant.empty() ? "" : "is it \"", meant, meant.empty() ? "" : "\"? ", "the model reads ", names,
                 "; with_unread adds a field that it need not read"});
  }
}

// assumes: half precision is bf16
inline bool is_rounded(const network& net, const batch::entry& inputs) {
  return net.values[0].part.type == dtype::bf16 && inputs.type == dtype::float32;
}
GPIPE_OUT_OF_LINE inline const std::byte* round(const std::byte* rows, std::size_t count, bf16* target) {
  for (std::size_t i = 0; i < count; ++i) target[i] = reinterpret_cast<const float*>(rows)[i];
  return reinterpret_cast<const std::byte*>(target);
}

/// The words for the sample of an error: its row of the dataset if the batch is from one, else its place in the batch.
GPIPE_COLD inline std::string name_of_sample(const int* dataset_rows, std::size_t sample) {
  if (dataset_rows == nullptr) return concat({"sample ", sample});
  return concat({"row ", dataset_rows[sample], " of the dataset"});
}

/// The element of a sample in an error, if a sample has several: `, at position 17,`.
GPIPE_COLD inline std::string name_of_position(std::size_t elements, std::size_t i) {
  return elements > 1 ? concat({", at position ", i % elements, ","}) : "";
}

template <class T>
void check_range(const field& wanted, const T* numbers, std::size_t count, const int* dataset_rows) {
  for (std::size_t i = 0; i < count; ++i)
    if ((numbers[i] < 0 || numbers[i] >= wanted.below) && (numbers[i] != wanted.ignored || wanted.ignored == no_label))
      throw_error({"field \"", wanted.name, "\" of ", name_of_sample(dataset_rows, i / wanted.size),
                   name_of_position(wanted.size, i), " is ", numbers[i]},
                  {"it must lie in 0 ... ", wanted.below - 1,
                   wanted.ignored == no_label || (wanted.ignored >= 0 && wanted.ignored < wanted.below)
                       ? ""
                       : concat({", or be ", wanted.ignored, ", which is ignored"})});
}

// Floats may be equal to the limit: labels that are probabilities.
template <class T>
void check_share(const field& wanted, const T* numbers, std::size_t count, const int* dataset_rows) {
  for (std::size_t i = 0; i < count; ++i)
    if (!(numbers[i] >= 0 && numbers[i] <= static_cast<compute_type<T>>(wanted.below)) ||
        is_nan(static_cast<compute_type<T>>(numbers[i])))
      throw_error({"field \"", wanted.name, "\" of ", name_of_sample(dataset_rows, i / wanted.size), " is ",
                   std::to_string(numbers[i])},
                  {"it must lie in 0 ... ", wanted.below});
}

/// The layers that run in this process; all, without a job.
struct local_layers {
  std::vector<bool> layers{};  ///< empty: all
  int rank = -1;               ///< of this process in its job

  bool has(int layer) const { return layers.empty() || layers[index(layer)]; }
};

GPIPE_COLD inline bool inputs_are_read(const network& net, const local_layers& local) {
  for (int l = 0; l < net.layer_count; ++l)
    for (int i = 0; local.has(l) && i < net.type_of(l).inputs; ++i)
      if (net.reads_value(l, i) < net.entering) return true;
  return false;
}
GPIPE_COLD inline bool is_read_before(const network& net, int field, int end, const local_layers& local) {
  for (int l = 0; l < net.layer_count && l < end; ++l) {
    if (!local.has(l)) continue;
    // A prediction runs no loss, and no forward of layers that make its columns.
    if (end < net.layer_count && (net.type_of(l).auxiliary_loss() || makes_columns(net, l))) continue;
    for (int i = 0; i < net.type_of(l).field_count; ++i)
      if (net.type_of(l).field_index[i] == field) return true;
  }
  return false;
}

// Optional fields are the weights of samples.
template <class T>
void check_weights(const field& wanted, const T* weights, std::size_t count, const int* dataset_rows) {
  for (std::size_t i = 0; i < count; ++i)
    if (!(weights[i] >= 0) || is_nan(static_cast<compute_type<T>>(weights[i])))
      throw_error({"field \"", wanted.name, "\" of ", name_of_sample(dataset_rows, i / wanted.size), " is ",
                   std::to_string(weights[i])},
                  {"choose 0 or more"});
}

/// Checks a batch against the fields of the model: names, types, row sizes, ranges of integers. The model must read
/// every field of the batch that was not added by `with_unread`. A field may be missing if no layer of this process
/// before layer `end` reads it. A model in bf16 accepts inputs that are floats, and rounds them. Throws `error`.
GPIPE_COLD inline void check_batch(const network& net, const batch& data, int max_batch, batch_rows& rows,
                                   int end = (std::numeric_limits<int>::max)(), const local_layers& local = {}) {
  using detail::throw_error;
  if (data.samples() < 1) throw_error({"the batch is empty"}, {"give at least one sample"});
  if (data.samples() > max_batch)
    throw_error({"the batch has ", data.samples(), " samples, but the plan holds ", max_batch,
                 " (micro-batches times micro-batch size)"},
                {"raise the micro-batch size of the plan, or split the batch"});
  rows.samples = data.samples();
  rows.dataset_rows = data.dataset_rows();
  detail::check_fields(net, data);
  const auto lacks = [&](const char* name) {
    throw_error({"the batch lacks the field \"", name, "\"",
                 local.rank < 0 ? "" : concat({", which layers of rank ", local.rank, " read"})},
                {"add it by with(\"", name, "\", ...)"});
  };
  const batch::entry* const given = data.find("inputs");
  if (given == nullptr && inputs_are_read(net, local)) lacks("inputs");
  const edge_part& entering = net.values[0].part;
  const bool rounds = given != nullptr && detail::is_rounded(net, *given);
  rows.inputs = given == nullptr
                    ? nullptr
                    : detail::rows_of(data, "inputs", entering.size, rounds ? dtype::float32 : entering.type);
  if (const std::int64_t below = net.values[0].below; below > 0 && given != nullptr) {
    const field tokens{"inputs", entering.size, entering.type, below};
    const std::size_t count = entering.size * detail::index(data.samples());
    // change: an element type; of tokens
    if (!is_floating(entering.type))
      visit_dtype<std::int32_t, std::uint8_t>(entering.type, [&]<class T>() {
        check_range(tokens, reinterpret_cast<const T*>(rows.inputs), count, rows.dataset_rows);
      });
  }
  rows.fields.resize(detail::index(net.field_count));
  rows.unknown.resize(detail::index(net.field_count));
  for (int f = 0; f < net.field_count; ++f) {
    const field& wanted = net.fields[f];
    const std::byte* field_rows = detail::rows_of(data, wanted.name, wanted.size, wanted.type);
    const bool unknown = field_rows == nullptr && !detail::is_read_before(net, f, end, local);
    if (field_rows == nullptr && !unknown && !wanted.optional) lacks(wanted.name);
    rows.unknown[detail::index(f)] = unknown;
    rows.fields[detail::index(f)] = field_rows;
    if (field_rows == nullptr) continue;
    const std::size_t count = wanted.size * detail::index(data.samples());
    visit_dtype(wanted.type, [&]<class T>() {
      const T* const numbers = reinterpret_cast<const T*>(field_rows);
      if constexpr (is_floating(dtype_of<T>)) {
        if (wanted.optional) check_weights(wanted, numbers, count, rows.dataset_rows);
        if (wanted.below != 0) check_share(wanted, numbers, count, rows.dataset_rows);
      } else {
        if (wanted.below != 0) check_range(wanted, numbers, count, rows.dataset_rows);
      }
    });
  }
  if (rounds) rows.inputs = detail::round(rows.inputs, entering.size * detail::index(data.samples()), rows.rounded);
}

/// Details of a call in addition to its kind and its batch.
struct call_terms {
  int samples_before = 0;  ///< of the mini-batch, in accumulated calls; rows before those of a prediction
  tensor_rows* predicted = nullptr;
  bool captured = false;
};

// change: step input
/// Begins each call: checks its batch and sets the step that all stages see. Holds buffers for the largest batch, so
/// that a call allocates nothing.
class step_input {
 public:
  GPIPE_COLD step_input(const network& net, const step_plan& plan, step_context& step, local_layers local = {})
      : net_(net), plan_(plan), step_(step), local_(std::move(local)) {
    step.forward_only = !plan.trains;
    step.rows.fields.resize(index(net.field_count));
    step.rows.unknown.resize(index(net.field_count));
    if (const edge_part& entering = net.values[0].part; entering.type == dtype::bf16)
      rounded_.resize(entering.size * index(plan.max_batch()));
  }

  void require_training() const {
    require_loss();
    if (!plan_.trains) throw_error({"the schedule ", plan_.schedule, " has no backward"}, {"train with another one"});
  }
  void require_loss() const {
    if (net_.loss_layer() < 0)
      throw_error({"the model has no loss"}, {"end it with a layer such as softmax_cross_entropy"});
  }

  /// Throws `error` if the batch is invalid; the step is then unspecified until the next call begins.
  GPIPE_COLD void begin(pass_kind kind, const batch& data, const call_terms& terms = {}) {
    const bool forward = kind == pass_kind::evaluate || kind == pass_kind::predict;
    if (!forward && data.samples() > 0 && data.samples() < plan_.min_batch())
      throw_error(
          {"a batch of ", several(data.samples(), "sample"), " is too small for ", plan_.replicas(), " replicas"},
          {"give at least one sample to each, or choose fewer replicas"});
    step_.began_ns = now_ns();
    step_.rows.rounded = rounded_.data();
    const int every_layer = (std::numeric_limits<int>::max)();
    check_batch(net_, data, plan_.max_batch(), step_.rows, kind == pass_kind::predict ? net_.loss_layer() : every_layer,
                local_);
    step_.begin(kind);
    step_.samples_before = terms.samples_before;
    step_.predicted = terms.predicted;
    step_.captured = terms.captured;
    step_.per_micro_batch = (data.samples() + plan_.all_micro_batches() - 1) / plan_.all_micro_batches();
  }

 private:
  const network& net_;
  const step_plan& plan_;
  step_context& step_;
  const local_layers local_;
  // assumes: half precision is bf16
  std::vector<bf16> rounded_;  // inputs of a batch of floats, for a model that reads bf16
};

}  // namespace gpipe::detail
