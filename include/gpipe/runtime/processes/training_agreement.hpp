#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/contract/build_text.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

/// The hash of a value that processes agree on, if the value is larger than a number.
class agreed_hash {
 public:
  template <class... T>
  agreed_hash& operator()(const T&... values) {
    (add(values), ...);
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

GPIPE_COLD inline agreed_value agreed_value_of(std::string_view name, std::integral auto value) {
  return agreed_value::number(name, static_cast<std::int64_t>(value));
}
GPIPE_COLD inline agreed_value agreed_value_of(std::string_view name, double value) {
  return agreed_value::real(name, value);
}
/// In ns.
GPIPE_COLD inline agreed_value agreed_value_of(std::string_view name, std::chrono::nanoseconds value) {
  return agreed_value::number(name, value.count());
}
// change: a parameter group setting
GPIPE_COLD inline agreed_value agreed_value_of(std::string_view name, const std::vector<parameter_group>& groups) {
  agreed_hash sum;
  for (const parameter_group& g : groups)
    sum(g.parameters, g.layers, g.rate_factor, g.weight_decay.has_value(), g.weight_decay.value_or(0), g.frozen);
  return {name, sum.value()};
}

/// One option of a training, as the agreement between processes reads it.
struct training_option {
  std::string_view name;                                                  ///< of the member of `training_options`
  agreed_value (*value)(std::string_view name, const training_options&);  ///< null: processes may differ
};

template <auto Member, agreed AcrossProcesses>
constexpr training_option describe_option(std::string_view name) {
  if constexpr (AcrossProcesses == agreed::no) return {name, nullptr};
  else
    return {name, [](std::string_view option_name, const training_options& o) {
              return agreed_value_of(option_name, o.*Member);
            }};
}

// change: a training option
/// All options, in the order of the members, with whether all processes of a job must choose the same value.
inline constexpr training_option training_option_list[] = {
    describe_option<&training_options::seed, agreed::yes>("seed"),
    // Every step agrees on its learning rate and norm, and the plan on its cut.
    describe_option<&training_options::learning_rate_schedule, agreed::no>("learning_rate_schedule"),
    describe_option<&training_options::max_grad_norm, agreed::no>("max_grad_norm"),
    describe_option<&training_options::groups, agreed::yes>("groups"),
    describe_option<&training_options::average_weights, agreed::yes>("average_weights"),
    describe_option<&training_options::cut, agreed::no>("cut"),
    describe_option<&training_options::deadline, agreed::yes>("deadline"),
    describe_option<&training_options::on_deadline, agreed::no>("on_deadline"),
    describe_option<&training_options::trace_events, agreed::yes>("trace_events"),
    describe_option<&training_options::arena_fill, agreed::no>("arena_fill"),
    describe_option<&training_options::digest_calls, agreed::yes>("digest_calls"),
    describe_option<&training_options::canary, agreed::no>("canary"),
    describe_option<&training_options::link_bytes_per_second, agreed::no>("link_bytes_per_second"),  // 0 in a job
    describe_option<&training_options::layer_times, agreed::yes>("layer_times"),
    describe_option<&training_options::graph, agreed::no>("graph"),  // of one process
    describe_option<&training_options::job, agreed::no>("job"),
    describe_option<&training_options::cores, agreed::no>("cores"),
    describe_option<&training_options::before, agreed::no>("before"),
};

struct any_member {
  template <class T>
  operator T() const;
};
template <class Aggregate, class... Members>
consteval std::size_t member_count() {
  if constexpr (requires { Aggregate{Members{}..., any_member{}}; })
    return member_count<Aggregate, Members..., any_member>();
  else return sizeof...(Members);
}
static_assert(std::size(training_option_list) == member_count<training_options>(),
              "gpipe: an option of a training has no line in training_option_list, which says whether processes must "
              "agree on it");

/// The values of a training that must be the same in all processes of a job.
GPIPE_COLD inline std::vector<agreed_value> agreed_values_of(const training_options& options) {
  std::vector<agreed_value> values;
  for (const training_option& option : training_option_list)
    if (option.value != nullptr) values.push_back(option.value(option.name, options));
  return values;
}

// assumes: several lengths in one process
/// The values of a plan that must be the same in all processes of a job.
GPIPE_COLD inline std::vector<agreed_value> agreed_values_of(const network& net, const step_plan& plan) {
  agreed_hash build, model, cut, schedule, places, memory;
  // assumes: one build in all processes
  build(std::string_view(build_text()));
  model(net.layer_count, net.value_count, net.field_count);
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_type& type = net.type_of(l);
    model(std::string_view(type.name), type.type, type.parameter_bytes(), type.state_bytes(), net.layers[l].tied);
    for (int p = 0; p < type.parameter_count; ++p)
      model(net.owner(l, p).layer_index, net.owner(l, p).index, net.owner_offset(l, p));
    for (int i = 0; i < type.inputs; ++i) model(net.reads_value(l, i));
  }
  for (int v = 0; v < net.value_count; ++v) model(net.values[v].part.size, net.values[v].part.type);
  const plan_options options = plan.resolved_options();
  cut(plan.first);
  cut(plan.recomputed_before);
  for (int s = 0; s < plan.stages(); ++s) schedule(plan.worker_of(s));
  places(plan.processes_of_workers);
  for (const std::vector<instruction>& program : plan.programs)
    for (const instruction& action : program) schedule(action.kind, action.stage, action.micro_batch);
  for (const link_slots& assignment : plan.slots_of_links) schedule(assignment.stash, assignment.returned);
  for (const stage_plan& stage : plan.stage_plans) memory(stage.memory.total());
  std::vector<agreed_value> values{{"the build", build.value()}};
  for (const option_description& option : plan_option_list)
    if (option.across_processes == agreed::yes)
      values.push_back({option.name, static_cast<std::uint64_t>(option.get(options)), option.text});
  values.insert(values.end(), {{"the model", model.value()},
                               {"the cut", cut.value()},
                               {"the order of the schedule", schedule.value()},
                               {"the processes of devices", places.value()},
                               {"the memory plan", memory.value()}});
  return values;
}

}  // namespace gpipe::detail
