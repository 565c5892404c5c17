#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/runtime/step/batch.hpp>

namespace gpipe {

/// A field of a source that fills its batches: `size` elements per sample.
struct data_field {
  std::string name{};
  std::size_t size = 1;
  dtype type = dtype::float32;
  bool unread = false;  ///< the model need not read it

  std::size_t row_bytes() const { return size * detail::bytes_of(type); }
};

/// A batch to be filled: its samples, and memory for their rows in each field.
class batch_request {
 public:
  batch_request(std::span<const int> samples, data_position position, const std::vector<data_field>& fields,
                std::vector<std::vector<std::byte>>& rows)
      : samples_(samples), position_(position), fields_(fields), rows_(rows) {}

  /// The numbers of the samples, counted from 0. Row i of every field belongs to sample `samples()[i]`.
  std::span<const int> samples() const { return samples_; }
  /// The position of the batch: an augmentation may differ from epoch to epoch.
  data_position at() const { return position_; }
  /// The rows of a field, one after the other. Throws `error` if there is no such field, or if it has another type.
  template <detail::element T>
  std::span<T> rows(std::string_view field) const {
    const std::size_t f = find(field, dtype_of<T>);
    return {reinterpret_cast<T*>(rows_[f].data()), samples_.size() * fields_[f].size};
  }
  /// The rows of a field by its number, as bytes.
  std::span<std::byte> bytes(std::size_t field) const {
    return std::span(rows_[field]).first(samples_.size() * fields_[field].row_bytes());
  }

 private:
  GPIPE_COLD std::size_t find(std::string_view name, dtype type) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].name != name) continue;
      if (fields_[f].type == type) return f;
      detail::throw_error({"field ", detail::quoted(name), " is ", name_of(fields_[f].type)}, {"fill it as that"});
    }
    std::string known;
    for (const data_field& f : fields_) known.append(known.empty() ? "" : ", ").append(f.name);
    detail::throw_error({"the source has no field ", detail::quoted(name)},
                        {"it has ", known.empty() ? "none" : known});
  }

  std::span<const int> samples_;
  data_position position_;
  const std::vector<data_field>& fields_;
  std::vector<std::vector<std::byte>>& rows_;
};

}  // namespace gpipe
