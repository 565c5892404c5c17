#pragma once

#include <array>
#include <bit>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/plan/run_plan.hpp>
#include <gpipe/transport/peers.hpp>

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

/// What the processes of a job must have in common: each hash tells whether they have.
GPIPE_ONCE inline std::vector<trait> traits_of(const network& net, const run_plan& plan, std::uint64_t seed) {
  detail::trait_hash build, in, model, options, cut, schedule, memory;
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
  in(plan.options.in);
  model(net.slot_count, net.value_count, net.field_count);
  for (int l = 0; l < net.slot_count; ++l) {
    const row& r = net.row_of(l);
    model(std::string_view(r.name), r.type, r.parameter_bytes(), r.state_bytes(), net.slots[l].owner);
    for (int i = 0; i < r.inputs; ++i) model(net.reads_value(l, i));
  }
  for (int v = 0; v < net.value_count; ++v) model(net.values[v].part.size, net.values[v].part.type);
  const plan_options& o = plan.options;
  options(o.replicas, o.micro_batches, o.micro_batch_size, o.recompute, o.moments, seed);
  cut(plan.first);
  schedule(o.schedule, o.chunks, o.workers, plan.workers());
  for (int s = 0; s < plan.stages(); ++s) schedule(plan.worker_of(s));
  for (const link_places& of : plan.places_of_links) schedule(of.stash, of.returned);
  for (const stage_memory& of : plan.memory) memory(of.total());
  return {{"the build", build.value()},
          {"the precision", in.value()},
          {"the model", model.value()},
          {"the cut", cut.value()},
          {"the schedule", schedule.value()},
          {"replicas, micro-batches, recompute, optimizer or seed", options.value()},
          {"the plan of the memory", memory.value()}};
}

}  // namespace gpipe
