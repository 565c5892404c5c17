#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <new>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/runtime/executor.hpp>

namespace gpipe::detail {

/// The values of a training before a load, restored if the load fails. Arrays are copied before the load overwrites
/// them, so a load needs as much host memory as the arrays that it loads. A training without a step has its first
/// values, which need no memory: they are drawn again.
///
///     keep a, write a, keep b, write b, reading c fails: put back b and a
class values_before {
 public:
  explicit values_before(executor& run) : run_(run), drawn_(run.has_first_values()) {}

  /// Copies an array that is about to be overwritten.
  GPIPE_COLD void keep(const array_location& location) {
    if (drawn_) return;
    copy& saved = copies_.emplace_back(location);
    try {
      saved.bytes = std::make_unique_for_overwrite<std::byte[]>(location.bytes);
    } catch (const std::bad_alloc&) {
      copies_.pop_back();
      throw_error(
          {"a load keeps the values before it until it is done, and there is no memory for ", location.bytes, " bytes"},
          {"load before the first step, when the values before need no memory"}, {.layer_index = location.layer_index});
    }
    run_.read_here(location, saved.bytes.get());
  }
  GPIPE_COLD void put_back() {
    if (run_.stuck()) return;
    if (drawn_) return run_.set_first_values();
    for (; !copies_.empty(); copies_.pop_back()) run_.write_here(copies_.back().location, copies_.back().bytes.get());
  }

 private:
  struct copy {
    explicit copy(const array_location& source) : location(source) {}
    array_location location;
    std::unique_ptr<std::byte[]> bytes{};
  };

  executor& run_;
  bool drawn_;
  std::deque<copy> copies_{};
};

}  // namespace gpipe::detail
