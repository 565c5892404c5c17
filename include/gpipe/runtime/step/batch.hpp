#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe {

/// A mini-batch: named fields of the data, a row a sample. It owns nothing: what it points to must live until the
/// step returns.
///
///     batch{32}.with("inputs", pixels).with("labels", digits)
class batch {
 public:
  /// A field: `elements` of all samples together, row after row.
  struct entry {
    std::string_view name;
    const void* data = nullptr;
    std::size_t elements = 0;
    dtype type{};
  };

  explicit batch(int samples) : samples_(samples) {}

  /// Rows are a vector, a span, an array, ... of elements.
  template <class Rows>
    requires element<std::remove_cvref_t<decltype(*std::data(std::declval<const Rows&>()))>>
  batch& with(std::string_view name, const Rows& rows) {
    return with(name, std::data(rows), std::size(rows), dtype_of<std::remove_cvref_t<decltype(*std::data(rows))>>);
  }
  batch& with(std::string_view name, const void* rows, std::size_t elements, dtype type) {
    if (find(name)) detail::refuse({"the batch has a field \"", name, "\" already"}, {"give each field once"});
    entries_.push_back({name, rows, elements, type});
    return *this;
  }

  int samples() const { return samples_; }
  const std::vector<entry>& entries() const { return entries_; }
  const entry* find(std::string_view name) const {
    for (const entry& e : entries_)
      if (e.name == name) return &e;
    return nullptr;
  }

 private:
  int samples_;
  std::vector<entry> entries_;
};

/// What a step reads of a batch: rows of the model's input and of each field of the network; null where an optional
/// field is absent.
struct batch_rows {
  int samples = 0;
  const std::byte* inputs = nullptr;
  std::vector<const std::byte*> fields;
  bf16* rounded = nullptr;  ///< room for the inputs, where a batch has floats and the model takes bf16
};

namespace detail {

GPIPE_ONCE inline const std::byte* rows_of(const batch& from, std::string_view name, std::size_t size, dtype type) {
  const batch::entry* found = from.find(name);
  if (found == nullptr) return nullptr;
  if (found->type != type)
    refuse({"field \"", name, "\" of the batch holds ", name_of(found->type), ", the model reads ", name_of(type)},
           {"convert it before the step"});
  const std::size_t wanted = size * static_cast<std::size_t>(from.samples());
  if (found->elements != wanted)
    refuse({"field \"", name, "\" of the batch has ", found->elements, " elements, but ", from.samples(),
            " samples of ", size, " are ", wanted},
           {"give every sample a whole row"});
  return static_cast<const std::byte*>(found->data);
}

GPIPE_ONCE inline std::string names_of_fields(const network& net) {
  std::string names = "inputs";
  for (int f = 0; f < net.field_count; ++f) names.append(", ").append(net.fields[f].name);
  return names;
}

inline bool is_rounded(const network& net, const batch::entry& inputs) {
  return net.values[0].part.type == dtype::bf16 && inputs.type == dtype::float32;
}
GPIPE_OUT_OF_LINE inline const std::byte* round(const std::byte* rows, std::size_t count, bf16* into) {
  for (std::size_t i = 0; i < count; ++i) into[i] = reinterpret_cast<const float*>(rows)[i];
  return reinterpret_cast<const std::byte*>(into);
}

template <class T>
void check_range(const field& wanted, const T* numbers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (numbers[i] < 0 || numbers[i] >= wanted.below)
      refuse({"field \"", wanted.name, "\" of sample ", i / wanted.size, " is ", numbers[i]},
             {"it must lie in 0 ... ", wanted.below - 1});
}

GPIPE_ONCE inline bool is_read_before(const network& net, int field, int end) {
  for (int l = 0; l < net.slot_count && l < end; ++l)
    for (int i = 0; i < net.row_of(l).field_count; ++i)
      if (net.row_of(l).field_index[i] == field) return true;
  return false;
}

// What may be left out, and is one then, weighs samples.
template <class T>
void check_weights(const field& wanted, const T* weights, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!(weights[i] >= 0))
      refuse({"field \"", wanted.name, "\" of sample ", i / wanted.size, " is ", std::to_string(weights[i])},
             {"weights are 0 or more"});
}

}  // namespace detail

/// Checks a batch against what the model reads, and that it reads all that is there: names, types, widths, the range of
/// integers. What only layers from slot `end` on read may be missing. Of a model in bf16 inputs may be floats, which
/// are rounded. Throws `error`.
GPIPE_ONCE inline void check_batch(const network& net, const batch& from, int most_samples, batch_rows& rows,
                                   int end = (std::numeric_limits<int>::max)()) {
  using detail::refuse;
  if (from.samples() < 1) refuse({"the batch is empty"}, {"give at least one sample"});
  if (from.samples() > most_samples)
    refuse({"the batch has ", from.samples(), " samples, but the plan holds ", most_samples,
            " (micro-batches times micro-batch size)"},
           {"raise the micro-batch size of the plan, or split the batch"});
  rows.samples = from.samples();
  const batch::entry* const given = from.find("inputs");
  if (given == nullptr) refuse({"the batch lacks the field \"inputs\""}, {"add it by with(\"inputs\", ...)"});
  const edge_part& entering = net.values[0].part;
  const bool rounds = detail::is_rounded(net, *given);
  rows.inputs = detail::rows_of(from, "inputs", entering.size, rounds ? dtype::float32 : entering.type);
  rows.fields.resize(static_cast<std::size_t>(net.field_count));
  for (const batch::entry& e : from.entries()) {
    bool known = e.name == "inputs";
    for (int f = 0; f < net.field_count; ++f) known = known || e.name == net.fields[f].name;
    if (!known)
      refuse({"the batch has a field \"", e.name, "\", which the model does not read"},
             {"it reads ", detail::names_of_fields(net)});
  }
  for (int f = 0; f < net.field_count; ++f) {
    const field& wanted = net.fields[f];
    const std::byte* data = detail::rows_of(from, wanted.name, wanted.size, wanted.type);
    if (data == nullptr && !wanted.optional && detail::is_read_before(net, f, end))
      refuse({"the batch lacks the field \"", wanted.name, "\""}, {"add it by with(\"", wanted.name, "\", ...)"});
    rows.fields[static_cast<std::size_t>(f)] = data;
    if (data == nullptr) continue;
    const std::size_t count = wanted.size * static_cast<std::size_t>(from.samples());
    if (wanted.optional && wanted.type == dtype::float32)
      detail::check_weights(wanted, reinterpret_cast<const float*>(data), count);
    if (wanted.optional && wanted.type == dtype::float64)
      detail::check_weights(wanted, reinterpret_cast<const double*>(data), count);
    if (wanted.optional && wanted.type == dtype::bf16)
      detail::check_weights(wanted, reinterpret_cast<const bf16*>(data), count);
    if (wanted.below == 0) continue;
    if (wanted.type == dtype::int32) detail::check_range(wanted, reinterpret_cast<const std::int32_t*>(data), count);
    if (wanted.type == dtype::uint8) detail::check_range(wanted, reinterpret_cast<const std::uint8_t*>(data), count);
  }
  if (rounds)
    rows.inputs = detail::round(rows.inputs, entering.size * static_cast<std::size_t>(from.samples()), rows.rounded);
}

}  // namespace gpipe
