#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/abroad.hpp>
#include <gpipe/runtime/all_reduce.hpp>
#include <gpipe/runtime/commit.hpp>
#include <gpipe/runtime/replica.hpp>
#include <gpipe/runtime/update_rule.hpp>
#include <gpipe/runtime/written_step.hpp>

namespace gpipe {

/// What the workers of an executor share.
template <class Device>
struct workshop {
  const network& net;
  const run_plan& plan;
  const update_rule<typename Device::context>& rule;
  all_reduce<Device>* sums;  ///< over replicas; null: there is one
  lifeline& line;
  gate& door;              ///< of all workers here
  const step_state& step;  ///< of all replicas
  commit& decision;
  std::vector<stage_report>& reports;  ///< of replica after replica
  const std::function<void(const instruction&)>& before;
  abroad* others = nullptr;  ///< processes of the job; null: alone

  /// What was told of the loss, summed over the call's micro-batches and those accumulated before.
  void sum_partials() const noexcept {
    decision.sum(net.row_of(net.loss_slot()), step);
  }
};

/// Walks a program. It knows its replica's stages, the channels to others, and nothing of schedules. Aligned, for what
/// it writes in every action must not share a cache line with another worker.
///
/// What it asks of its stages' devices happens later, in the order of the program: they take turns. It waits for them
/// twice in a step: before the gate, where the decision needs what they have found, and at the end.
template <class Device>
class alignas(alignment) worker {
 public:
  using context = typename Device::context;

  /// `number` is the worker's in its replica, `seat` at the gate.
  GPIPE_ONCE worker(const workshop<Device>& shop, replica<Device>& its, int number, int seat, recorder* trace)
      : shop_(shop), its_(&its), number_(number), seat_(seat), trace_(trace) {
    for (int s = 0; s < shop_.plan.stages(); ++s)
      if (shop_.plan.worker_of(s) == number) own_.push_back(s);
  }

  /// One pass over a program; `clears` the gradients first. Throws the cause of a failure, named.
  void walk(const std::vector<instruction>& program, bool clears) {
    committed_ = summed_ = told_ = false;
    turn_ = nullptr;
    begin_ns_ = now_ns();
    std::size_t done = 0;
    if constexpr (graph_device<Device>)
      if (step().written) done = walk_written(program, clears, written_);
    if (done == 0) open(program, clears);
    for (; done < program.size(); ++done) follow(program[done]);
    if (committed_) finish();
    else gather();
    if (step().written) sound_ = true;
  }

 private:
  // Before the first instruction.
  void open(const std::vector<instruction>& program, bool clears) {
    borrow();
    if (clears)
      for (const instruction& i : program)
        if (i.kind == act::reduce) stage(i).clear_gradients();
    const auto cleared = now_ns();
    if (step().measured && !program.empty()) report(program.front()).busy(act::reduce) += cleared - begin_ns_;
    begin_ns_ = cleared;
  }

  void follow(const instruction& i) {
    if (i.micro_batch >= 0 && step().samples(i.micro_batch) == 0) return;
    waited_ = linked_ = copied_ = 0;
    stage(i).begin(told(i));
    try {
      if (shop_.others != nullptr && !committed_) shop_.others->begin(errand_of(i));
      if (shop_.before && !committed_) shop_.before({i.kind, i.stage, told(i), i.link});
      perform(i);
    } catch (const detail::poisoned&) {
      throw;
    } catch (const error& cause) {
      fail(i, cause.wrong(), cause.remedy(), cause.where());
    } catch (const std::exception& cause) {
      fail(i, cause.what(), "", {});
    } catch (...) {
      fail(i, "something was thrown that is no std::exception", "", {});
    }
    shop_.line.progress(seat_);
    const auto end = now_ns();
    account(i, begin_ns_, end);
    begin_ns_ = end;
  }

