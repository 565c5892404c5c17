#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Looks at the layers of a stage while it trains: downloads rows of those that are watched, and notes hashes, for
/// which it waits until they are computed. What a step is replayed for, and what an evaluation does, it does not see.
template <class Context>
class observer {
 public:
  using bound = bound_slot<Context>;

  observer(const network& net, int moments) : net_(&net), moments_(moments) {}

  void note_in(digest& into) {
    notes_ = &into;
    piece_.resize(std::size_t{1} << 16);
  }
  bool notes() const { return notes_ != nullptr; }

  GPIPE_OUT_OF_LINE void after_forward(const Context& c, const bound& b, const call& done, const step_state& step,
                                       int m) {
    if (!looks(step)) return;
    if (b.watched != nullptr)
      for (int o = 0; o < b.outputs; ++o)
        copy(c, b.value_out[o], b.out[o].at(m, false), b.watched->outputs, o, step, m);
    if (!noting()) return;
    hash sum;
    for (int o = 0; o < b.outputs; ++o) add(c, b.out[o].at(m, false), bytes(b.value_out[o], step.samples(m)), sum);
    if (done.partials != nullptr)
      add(c, reinterpret_cast<const std::byte*>(done.partials), sizeof(double) * b.layer->partial_elements(), sum);
    notes_->put(act::forward, step.among_all(m), b.slot, sum.value());
  }

  /// The gradients of the outputs are complete.
  GPIPE_OUT_OF_LINE void before_backward(const Context& c, const bound& b, const step_state& step, int m) const {
    if (!looks(step) || b.watched == nullptr) return;
    for (int o = 0; o < b.outputs; ++o)
      if (b.out_gradient[o].base != nullptr)
        copy(c, b.value_out[o], b.out_gradient[o].at(m, true), b.watched->gradients, o, step, m);
  }

  /// The layer's own parts of its inputs' gradients are there, and not yet added to those of other readers.
  GPIPE_OUT_OF_LINE void after_input_part(const Context& c, const bound& b, const step_state& step, int m) {
    if (!looks(step) || !noting()) return;
    hash sum;
    for (int i = 0; i < b.inputs; ++i)
      if (b.in_gradient[i].base != nullptr)
        add(c, b.in_gradient[i].at(m, true), bytes(b.value_in[i], step.samples(m)), sum);
    notes_->put(act::backward_input, step.among_all(m), b.slot, sum.value());
  }

  GPIPE_OUT_OF_LINE void after_parameter_part(const Context& c, const bound& b, const step_state& step, int m) {
    if (!looks(step) || !noting()) return;
    hash sum;
    add(c, b.gradients, b.layer->parameter_bytes(), sum);
    notes_->put(act::backward_parameters, step.among_all(m), b.slot, sum.value());
  }

  /// `flat_bytes` are between a slot's parameters and its gradients, and between these and each of its moments.
  GPIPE_OUT_OF_LINE void after_update(const Context& c, const bound& b, std::size_t flat_bytes) {
    if (!noting() || !net_->owns(b.slot)) return;
    hash sum;
    add(c, b.parameters, b.layer->parameter_bytes(), sum);
    for (int k = 0; k < moments_; ++k)
      add(c, b.parameters + static_cast<std::size_t>(k + 2) * flat_bytes, b.layer->parameter_bytes(), sum);
    notes_->put(act::update, -1, b.slot, sum.value());
  }

 private:
  bool noting() const { return notes_ != nullptr && !notes_->full(); }
  static bool looks(const step_state& step) { return step.training && step.applied && !step.examining; }

  std::size_t bytes(int v, int samples) const {
    return net_->values[v].part.size * bytes_of(net_->values[v].part.type) * static_cast<std::size_t>(samples);
  }
  void copy(const Context& c, int v, const std::byte* from, sample_rows& into, int tensor, const step_state& step,
            int m) const {
    c.download(static_cast<std::ptrdiff_t>(bytes(v, step.samples(m))), from, into.at(tensor, step.first_sample(m)));
  }
  GPIPE_OUT_OF_LINE void add(const Context& c, const std::byte* from, std::size_t bytes, hash& sum) {
    for (std::size_t done = 0; done < bytes; done += piece_.size()) {
      const std::size_t some = (std::min)(piece_.size(), bytes - done);
      c.download(static_cast<std::ptrdiff_t>(some), from + done, piece_.data());
      c.finish();
      sum.add(piece_.data(), some);
    }
  }

  const network* net_;
  int moments_;
  digest* notes_ = nullptr;
  std::vector<std::byte> piece_;  // of what is hashed
};

}  // namespace gpipe::detail
