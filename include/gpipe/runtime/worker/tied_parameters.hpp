#pragma once

#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/runtime/worker/action_timer.hpp>

namespace gpipe::detail {

/// What a worker does with tied parameters: their uses have the owner's values in every call, and where one commits the
/// owner adds the gradients of the uses to its own, in model order.
template <class Device>
class tied_parameters {
 public:
  /// `others` null: all stages of the replica are here.
  tied_parameters(const runtime_plan& plan, const replica<Device>& its, abroad* others)
      : plan_(plan), its_(its), others_(others) {}

  bool any() const { return !plan_.ties.empty(); }

  /// The values, for the uses of the worker's stages.
  void borrow(int worker) const {
    if (others_ != nullptr) others_->give_values();
    for (const tie& t : plan_.ties)
      if (plan_.worker_of(stage_of(t.user)) == worker)
        at(t.user).borrow(t.user, is_here(t.owner) ? at(t.owner).at(t.owner).parameters : others_->take_values(t));
  }

  /// The gradients of this replica's uses are complete: those whose owners are in other processes leave.
  void give() const {
    if (others_ == nullptr) return;
    for (const tie& t : plan_.ties)
      if (is_here(t.user) && !at(t.user).at(t.user).frozen) others_->give_gradients(t);
  }
  /// Those of all uses are, and are added to what the stage owns.
  void take(int stage, const wait_context& what, action_timer<Device>& times) const {
    for (const tie& t : plan_.ties) {
      if (stage_of(t.owner) != stage) continue;
      bound_stage<Device>& s = its_.stage(stage);
      if (s.at(t.owner).frozen) continue;
      if (is_here(t.user)) {
        s.context().await(at(t.user).done());
        s.lend(t.owner, at(t.user).at(t.user).gradients);
      } else {
        times.waiting([&] { s.lend(t.owner, others_->take_gradients(t, what)); });
      }
    }
  }

 private:
  int stage_of(int slot) const { return plan_.cut().stage_of(slot); }
  bound_stage<Device>& at(int slot) const { return its_.stage(stage_of(slot)); }
  bool is_here(int slot) const { return its_.has(stage_of(slot)); }

  const runtime_plan& plan_;
  const replica<Device>& its_;
  abroad* others_;
};

}  // namespace gpipe::detail
