#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

class agreed_hash {
 public:
  template <class... T>
  agreed_hash& operator()(const T&... all) {
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

/// The values of a plan that must be the same in all processes of a job.
GPIPE_COLD inline std::vector<agreed_value> agreed_values_of(const network& net, const step_plan& plan) {
  detail::agreed_hash build, model, cut, schedule, memory;
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
    model(std::string_view(r.name), r.type, r.parameter_bytes(), r.state_bytes(), net.slots[l].tied);
    for (int p = 0; p < r.parameter_count; ++p) model(net.owner(l, p).slot, net.owner(l, p).index);
    for (int i = 0; i < r.inputs; ++i) model(net.reads_value(l, i));
  }
  for (int v = 0; v < net.value_count; ++v) model(net.values[v].part.size, net.values[v].part.type);
  const plan_options o = plan.resolved_options();
  cut(plan.first);
  for (int s = 0; s < plan.stages(); ++s) schedule(plan.worker_of(s));
  for (const link_slots& of : plan.slots_of_links) schedule(of.stash, of.returned);
  for (const stage_plan& of : plan.stage_plans) memory(of.memory.total());
  std::vector<agreed_value> all{{"the build", build.value()}};
  for (const option_description& option : plan_option_list)
    if (option.across_processes == agreed::yes)
      all.push_back({option.name, static_cast<std::uint64_t>(option.get(o)), option.text});
  all.insert(all.end(), {{"the model", model.value()},
                         {"the cut", cut.value()},
                         {"the order of the schedule", schedule.value()},
                         {"the memory plan", memory.value()}});
  return all;
}

/// The only translation of a pass into the call that processes agree on.
inline collective_kind collective_kind_of(pass_kind kind) {
  switch (kind) {
    case pass_kind::train:
      return collective_kind::step;
    case pass_kind::accumulate:
      return collective_kind::accumulate;
    case pass_kind::measure:
      return collective_kind::measure;
    case pass_kind::diagnose:
      return collective_kind::examine;
    case pass_kind::evaluate:
      return collective_kind::evaluate;
    case pass_kind::predict:
      break;
  }
  return collective_kind::predict;
}

/// Hashes of the begin of a batch's first sample: of the inputs, and of each field; the last one is of all further
/// fields. They cost little, and different batches begin differently. A process need not have what its layers do not
/// read; such a hash is unknown.
GPIPE_OUT_OF_LINE inline std::array<std::uint64_t, 8> hashes_of_first_sample(const network& net,
                                                                             const batch_rows& rows) {
  constexpr std::size_t max_bytes = 64;
  std::array<hash, 8> sums;
  std::array<bool, 8> unknown{};
  const auto add = [&](std::size_t i, const std::byte* row, std::size_t size, dtype type) {
    if (row != nullptr) sums[i].add(row, (std::min)(max_bytes, size * bytes_of(type)));
  };
  add(0, rows.inputs, net.values[0].part.size, net.values[0].part.type);
  unknown[0] = rows.inputs == nullptr;
  for (int f = 0; f < net.field_count; ++f) {
    const std::size_t i = (std::min)(index(f) + 1, sums.size() - 1);
    add(i, rows.fields[index(f)], net.fields[f].size, net.fields[f].type);
    unknown[i] = unknown[i] || rows.unknown[index(f)];
  }
  std::array<std::uint64_t, 8> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = unknown[i] ? agreed_value::unknown : sums[i].value();
  return all;
}

/// The values of a call that must be the same in all processes of a job.
GPIPE_OUT_OF_LINE inline std::array<agreed_value, 12> agreed_values_of_call(const network& net,
                                                                            const step_context& step,
                                                                            const commit_terms& terms) {
  const bool trains = step.kind == pass_kind::train;
  std::array<agreed_value, 12> all{agreed_value::number("the samples of the call", step.rows.samples),
                                   agreed_value::number("the samples accumulated before", terms.accumulated.samples),
                                   agreed_value::real("the learning rate", trains ? terms.rate : 0),
                                   agreed_value::real("the largest norm", trains ? terms.max_norm : 0)};
  const std::array<std::uint64_t, 8> hashes = hashes_of_first_sample(net, step.rows);
  for (std::size_t i = 0; i < hashes.size(); ++i) all[4 + i] = {"the batch: its first samples differ", hashes[i]};
  return all;
}

}  // namespace gpipe::detail
