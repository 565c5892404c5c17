#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>

#include <gpipe/core/hash.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/runtime/processes/call_agreement.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::detail {

/// The calls of an executor, which all processes of a job make alike, and which fail in all if they fail in one. A
/// process that is alone has nobody to agree with.
class collective_calls {
 public:
  /// `job` null: alone.
  explicit collective_calls(process_group* job) : job_(job) {}

  /// Throw if another process is asked for something else.
  GPIPE_COLD void agree_to_freeze(int slot, bool frozen) const {
    agree(collective_kind::freeze, {agreed_value::number("the slot", slot), agreed_value::number("whether it is frozen", frozen)});
  }
  GPIPE_COLD void agree_to_watch(int slot, bool watched) const {
    agree(collective_kind::watch, {agreed_value::number("the slot", slot), agreed_value::number("whether it is watched", watched)});
  }
  GPIPE_COLD void agree_to_write(memory_kind kind, int slot, std::size_t at, std::size_t bytes,
                                 const void* from) const {
    if (job_ == nullptr) return;
    hash values;
    values.add(static_cast<const std::byte*>(from), bytes);
    agree(collective_kind::write,
          {agreed_value::number("what is written", static_cast<int>(kind)), agreed_value::number("the slot", slot),
           agreed_value::number("the first byte", static_cast<std::int64_t>(at)), {"the values", values.value()}});
  }

  /// What this process refuses fails the call in all.
  template <class Call>
  void together(Call&& call) const {
    try {
      call();
    } catch (...) {
      leave();
      throw;
    }
  }
  /// The call begins: that all are asked for the same is found out while they work.
  void enter(const network& net, const step_context& step, const commit_decision& decision) const {
    if (job_ != nullptr) job_->enter(collective_kind_of(step), agreed_values_of_call(net, step, decision));
  }
  /// It has failed, here or elsewhere, and devices are to be waited for.
  void abandon() const noexcept {
    if (job_ != nullptr) job_->abandon();
  }
  /// In a handler of what has failed: throws the first cause of all processes. Alone it returns.
  GPIPE_COLD void leave() const {
    if (job_ == nullptr) return;
    try {
      throw;
    } catch (const interrupted&) {
    } catch (const error& cause) {
      job_->fail(cause);
    } catch (const std::exception& cause) {
      job_->fail(error(cause.what(), ""));
    }
    throw job_->recover();
  }

 private:
  void agree(collective_kind what, std::initializer_list<agreed_value> traits) const {
    if (job_ != nullptr) job_->agree(what, {traits.begin(), traits.size()});
  }

  process_group* job_;
};

}  // namespace gpipe::detail
