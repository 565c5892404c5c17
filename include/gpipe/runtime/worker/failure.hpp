#pragma once

#include <exception>
#include <string>

#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::detail {

template <class Device>
[[noreturn]] GPIPE_COLD void throw_named(const instruction& i, const bound_stage<Device>& stage,
                                         const step_context& step, const std::string& wrong, const std::string& remedy,
                                         location at) {
  const bool computes = i.kind == action_kind::forward || i.kind == action_kind::recompute || i.kind == action_kind::backward ||
                        i.kind == action_kind::backward_input || i.kind == action_kind::backward_parameters;
  const auto* layer = stage.current();
  if (computes && layer != nullptr && at.slot < 0) {
    at.slot = layer->slot;
    at.layer = layer->layer->name;
    if (at.micro_batch < 0) at.micro_batch = step.among_all(stage.current_micro_batch());
  }
  if (at.stage < 0) at.stage = i.stage;
  if (at.micro_batch < 0 && i.micro_batch >= 0) at.micro_batch = step.among_all(i.micro_batch);
  if (at.action.empty()) at.action = name(i.kind);
  at.step = static_cast<long>(step.step);
  std::throw_with_nested(error(wrong, remedy, at));
}

/// In a handler of what an instruction for the stage has thrown: throws it as an `error` that says where, as far as who
/// threw did not know. That somebody else has failed is passed on.
template <class Device>
[[noreturn]] GPIPE_COLD void rethrow_named(const instruction& i, const bound_stage<Device>& stage,
                                           const step_context& step) {
  try {
    throw;
  } catch (const interrupted&) {
    throw;
  } catch (const error& cause) {
    throw_named(i, stage, step, cause.wrong(), cause.remedy(), cause.where());
  } catch (const std::exception& cause) {
    throw_named(i, stage, step, cause.what(), "", {});
  } catch (...) {
    throw_named(i, stage, step, "something was thrown that is no std::exception", "", {});
  }
}

}  // namespace gpipe::detail
