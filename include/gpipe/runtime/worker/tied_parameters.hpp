#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/runtime/worker/action_timer.hpp>

namespace gpipe::detail {

// assumes: one parameter type
/// A worker's part in tied parameters. A pass begins with copies of the owner's values to all uses. In a commit, the
/// owner adds the gradients of the uses to its own, in model order. Throws if a wait for another process fails.
class tied_parameters {
 public:
  tied_parameters(const step_plan& plan, const replica& own_replica, remote_tied_parameters& remote)
      : plan_(plan), replica_(own_replica), remote_(remote) {}

  bool any() const { return !plan_.ties.empty(); }

  /// Copies the owners' values to the uses in the worker's stages.
  void update_values(int worker) const {
    remote_.send_values(worker);
    for (std::size_t i = 0; i < plan_.ties.size(); ++i) {
      const tie& t = plan_.ties[i];
      if (plan_.worker_of(stage_of(t.user)) != worker) continue;
      stage_with(t.user).copy_tied_values(t.user, is_here(t.owner)
                                                      ? layer(t.owner).parameter_at[index(t.owner.index)] + t.before
                                                      : remote_.receive_values(t));
      // All values of the layer have arrived.
      if (i + 1 == plan_.ties.size() || plan_.ties[i + 1].user.layer_index != t.user.layer_index)
        stage_with(t.user).refresh_tied(t.user.layer_index);
    }
  }

  /// Sends the gradients of the worker's uses whose owners are in other processes. All gradients of uses in this
  /// process must be complete.
  void send_gradients(int worker) const {
    for (const tie& t : plan_.ties)
      if (plan_.worker_of(stage_of(t.user)) == worker && !is_frozen(t.user)) remote_.send_gradients(t);
  }
  /// Adds the gradients of all uses to the gradients of the parameters that the stage owns, each at its rows. All must
  /// be complete.
  void add_gradients(int stage, const wait_context& wait, action_timer& times) const {
    for (const tie& t : plan_.ties) {
      if (stage_of(t.owner) != stage) continue;
      bound_stage& owner = replica_.stage(stage);
      if (is_frozen(t.owner)) continue;
      if (is_here(t.user)) {
        owner.context().await(stage_with(t.user).done());
        owner.add_tied_gradients(t, layer(t.user).gradient_at[index(t.user.index)]);
      } else {
        times.waiting([&] { owner.add_tied_gradients(t, remote_.receive_gradients(t, wait)); });
      }
    }
  }

 private:
  int stage_of(const named_array& array) const { return plan_.cut().stage_of(array.layer_index); }
  bound_stage& stage_with(const named_array& array) const { return replica_.stage(stage_of(array)); }
  const bound_layer& layer(const named_array& array) const { return stage_with(array).at(array.layer_index); }
  bool is_here(const named_array& array) const { return replica_.has(stage_of(array)); }
  bool is_frozen(const named_array& array) const { return layer(array).frozen_parameters[index(array.index)]; }

  const step_plan& plan_;
  const replica& replica_;
  remote_tied_parameters& remote_;
};

}  // namespace gpipe::detail
