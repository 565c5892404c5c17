#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/contract/device_functions.hpp>

namespace gpipe::detail {

struct exchange_words {  // of any type
  std::uint32_t *x, *y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::uint32_t first = x[i];
    x[i] = y[i];
    y[i] = first;
  }
};
template <class T>
struct move_average {
  const T* x;
  T* average;
  T share;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    average[i] = multiply_add(share, x[i] - average[i], average[i]);
  }
};
template <class T>
struct square_of {
  const T* x;
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};
template <class T>
struct square_of_both {
  square_of<T> first, second;
  std::ptrdiff_t elements;  // of the first
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const { return i < elements ? first(i) : second(i - elements); }
};

/// A constant, because GPUs call no function of the host.
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// 0 for a finite number, otherwise NaN, so that a sum is finite if all numbers are.
template <class T>
struct zero_if_finite {
  const T* x;
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    return is_finite(static_cast<compute_type<T>>(x[i])) ? 0 : not_a_number;
  }
};

/// The functions of a device type.
template <class Device>
struct device_adaptor {
  using context = typename Device::context;
  using arena = typename Device::arena;
  using marker = typename Device::marker;
  using size = device_functions::size;

  static constexpr device_functions functions() {
    device_functions f{};
    f.context = id_of_context<context>;
    f.memory_left = [] { return Device::memory_left(); };
    f.make_context = [](int stage) -> void* { return new context(Device::make_context(stage)); };
    f.free_context = [](void* object) noexcept { delete static_cast<context*>(object); };
    f.make_arena = [](context_handle c, std::size_t bytes, std::byte fill) -> void* {
      return new arena(Device::make_arena(typed(c), bytes, fill));
    };
    f.arena_data = [](void* object) { return static_cast<arena*>(object)->data(); };
    f.free_arena = [](void* object) noexcept { delete static_cast<arena*>(object); };
    set_operations(f);
    if constexpr (!std::is_same_v<marker, unmarked>) set_markers(f);
    if constexpr (requires(const context& c) { c.set_operation(operation_tag{}); })
      f.set_operation = [](context_handle c, const operation_tag& tag) { typed(c).set_operation(tag); };
    if constexpr (requires(const context& c, const std::byte* source, std::byte* target) {
                    c.download_rows(1, size{}, source, target, size{});
                  })
      f.download_rows = [](context_handle c, int rows, size bytes, const std::byte* source, std::byte* target,
                           size stride) { typed(c).download_rows(rows, bytes, source, target, stride); };
    if constexpr (requires(context & c) { c.allow_tf32(); })
      f.allow_tf32 = [](void* object) { static_cast<context*>(object)->allow_tf32(); };
    if constexpr (queueing_context<context>)
      f.queue = [](context_handle c) -> const void* { return &typed(c).queue(); };
    if constexpr (timing_device<Device>) set_moments(f);
    if constexpr (graph_device<Device>) set_graphs(f);
    return f;
  }

 private:
  static const context& typed(context_handle c) { return c.as<context>(); }
  template <class T>
  static T& typed(void* object) {
    return *static_cast<T*>(object);
  }

