#pragma once

#include <vector>

#include <gpipe/runtime/binding/kernel_call.hpp>
#include <gpipe/runtime/stage/accumulated_statistics.hpp>
#include <gpipe/runtime/stage/stage_arena.hpp>

namespace gpipe::detail {

/// What the layers of a stage tell of each micro-batch, such as batch statistics and the loss: where it lies, and the
/// layers' state, which moves by it at the commit.
template <class Device>
class telling {
 public:
  telling(const run_plan& plan, const stage_arena<Device>& of) : plan_(plan), of_(of) {}

  /// Makes room for what is told in accumulated calls, once the stage is bound.
  GPIPE_ONCE void hold() {
    for (const auto& b : of_.slots())
      if (b.kernels->absorb != nullptr) earlier_.resize(of_.slots().size());
  }

  /// Calls `f(where)` for what each slot with partials tells of micro-batches.
  template <class Call>
  void each(Call&& f) const {
    for (const auto& b : of_.slots())
      if (b.partials.base != nullptr) f(b.partials);
  }
  /// Copies what the stage's like of another replica has told in a step, beside its own.
  GPIPE_OUT_OF_LINE void hear(const telling& other, const step_state& its) const {
    for (std::size_t i = 0; i < of_.slots().size(); ++i) {
      const detail::location &from = other.of_.slots()[i].partials, &into = of_.slots()[i].partials;
      if (from.base == nullptr) continue;
      const std::size_t before = from.stride * static_cast<std::size_t>(its.first_micro_batch);
      of_.device().copy(static_cast<std::ptrdiff_t>(from.stride) * its.filled(),
                    static_cast<const std::byte*>(from.base + before), into.base + before);
    }
  }
  /// Downloads what the kernels of a slot have told of each micro-batch with samples, to where each one's of all is.
  void download(int slot, const step_state& step, double* into) const {
    const detail::location& from = of_.at(slot).partials;
    const std::size_t before = from.stride * static_cast<std::size_t>(step.first_micro_batch);
    of_.device().download(static_cast<std::ptrdiff_t>(from.stride) * step.filled(), from.base + before,
                      reinterpret_cast<std::byte*>(into) + before);
  }

  /// Moves the layers' state by what they have told of the mini-batch's micro-batches. Cannot fail.
  GPIPE_OUT_OF_LINE void absorb(const step_state& step) noexcept {
    for (std::size_t i = 0; i < of_.slots().size(); ++i) {
      const auto& b = of_.slots()[i];
      if (b.kernels->absorb == nullptr) continue;
      call c = call_of_all(b, step, plan_.options.micro_batch_size);
      if (!earlier_.empty() && earlier_[i].count() > 0) {
        earlier_[i].append(of_.device(), c.partials, c.partial_stride, c.micro_batches);
        c.partials = earlier_[i].all();
        c.micro_batches = earlier_[i].count();
      }
      b.kernels->absorb(of_.device(), c);
    }
  }
  /// Keeps what they have told in an accumulated call for that, which may allocate; or forgets it.
  GPIPE_ONCE void keep(const step_state& step) {
    for (std::size_t i = 0; i < earlier_.size(); ++i)
      if (const auto& b = of_.slots()[i]; b.kernels->absorb != nullptr) {
        const call c = call_of_all(b, step, plan_.options.micro_batch_size);
        earlier_[i].keep(of_.device(), c.partials, c.partial_stride, c.micro_batches, plan_.all_micro_batches());
      }
  }
  void forget() noexcept {
    for (auto& told : earlier_) told.forget();
  }

 private:
  const run_plan& plan_;
  const stage_arena<Device>& of_;
  std::vector<told_earlier<Device>> earlier_;  // [slot], where calls are accumulated
};

}  // namespace gpipe::detail
