#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

// assumes: one parameter type
/// Records the layers of a stage: downloads the rows of watched layers, also in passes that only run forward. For a
/// digest, it waits until the results of train and accumulate passes are computed, and hashes them.
class activation_recorder {
 public:
  using bound = bound_layer;

  activation_recorder(const network& net, int moments) : net_(&net), moments_(moments) {}

  void record_in(digest& target) {
    digest_ = &target;
    piece_.resize(std::size_t{1} << 16);
  }
  bool has_digest() const { return digest_ != nullptr; }

  GPIPE_OUT_OF_LINE void after_forward(const device_context& c, const bound& b, const call& done,
                                       const step_context& step, int m) {
    if (step.is_watched() && b.watched != nullptr)
      for (int o = 0; o < b.outputs; ++o)
        copy(c, b.value_out[o], b.out[o].at(m, false), b.watched->outputs, o, step, m);
    if (!step.is_recorded() || !hashes()) return;
    hash sum;
    for (int o = 0; o < b.outputs; ++o) add(c, b.out[o].at(m, false), bytes(b.value_out[o], step.samples(m)), sum);
    if (done.partials != nullptr)
      add(c, reinterpret_cast<const std::byte*>(done.partials), sizeof(double) * b.layer->partial_elements(), sum);
    digest_->put(action_kind::forward, step.global_micro_batch(m), b.layer_index, sum.value());
  }

  /// Called when the gradients of the outputs are complete.
  GPIPE_OUT_OF_LINE void before_backward(const device_context& c, const bound& b, const step_context& step,
                                         int m) const {
    if (!step.is_recorded() || b.watched == nullptr) return;
    for (int o = 0; o < b.outputs; ++o)
      if (b.out_gradient[o].base != nullptr)
        copy(c, b.value_out[o], b.out_gradient[o].at(m, true), b.watched->gradients, o, step, m);
  }

  /// Called when the layer has computed its part of its inputs' gradients, before it is added to the other readers'
  /// parts.
  GPIPE_OUT_OF_LINE void after_input_part(const device_context& c, const bound& b, const step_context& step, int m) {
    if (!step.is_recorded() || !hashes()) return;
    hash sum;
    for (int i = 0; i < b.inputs; ++i)
      if (b.in_gradient[i].base != nullptr)
        add(c, b.in_gradient[i].at(m, true), bytes(b.value_in[i], step.samples(m)), sum);
    digest_->put(action_kind::backward_input, step.global_micro_batch(m), b.layer_index, sum.value());
  }

  GPIPE_OUT_OF_LINE void after_parameter_part(const device_context& c, const bound& b, const step_context& step,
                                              int m) {
    if (!step.is_recorded() || !hashes()) return;
    hash sum;
    add(c, b.owned.gradients, b.owned.bytes, sum);
    add(c, b.tied.gradients, b.tied.bytes, sum);
    digest_->put(action_kind::backward_parameters, step.global_micro_batch(m), b.layer_index, sum.value());
  }

  /// The layer's moments begin at `moments`, `stride` bytes apart.
  GPIPE_OUT_OF_LINE void after_update(const device_context& c, const bound& b, const std::byte* moments,
                                      std::size_t stride) {
    if (!hashes() || (b.owned.bytes == 0 && b.tied.bytes > 0)) return;
    hash sum;
    add(c, b.owned.parameters, b.owned.bytes, sum);
    for (int k = 0; k < moments_; ++k) add(c, moments + static_cast<std::size_t>(k) * stride, b.owned.bytes, sum);
    digest_->put(action_kind::update, -1, b.layer_index, sum.value());
  }

 private:
  bool hashes() const { return digest_ != nullptr && !digest_->full(); }

  std::size_t bytes(int v, int samples) const {
    return net_->values[v].part.size * bytes_of(net_->values[v].part.type) * static_cast<std::size_t>(samples);
  }
  void copy(const device_context& c, int v, const std::byte* source, tensor_rows& rows, int tensor,
            const step_context& step, int m) const {
    c.download(static_cast<std::ptrdiff_t>(bytes(v, step.samples(m))), source, rows.at(tensor, step.first_sample(m)));
  }
  GPIPE_OUT_OF_LINE void add(const device_context& c, const std::byte* source, std::size_t bytes, hash& sum) {
    for (std::size_t done = 0; done < bytes; done += piece_.size()) {
      const std::size_t some = (std::min)(piece_.size(), bytes - done);
      c.download(static_cast<std::ptrdiff_t>(some), source + done, piece_.data());
      c.finish();
      sum.add(piece_.data(), some);
    }
  }

  const network* net_;
  int moments_;
  digest* digest_ = nullptr;
  std::vector<std::byte> piece_;  // a part of a buffer on its way to the hash
};

}  // namespace gpipe::detail