  static constexpr void set_operations(device_functions& f) {
    f.upload = [](context_handle c, size bytes, const std::byte* source, std::byte* target) {
      typed(c).upload(bytes, source, target);
    };
    f.download = [](context_handle c, size bytes, const std::byte* source, std::byte* target) {
      typed(c).download(bytes, source, target);
    };
    f.finish = [](context_handle c) { typed(c).finish(); };
    f.copy = [](context_handle c, size bytes, const std::byte* source, std::byte* target) {
      typed(c).copy(bytes, source, target);
    };
    f.fill_bytes = [](context_handle c, size bytes, std::byte value, std::byte* target) {
      typed(c).fill(bytes, value, target);
    };
    f.fill = &fill;
    f.add = &add;
    f.sum_squares = &sum_squares;
    f.sum_nonfinite = &sum_nonfinite;
    f.move_averages = &move_averages;
    f.exchange = [](context_handle c, size bytes, void* x, void* y) {
      typed(c).each(bytes / static_cast<size>(sizeof(std::uint32_t)),
                    exchange_words{static_cast<std::uint32_t*>(x), static_cast<std::uint32_t*>(y)});
    };
  }
  static constexpr void set_markers(device_functions& f) {
    f.make_marker = []() -> void* { return new marker(); };
    f.free_marker = [](void* object) noexcept { delete static_cast<marker*>(object); };
    f.mark = [](context_handle c, void* object) { typed(c).mark(typed<marker>(object)); };
    f.await = [](context_handle c, void* object) { typed(c).await(typed<marker>(object)); };
  }
  static constexpr void set_moments(device_functions& f) {
    using moments = std::vector<typename Device::moment>;
    f.make_moments = [](std::size_t count) -> void* { return new moments(count); };
    f.free_moments = [](void* object) noexcept { delete static_cast<moments*>(object); };
    f.note = [](context_handle c, void* object, std::size_t index) { typed(c).note(typed<moments>(object)[index]); };
    f.ns_between = [](void* object, std::size_t index, void* later, std::size_t later_index) -> std::int64_t {
      return typed<moments>(object)[index].ns_until(typed<moments>(later)[later_index]);
    };
  }
  static constexpr void set_graphs(device_functions& f) {
    using graph = typename Device::graph;
    f.make_graph = []() -> void* { return new graph(); };
    f.free_graph = [](void* object) noexcept { delete static_cast<graph*>(object); };
    f.begin = [](context_handle c, void* object) { typed(c).begin(typed<graph>(object)); };
    f.end = [](context_handle c, void* object) { typed(c).end(typed<graph>(object)); };
    f.launch = [](context_handle c, void* object) { typed(c).launch(typed<graph>(object)); };
    f.refill = [](void* object, std::size_t upload, size bytes, const std::byte* source) {
      typed<graph>(object).refill(upload, bytes, source);
    };
  }

  static void fill(context_handle c, size count, dtype type, double value, void* target) {
    visit_dtype(type, [&]<class T>() {
      typed(c).fill(count, static_cast<T>(static_cast<compute_type<T>>(value)), static_cast<T*>(target));
    });
  }
  // change: an element type; of activations
  // assumes: half precision is bf16
  static void add(context_handle c, size count, dtype type, const void* source, void* target) {
    visit_dtype<double, bf16, float>(
        type, [&]<class T>() { typed(c).add(count, static_cast<const T*>(source), static_cast<T*>(target)); });
  }
  static void sum_squares(context_handle c, dtype type, size count, const void* x, size second_count, const void* y,
                          double* sum) {
    visit_dtype<double, float>(type, [&]<class T>() {
      const square_of<T> first{static_cast<const T*>(x)}, second{static_cast<const T*>(y)};
      if (second_count == 0) typed(c).sum(count, first, sum);
      else if (count == 0) typed(c).sum(second_count, second, sum);
      else typed(c).sum(count + second_count, square_of_both<T>{first, second, count}, sum);
    });
  }
  static void sum_nonfinite(context_handle c, dtype type, size count, const void* x, double* sum) {
    visit_dtype<double, bf16, float>(
        type, [&]<class T>() { typed(c).sum(count, zero_if_finite<T>{static_cast<const T*>(x)}, sum); });
  }
  static void move_averages(context_handle c, dtype type, size count, const void* x, void* averages, double share) {
    visit_dtype<double, float>(type, [&]<class T>() {
      typed(c).each(count, move_average<T>{static_cast<const T*>(x), static_cast<T*>(averages), static_cast<T>(share)});
    });
  }
};

/// The functions of a device, made by the compiler. A program has them once, and takes the host's from the compiled
/// library.
template <class Device>
struct device_value {
  static const device_functions functions;
};
template <class Device>
constinit const device_functions device_value<Device>::functions = device_adaptor<Device>::functions();

template <class Device>
inline constexpr const device_functions& device_of = device_value<Device>::functions;

}  // namespace gpipe::detail