  // What comes before the first update, written down or launched again; how many instructions that are.
  template <class Written>
  GPIPE_ONCE std::size_t walk_written(const std::vector<instruction>& program, bool clears,
                                      std::unique_ptr<Written>& written) {
    std::size_t until = 0;
    while (program[until].kind != act::update) ++until;
    if (!written || !std::exchange(sound_, false)) {  // what has failed may fail whenever it is launched
      std::vector<bound_stage<Device>*> stages;
      for (const int s : own_) stages.push_back(&its_->stage(s));
      written = std::make_unique<Written>(std::move(stages));
    }
    if (written->holds(step())) {
      written->refill(step(), program);
    } else {
      written->write(step(), [&] {
        open(program, clears);
        for (std::size_t i = 0; i < until; ++i) follow(program[i]);
        tell();
      });
    }
    written->launch();
    told_ = true;
    return until;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const step_state& step() const { return its_->step(); }
  bound_stage<Device>& stage(const instruction& i) { return its_->stage(i.stage); }
  stage_report& report(const instruction& i) {
    return shop_.reports[index(its_->number() * shop_.plan.stages() + i.stage)];
  }
  int stage_of(int slot) const { return shop_.plan.cut().stage_of(slot); }
  bound_stage<Device>& at(int slot) { return its_->stage(stage_of(slot)); }
  wire<typename Device::marker>& link(const instruction& i) { return its_->wires()[index(i.link)]; }
  const link_places& places(int link) const { return shop_.plan.places_of_links[index(link)]; }
  int stash_place(int link, int m) const { return places(link).stash[index(m)]; }
  int returned_place(int link, int m) const { return places(link).returned[index(m)]; }
  bool is_here(int slot) const { return its_->has(stage_of(slot)); }
  /// A micro-batch as others know it: counted through all replicas.
  int told(const instruction& i) const { return i.micro_batch < 0 ? -1 : step().among_all(i.micro_batch); }
  errand errand_of(const instruction& i) const { return {i.stage, told(i), name(i.kind)}; }

  const context& device(const instruction& i) { return stage(i).device(); }

  // Where the worker's stages have queues of their own, one follows the other in these, too.
  void take_turn(bound_stage<Device>& s) {
    if (turn_ == &s) return;
    if (turn_ != nullptr) {
      turn_->device().mark(over_);
      s.device().await(over_);
    }
    turn_ = &s;
  }

  // What the call's decision is made of comes to the host.
  GPIPE_OUT_OF_LINE void gather() {
    if (!told_) tell();
    finish();
    if (shop_.others != nullptr) waiting([&] { shop_.others->exchange(shop_.decision); });
  }
  void tell() {
    const int loss = step().predicted == nullptr ? shop_.net.loss_slot() : -1;
    for (const int s : own_) {
      const bound_stage<Device>& its = its_->stage(s);
      if (step().training && its_->number() == 0) its.download_squares(shop_.decision.squares.data());
      if (loss >= 0 && stage_of(loss) == s) its.download_partials(loss, step(), shop_.decision.told.data());
    }
  }
  GPIPE_OUT_OF_LINE void finish() {
    for (const int s : own_) {
      try {
        its_->stage(s).device().finish();
      } catch (const error& cause) {
        fail({committed_ ? act::update : act::reduce, s, -1, -1}, cause.wrong(), cause.remedy(), cause.where());
      }
    }
  }

  template <class Call>
  void waiting(Call&& call) {
    const auto begin = now_ns();
    call();
    waited_ += now_ns() - begin;
  }

  GPIPE_OUT_OF_LINE void carried(slow_link& link, int place) {
    const auto before = waited_;
    waiting([&] { link.arrive(place); });
    linked_ += waited_ - before;
  }

  void perform(const instruction& i) {
    const int m = i.micro_batch;
    take_turn(stage(i));
    switch (i.kind) {
      case act::receive_activation:
        consume(i, link(i).activations, stash_place(i.link, m));
        if (link(i).forth) carried(*link(i).forth, stash_place(i.link, m));
        break;
      case act::receive_gradient:
        consume(i, link(i).gradients, returned_place(i.link, m));
        if (link(i).back) carried(*link(i).back, returned_place(i.link, m));
        break;
      case act::send_activation:
        if (link(i).forth)
          link(i).forth->depart(stash_place(i.link, m), link(i).of_sample.forward_bytes * step().samples(m));
        publish(i, link(i).activations, stash_place(i.link, m));
        break;
      case act::send_gradient:
        if (link(i).back)
          link(i).back->depart(returned_place(i.link, m), link(i).of_sample.backward_bytes * step().samples(m));
        publish(i, link(i).gradients, returned_place(i.link, m));
        break;
      case act::forward:
        acquire_activations(i);
        stage(i).forward(step(), m);
        if (stage(i).has_copies()) pass_on(i);
        if (!step().training) release(i);
        break;
      case act::recompute: stage(i).recompute(step(), m); break;
      case act::backward_input:
        acquire_gradients(i);
        stage(i).backward_input(step(), m);
        break;
      case act::backward_parameters:
        stage(i).backward_parameters(step(), m);
        release(i);
        break;
      case act::backward:
        acquire_gradients(i);
        stage(i).backward(step(), m);
        release(i);
        break;
      case act::reduce: reduce(i); break;
      case act::update: update(i); break;
      case act::idle: break;
    }
  }

  GPIPE_OUT_OF_LINE void pass_on(const instruction& i) {
    const auto begin = now_ns();
    stage(i).pass_on(step(), i.micro_batch);
    copied_ = now_ns() - begin;
  }

  using lane_of = lane<typename Device::marker>;

  GPIPE_OUT_OF_LINE void acquire(const instruction& i, lane_of& to, int place) {
    if (to.near) {
      waiting([&] { to.near->acquire(place, errand_of(i)); });
      device(i).await(to.near->marker(place));
    } else if (to.out) {
      waiting([&] { to.out->acquire(i.micro_batch, errand_of(i)); });
    }
  }
  GPIPE_OUT_OF_LINE void publish(const instruction& i, lane_of& to, int place) {
    const int samples = step().samples(i.micro_batch);
    if (to.out) return to.out->publish(i.micro_batch, samples);
    device(i).mark(to.near->marker(place));
    to.near->publish(place, samples);
  }
  GPIPE_OUT_OF_LINE void consume(const instruction& i, lane_of& from, int place) {
    if (from.in) return waiting([&] { from.in->consume(i.micro_batch, errand_of(i)); });
    waiting([&] { from.near->consume(place, errand_of(i)); });
    device(i).await(from.near->marker(place));
  }
  GPIPE_OUT_OF_LINE void release(const instruction& i, lane_of& from, int place) {
    if (from.near) {
      device(i).mark(from.near->marker(place));
      from.near->release(place);
    } else if (from.in) {
      from.in->release(i.micro_batch);
    }
  }

  // Layers write straight into what is acquired here, so it is acquired before they run.
  GPIPE_OUT_OF_LINE void acquire_activations(const instruction& i) {
    for (const int k : shop_.plan.outgoing[index(i.stage)])
      acquire(i, its_->wires()[index(k)].activations, stash_place(k, i.micro_batch));
  }
  GPIPE_OUT_OF_LINE void acquire_gradients(const instruction& i) {
    for (const int k : shop_.plan.incoming[index(i.stage)])
      acquire(i, its_->wires()[index(k)].gradients, returned_place(k, i.micro_batch));
  }
  // The last use of what the stage received for this micro-batch is over.
  GPIPE_OUT_OF_LINE void release(const instruction& i) {
    for (const int k : shop_.plan.incoming[index(i.stage)])
      release(i, its_->wires()[index(k)].activations, stash_place(k, i.micro_batch));
    if (!step().training) return;
    for (const int k : shop_.plan.outgoing[index(i.stage)])
      release(i, its_->wires()[index(k)].gradients, returned_place(k, i.micro_batch));
  }

  // Of tied parameters the owner's values, for every call.
  void borrow() {
    if (shop_.others != nullptr) {
      shop_.others->begin({.action = "begin"});  // a job that has lost a process sends nothing more
      shop_.others->give_values();
    }
    for (const tie& t : shop_.plan.ties)
      if (shop_.plan.worker_of(stage_of(t.user)) == number_)
        at(t.user).borrow(t.user, is_here(t.owner) ? at(t.owner).at(t.owner).parameters
                                                   : shop_.others->take_values(t));
  }

  GPIPE_OUT_OF_LINE void reduce(const instruction& i) {
    bound_stage<Device>& s = stage(i);
    const bool commits = step().commits;  // only then all uses of tied parameters become one sum
    if (commits && !shop_.plan.ties.empty() && !summed_) {
      for (const int own : own_) its_->stage(own).device().mark(its_->stage(own).done());
      waiting([&] { its_->door().arrive(seat_, errand_of(i)); });
      if (shop_.others != nullptr)
        for (const tie& t : shop_.plan.ties)
          if (is_here(t.user) && !at(t.user).at(t.user).frozen) shop_.others->give_gradients(t);
    }
    summed_ = true;
    for (const tie& t : shop_.plan.ties) {
      if (!commits || stage_of(t.owner) != i.stage || s.at(t.owner).frozen) continue;
      if (is_here(t.user)) {
        s.device().await(at(t.user).done());
        s.lend(t.owner, at(t.user).at(t.user).gradients);
      } else {
        waiting([&] { s.lend(t.owner, shop_.others->take_gradients(t, errand_of(i))); });
      }
    }
    if (shop_.sums != nullptr) waited_ += shop_.sums->sum(its_->number(), i.stage, errand_of(i), commits);
    if (its_->number() == 0) s.sum_squares(commits);  // the sums are the same in all
  }

  GPIPE_OUT_OF_LINE void update(const instruction& i) {
    if (!step().commits) return;
    if (!committed_) {
      gather();
      const auto here = now_ns();
      shop_.door.arrive(seat_, errand_of(i), [this]() noexcept { decide(); });
      waited_ += (std::max)(std::int64_t{0}, shop_.decision.closed_ns - here);  // what follows is the update's own
    }
    committed_ = true;
    if (!shop_.decision.holds || !step().applied) return;
    bound_stage<Device>& s = stage(i);
    s.each_trained([&](std::size_t at, std::size_t bytes) {
      std::byte* moments[max_moments]{};
      for (int k = 0; k < shop_.rule.moments(); ++k) moments[k] = s.moments(k) + at;
      shop_.rule(s.device(), shop_.net.type, bytes, s.parameters() + at, s.gradients() + at, moments,
                 {static_cast<std::int64_t>(step().step) + 1, shop_.decision.rate, shop_.decision.scale});
    });
    s.absorb(step());
    s.refresh();
    if (its_->number() == 0) s.updated();
  }

  void decide() noexcept {
    shop_.decision.closed_ns = now_ns();
    shop_.sum_partials();
    shop_.decision.decide();
  }

  void account(const instruction& i, std::int64_t begin, std::int64_t end) {
    if (step().measured) {
      stage_report& its = report(i);
      its.busy(i.kind) += end - begin - waited_ - copied_;
      its.busy(act::send_activation) += copied_;
      its.wait_ns += waited_;
      its.link_ns += linked_;
    }
    if (trace_ != nullptr) trace_->record({begin, end, i.kind, i.stage, told(i), -1, its_->number()});
  }

  // Says where, as far as who threw did not know.
  [[noreturn]] GPIPE_ONCE void fail(const instruction& i, const std::string& wrong, const std::string& remedy,
                                    gpipe::place at) {
    const bool computes = i.kind == act::forward || i.kind == act::recompute || i.kind == act::backward ||
                          i.kind == act::backward_input || i.kind == act::backward_parameters;
    const auto* layer = stage(i).current();
    if (computes && layer != nullptr && at.slot < 0) {
      at.slot = layer->slot;
      at.layer = layer->layer->name;
    }
    if (at.stage < 0) at.stage = i.stage;
    if (at.micro_batch < 0) at.micro_batch = told(i);
    if (at.action.empty()) at.action = name(i.kind);
    at.step = static_cast<long>(step().step);
    std::throw_with_nested(error(wrong, remedy, at));
  }

  workshop<Device> shop_;
  replica<Device>* its_;
  int number_, seat_;
  recorder* trace_;
  std::vector<int> own_;  ///< stages
  bound_stage<Device>* turn_ = nullptr;  ///< the stage that was asked last
  [[no_unique_address]] typename Device::marker over_{};
  std::int64_t waited_ = 0, linked_ = 0, copied_ = 0;  ///< in this action: in all, for a link; with what others read
  bool summed_ = false;     ///< all stages' gradients of this step are there; asked only where some are tied
  bool told_ = false;       ///< what the decision needs was asked for
  bool committed_ = false;
  bool sound_ = false;      ///< the last pass that was written down came to its end
  std::int64_t begin_ns_ = 0;  ///< of the instruction
  struct nothing {};
  using written_step = typename std::conditional<graph_device<Device>, detail::written_step<Device>, nothing>::type;
  std::unique_ptr<written_step> written_;
};

}  // namespace gpipe
