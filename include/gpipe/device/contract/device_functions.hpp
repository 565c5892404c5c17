#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/contract/device_concept.hpp>

// A device as a value. Runtime and trainer are compiled once, for all devices: they call a device by a table of
// functions, as they call layers by a table of kernels.
//
//     cuda_device --- device_of<cuda_device> ---> device_functions ---> trainer, executor, workers
//     kernels of a model, by its context -------> rows of kernels  --'  (in the compiled library)

namespace gpipe::detail {

class device_context;

/// Identifies a type of context: kernels are compiled for one, and run on devices that have it.
using context_id = const void*;
template <class Context>
inline char context_tag{};
template <class Context>
inline constexpr context_id id_of_context = &context_tag<Context>;

/// A reference to a context of any type, as kernels take it.
class context_handle {
 public:
  context_handle() = default;
  template <class Context>
  requires(!std::same_as<Context, device_context>) context_handle(const Context& context)
      : context_(&context) {}  // NOLINT(google-explicit-constructor)
  static context_handle at(const void* context) {
    context_handle handle;
    handle.context_ = context;
    return handle;
  }

  /// `Context` is the type of the context.
  template <class Context>
  const Context& as() const {
    return *static_cast<const Context*>(context_);
  }

 private:
  const void* context_ = nullptr;
};

/// All functions of a device that the runtime calls. Functions that a device lacks are null. The source of `upload` and
/// the target of `download` are host memory; all other addresses are in arenas.
struct device_functions {
  using size = std::ptrdiff_t;

  context_id context;  ///< the type of context whose kernels run on it

  std::int64_t (*memory_left)();
  void* (*make_context)(int stage);
  void (*free_context)(void* context) noexcept;
  void* (*make_arena)(context_handle context, std::size_t bytes, std::byte fill);
  std::byte* (*arena_data)(void* arena);
  void (*free_arena)(void* arena) noexcept;

  void (*upload)(context_handle context, size bytes, const std::byte* source, std::byte* target);
  void (*download)(context_handle context, size bytes, const std::byte* source, std::byte* target);
  void (*finish)(context_handle context);
  void (*copy)(context_handle context, size bytes, const std::byte* source, std::byte* target);
  void (*fill_bytes)(context_handle context, size bytes, std::byte value, std::byte* target);
  void (*fill)(context_handle context, size count, dtype type, double value, void* target);
  void (*add)(context_handle context, size count, dtype type, const void* source, void* target);
  /// *sum = the sum of the squares of both arrays, one of which may be empty.
  void (*sum_squares)(context_handle context, dtype type, size count, const void* x, size second_count, const void* y,
                      double* sum);
  /// *sum = 0 if all are finite, else NaN.
  void (*sum_nonfinite)(context_handle context, dtype type, size count, const void* x, double* sum);
  /// averages += share (x - averages)
  void (*move_averages)(context_handle context, dtype type, size count, const void* x, void* averages, double share);
  void (*exchange)(context_handle context, size bytes, void* x, void* y);

  // Null: the device is synchronous, and its arenas are the host's memory.
  void* (*make_marker)();
  void (*free_marker)(void* marker) noexcept;
  void (*mark)(context_handle context, void* marker);
  void (*await)(context_handle context, void* marker);

  void (*set_operation)(context_handle context, const operation_tag& tag);
  void (*download_rows)(context_handle context, int rows, size bytes, const std::byte* source, std::byte* target,
                        size stride);
  void (*allow_tf32)(void* context);
  const void* (*queue)(context_handle context);

  // Null: the device has no moments.
  void* (*make_moments)(std::size_t count);
  void (*free_moments)(void* moments) noexcept;
  void (*note)(context_handle context, void* moments, std::size_t index);
  std::int64_t (*ns_between)(void* moments, std::size_t index, void* later_moments, std::size_t later_index);

  // Null: the device has no graphs.
  void* (*make_graph)();
  void (*free_graph)(void* graph) noexcept;
  void (*begin)(context_handle context, void* graph);
  void (*end)(context_handle context, void* graph);
  void (*launch)(context_handle context, void* graph);
  void (*refill)(void* graph, std::size_t upload, size bytes, const std::byte* source);

  bool is_synchronous() const { return make_marker == nullptr; }
  bool has_moments() const { return make_moments != nullptr; }
  bool has_graphs() const { return make_graph != nullptr; }
};

/// Owns an object that a device has made, or nothing.
class device_object {
 public:
  device_object() = default;
  device_object(void* object, void (*free)(void*) noexcept) : object_(object), free_(free) {}
  ~device_object() {
    if (object_ != nullptr) free_(object_);
  }
  device_object(device_object&& other) noexcept : object_(std::exchange(other.object_, nullptr)), free_(other.free_) {}
  device_object& operator=(device_object&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(free_, other.free_);
    return *this;
  }

