#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/array.hpp>

namespace gpipe::detail {

/// The arrays of an executor's slots by the names that the layers have for them. What has another name, another type or
/// another size is refused.
template <class Device>
class named_arrays {
 public:
  explicit named_arrays(executor<Device>& of) : of_(of) {}

  /// A copy of a parameter, of its gradient or its `index`-th moment; or of a layer's state.
  template <element T>
  std::vector<T> read(memory_kind kind, int slot, std::string_view name, int index = 0) const {
    const auto [at, size] = find<T>(kind, slot, name);
    std::vector<T> out(size);
    of_.read(kind, slot, index, at, size * sizeof(T), out.data());
    return out;
  }
  template <element T>
  void write(memory_kind kind, int slot, std::string_view name, std::span<const T> values) {
    const auto [at, size] = find<T>(kind, slot, name);
    if (values.size() != size)
      throw_error({listed(kind).one, " \"", name, "\" has ", size, " elements, not ", values.size()},
             {"give it all of them"}, place_of(of_.net(), slot));
    of_.write(kind, slot, 0, at, size * sizeof(T), values.data());
  }

  /// A hash of all parameters' bits, in model order.
  GPIPE_COLD std::uint64_t parameter_hash(int replica) const {
    hash sum;
    std::vector<std::byte> copy;
    for (int l = 0; l < of_.net().slot_count; ++l) {
      if (!of_.net().owns(l)) continue;
      const row& r = of_.net().row_of(l);
      std::size_t at = 0;
      for (int p = 0; p < r.parameter_count; ++p) {
        const std::size_t bytes = r.parameters[p].extents.size() * bytes_of(r.type);
        copy.resize(bytes);
        of_.read(memory_kind::parameters, l, 0, at, bytes, copy.data(), replica);
        sum.add(copy.data(), bytes);
        at += aligned(bytes);
      }
    }
    return sum.value();
  }

 private:
  static const listing& listed(memory_kind kind) { return kind == memory_kind::state ? of_state : of_parameters; }
  template <class T>
  std::pair<std::size_t, std::size_t> find(memory_kind kind, int slot, std::string_view name) const {
    return find_array(of_.net().row_of(known_slot(of_.net(), slot)), slot, name, dtype_of<T>, listed(kind));
  }

  executor<Device>& of_;
};

}  // namespace gpipe::detail
