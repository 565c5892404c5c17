#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/link/link_channels.hpp>

namespace gpipe::detail {

/// The part of a replica that is in this process: the interface for the code between processes. It is the same for all
/// devices, so that this code is compiled once.
class replica_part {
 public:
  virtual int number() const = 0;
  virtual bool has(int stage) const = 0;
  /// The blocks of each stage; null for a stage of another process.
  virtual const std::vector<const detail::arena_map*>& maps() const = 0;
  /// The device queue of each stage: its memory is used in the order of this queue. Null: the stage is in host memory.
  virtual std::vector<const void*> queues() const = 0;
  /// The ends of a link's channels.
  virtual remote_end& activations(std::size_t link) = 0;
  virtual remote_end& gradients(std::size_t link) = 0;

  struct range {
    std::byte* begin;
    std::size_t bytes;
  };
  /// The following functions take a stage of this process. Its gradients: first of the parameters that it owns, and
  /// then of each tied use in the order of layers.
  virtual std::vector<range> gradient_ranges(int stage) const = 0;
  /// The partials of each layer that has some.
  virtual std::vector<detail::block_address> partials(int stage) const = 0;
  virtual void add(int stage, dtype type, std::ptrdiff_t n, const std::byte* source, std::byte* target) const = 0;
  virtual void clear(int stage, const range& cleared) const = 0;
  /// Waits until the device has done all its work.
  virtual void finish(int stage) const = 0;

 protected:
  ~replica_part() = default;
};

}  // namespace gpipe::detail