  void* get() const { return object_; }

 private:
  void* object_ = nullptr;
  void (*free_)(void*) noexcept = nullptr;
};

/// A marker of a device. The marker of a synchronous device is empty, because there is nothing to record. It is made at
/// construction and not by its first mark, because steps allocate nothing.
class device_marker : public device_object {
 public:
  device_marker() = default;
  explicit device_marker(const device_functions& device)
      : device_object(device.is_synchronous() ? nullptr : device.make_marker(), device.free_marker) {}
};

/// A context of any device, with the operations of device/host/context.hpp that the runtime itself enqueues.
class device_context {
 public:
  using size = device_functions::size;

  /// `device` outlives the context.
  device_context(const device_functions& device, int stage)
      : device_(&device),
        object_(device.make_context(stage), device.free_context),
        handle_(context_handle::at(object_.get())) {}

  const device_functions& device() const { return *device_; }
  context_handle handle() const { return handle_; }

  void upload(size bytes, const std::byte* source, std::byte* target) const {
    device_->upload(handle_, bytes, source, target);
  }
  void download(size bytes, const std::byte* source, std::byte* target) const {
    device_->download(handle_, bytes, source, target);
  }
  /// Downloads contiguous rows to rows that begin `stride` bytes apart.
  void download_rows(int rows, size bytes, const std::byte* source, std::byte* target, size stride) const {
    if (device_->download_rows != nullptr) return device_->download_rows(handle_, rows, bytes, source, target, stride);
    for (int r = 0; r < rows; ++r) download(bytes, source + r * bytes, target + r * stride);
  }
  void finish() const { device_->finish(handle_); }

  void copy(size bytes, const std::byte* source, std::byte* target) const {
    device_->copy(handle_, bytes, source, target);
  }
  void copy(size count, const double* source, double* target) const {
    copy(count * static_cast<size>(sizeof(double)), reinterpret_cast<const std::byte*>(source),
         reinterpret_cast<std::byte*>(target));
  }
  void fill(size bytes, std::byte value, std::byte* target) const {
    device_->fill_bytes(handle_, bytes, value, target);
  }
  template <element T>
  void fill(size count, T value, T* target) const {
    device_->fill(handle_, count, dtype_of<T>, static_cast<double>(value), target);
  }
  void add(size count, dtype type, const void* source, void* target) const {
    device_->add(handle_, count, type, source, target);
  }
  void sum_squares(dtype type, size count, const void* x, size second_count, const void* y, double* sum) const {
    device_->sum_squares(handle_, type, count, x, second_count, y, sum);
  }
  void sum_nonfinite(dtype type, size count, const void* x, double* sum) const {
    device_->sum_nonfinite(handle_, type, count, x, sum);
  }
  void move_averages(dtype type, size count, const void* x, void* averages, double share) const {
    device_->move_averages(handle_, type, count, x, averages, share);
  }
  void exchange(size bytes, void* x, void* y) const { device_->exchange(handle_, bytes, x, y); }

  void mark(device_marker& marker) const {
    if (device_->is_synchronous()) return;
    assert(marker.get() != nullptr);
    device_->mark(handle_, marker.get());
  }
  void await(device_marker& marker) const {
    if (device_->is_synchronous()) return;
    assert(marker.get() != nullptr);
    device_->await(handle_, marker.get());
  }

  bool takes_operations() const { return device_->set_operation != nullptr; }
  void set_operation(const operation_tag& tag) const {
    if (takes_operations()) device_->set_operation(handle_, tag);
  }
  /// Whether the device computes products in TF32 from now on.
  bool allow_tf32() {
    if (device_->allow_tf32 == nullptr) return false;
    device_->allow_tf32(object_.get());
    return true;
  }
  /// Null: the device has no queues.
  const void* queue() const { return device_->queue == nullptr ? nullptr : device_->queue(handle_); }

  void note(void* moments, std::size_t index) const { device_->note(handle_, moments, index); }
  void begin(void* graph) const { device_->begin(handle_, graph); }
  void end(void* graph) const { device_->end(handle_, graph); }
  void launch(void* graph) const { device_->launch(handle_, graph); }

 private:
  const device_functions* device_;
  device_object object_;
  context_handle handle_;
};

/// An arena of any device.
class device_arena {
 public:
  device_arena(const device_context& context, std::size_t bytes, std::byte fill)
      : object_(context.device().make_arena(context.handle(), bytes, fill), context.device().free_arena),
        data_(context.device().arena_data(object_.get())),
        bytes_(bytes) {}

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  device_object object_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace gpipe::detail
