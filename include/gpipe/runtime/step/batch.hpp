#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/graph.hpp>

namespace gpipe {

namespace broken {

template <bool Holds, class... Given>
struct field_has_a_name_and_rows {
  static_assert(Holds,
                "gpipe: a field of a batch has a name, which the model reads, and the rows of all samples: "
                "batch{32}.with(\"inputs\", pixels).with(\"labels\", digits); the batch has the number of samples");
};
template <class Given, bool Holds>
struct argument_is_a_batch {
  static_assert(Holds,
                "gpipe: a call takes a batch, and was given something else. Numbers become one by "
                "batch{samples}.with(\"inputs\", values).with(\"labels\", labels); a dataset is gone through by "
                "`for (const batch& part : data.batches(32)) training.step(part);`, or by fit(training, data)");
};

}  // namespace broken

// change: step input
/// A mini-batch: named fields of the data, one row for each sample. A batch owns nothing: the arrays must live until
/// the step returns.
///
///     batch{32}.with("inputs", pixels).with("labels", digits)
class batch {
 public:
  /// A field: the rows of all samples, one after the other. `elements` counts the elements of all rows.
  struct entry {
    std::string_view name;
    const void* data = nullptr;
    std::size_t elements = 0;
    dtype type{};
    bool unread = false;  ///< the model need not read it
  };

  batch() = delete;  // gpipe: give a batch its number of samples: batch{32}
  explicit batch(int samples) : samples_(samples) {}
  // No other object becomes a batch: this is here for the error.
  template <class Given>
  requires(std::is_class_v<Given> && !std::derived_from<Given, batch>) batch(const Given&) : samples_(0) {
    static_assert(sizeof(broken::argument_is_a_batch<Given, std::derived_from<Given, batch>>) > 0);
  }

  /// `rows` is a vector, a span, an array, ... of elements.
  template <class Rows>
  batch& with(std::string_view name, const Rows& rows) {
    const detail::number_rows numbers = detail::number_rows_of(rows);
    return with(name, numbers.data, numbers.elements, numbers.type);
  }
  batch& with(std::string_view name, const void* rows, std::size_t elements, dtype type) {
    return add({name, rows, elements, type});
  }
  // A name or rows alone, or a dataset's size of a row: these are here for the error.
  template <class Given>
  batch& with(const Given&) {
    static_assert(sizeof(broken::field_has_a_name_and_rows<sizeof(Given) == 0, Given>) > 0);
    return *this;
  }
  template <class Rows>
  batch& with(std::string_view, std::size_t, const Rows&) {
    static_assert(sizeof(broken::field_has_a_name_and_rows<sizeof(Rows) == 0, std::size_t, Rows>) > 0);
    return *this;
  }
  /// A field that the model need not read, such as the samples' numbers in a database: a hook may find it here.
  template <class Rows>
  batch& with_unread(std::string_view name, const Rows& rows) {
    const detail::number_rows numbers = detail::number_rows_of(rows);
    return add({name, numbers.data, numbers.elements, numbers.type, true});
  }
  // Out of line: where g++ 12 inlines it into a chain of calls, it warns of an overflow that is none.
  GPIPE_COLD batch& add(const entry& field) {
    if (find(field.name))
      detail::throw_error({"the batch has a field ", detail::quoted(field.name), " already"}, {"give each field once"});
    entries_.push_back(field);
    return *this;
  }
  /// Names the samples in errors: sample i is the row `rows[i]` of a dataset. `rows` must live as long as the data.
  batch& named(const int* rows) {
    rows_ = rows;
    return *this;
  }
  const int* dataset_rows() const { return rows_; }

  int samples() const { return samples_; }
  const std::vector<entry>& entries() const { return entries_; }
  const entry* find(std::string_view name) const {
    for (const entry& e : entries_)
      if (e.name == name) return &e;
    return nullptr;
  }

 private:
  int samples_;
  const int* rows_ = nullptr;
  std::vector<entry> entries_;
};

namespace detail {

/// The rows that a step reads: those of the model's input and of each field of the network. The pointer of a field that
/// is missing is null: it is optional, or no layer of this process reads it.
struct batch_rows {
  int samples = 0;
  const std::byte* inputs = nullptr;
  std::vector<const std::byte*> fields;
  std::vector<bool> unknown{};        ///< [field]: it is missing, and no layer of this process reads it
  const int* dataset_rows = nullptr;  ///< see `batch::named`
  // assumes: half precision is bf16
  bf16* rounded = nullptr;  ///< buffer for the inputs of a batch of floats when the model reads bf16
};

}  // namespace detail

}  // namespace gpipe
