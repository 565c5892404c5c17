#pragma once

#include <array>
#include <bit>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

namespace detail {

class trait_hash {
 public:
  template <class... T>
  trait_hash& operator()(const T&... all) {
    (add(all), ...);
    return *this;
  }
  std::uint64_t value() const { return sum_.value(); }

 private:
  void add(std::string_view text) {
    add(text.size());
    sum_.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
  }
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T x) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(x);
    sum_.add(bytes.data(), bytes.size());
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& x : list) add(x);
  }

  hash sum_;
};

}  // namespace detail

/// What the plans of a job's processes must have in common.
GPIPE_ONCE inline std::vector<trait> traits_of(const network& net, const run_plan& plan) {
  detail::trait_hash build, model, cut, schedule, memory;
  build(std::string_view(__VERSION__), sizeof(void*));
#if defined(__AVX512F__)
  build(512);
#elif defined(__AVX2__)
  build(256);
#endif
#if defined(__FMA__)
  build('f');
#endif
#if GPIPE_WITH_LIBXSMM
  build('x');
#endif
#if defined(__OPTIMIZE__)
  build('o');
#endif
  model(net.slot_count, net.value_count, net.field_count);
  for (int l = 0; l < net.slot_count; ++l) {
    const row& r = net.row_of(l);
    model(std::string_view(r.name), r.type, r.parameter_bytes(), r.state_bytes(), net.slots[l].owner);
    for (int i = 0; i < r.inputs; ++i) model(net.reads_value(l, i));
  }
  for (int v = 0; v < net.value_count; ++v) model(net.values[v].part.size, net.values[v].part.type);
  const plan_options& o = plan.options;
  cut(plan.first);
  for (int s = 0; s < plan.stages(); ++s) schedule(plan.worker_of(s));
  for (const link_places& of : plan.places_of_links) schedule(of.stash, of.returned);
  for (const stage_memory& of : plan.memory) memory(of.total());
  return {{"the build", build.value()},
          trait::choice("the precision", o.in),
          {"the model", model.value()},
          trait::number("the number of stages", o.stages),
          trait::number("the number of replicas", o.replicas),
          trait::number("the number of workers", plan.workers()),
          trait::number("the number of micro-batches", o.micro_batches),
          trait::number("the size of a micro-batch", o.micro_batch_size),
          {"the schedule", static_cast<std::uint64_t>(o.schedule),
           [](std::uint64_t x) {
             const auto kind = static_cast<schedule_kind>(x);
             return std::string(kind == schedule_kind::own ? "one's own" : name(kind));
           }},
          trait::number("the chunks of the schedule", o.chunks),
          trait::choice("recompute", o.recompute),
          trait::number("the micro-batches that are coalesced", plan.coalesce),
          {"the cut", cut.value()},
          {"the order of the schedule", schedule.value()},
          trait::number("the optimizer's moments", o.moments),
          {"the plan of the memory", memory.value()}};
}

}  // namespace gpipe
