#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/train/generation/decode_kernels.hpp>
#include <gpipe/train/generation/product_threads.hpp>

namespace gpipe::detail {

/// A model of tokens, as it makes one token after the other. `sequence` has its buffers for all tokens, `token` for
/// one.
struct decoded_model {
  const network &sequence, &token;
  const decode_row<host::context>* decode;   // of the rows of `sequence`
  const forward_row<host::context>* forward;  // of the rows of `token`
};

struct release_decoder_memory {
  void operator()(std::byte* at) const noexcept { std::free(at); }
};
/// Memory that the system provides when it is written first.
using decoder_memory = std::unique_ptr<std::byte[], release_decoder_memory>;

GPIPE_COLD inline decoder_memory allocate_to_decode(std::size_t bytes) {
  const std::size_t boundary = bytes < host::large_page ? alignment : host::large_page;
  auto* at = static_cast<std::byte*>(std::aligned_alloc(boundary, (bytes / boundary + 1) * boundary));
  if (at == nullptr)
    throw_error({"cannot allocate ", bytes, " bytes to generate tokens"}, {"generate fewer sequences at once"});
  host::use_large_pages(at, bytes);
  return decoder_memory(at);
}

/// The parameters of a model and what its layers derive from them, such as packed weights. Decoders read them and write
/// none, so that any number of decoders share them: packing takes as long as many tokens.
class decoded_parameters {
 public:
  /// `values` are parameters and state, as `keep_values` copies them.
  decoded_parameters(const network& sequence, const decode_row<host::context>* decode,
                     std::span<const std::byte> values);

  struct of_layer {
    decoder_memory parameters, state, derived;   // parameters: its own
    std::vector<const std::byte*> parameter_at;  // of each parameter, a tied one at its owner
  };
  const of_layer& operator[](int l) const { return layers_[index(l)]; }

 private:
  std::vector<of_layer> layers_;
};

/// Makes the logits that follow a token, for several sequences at once. What layers keep of earlier tokens stays in
/// their extras, so that a token costs one row:
///
///     position 0 1 2 3
///     keys     x x x .      step 3 writes the key and the value of token 3, and reads all four
///
/// It runs on the calling thread, which shares its large products with others. `parameters` must live as long.
class decoder {
 public:
  decoder(const decoded_model& of, const decoded_parameters& parameters, int samples, int threads);

  int samples() const { return samples_; }
  int tokens() const { return static_cast<int>(of_.sequence.values[0].part.size); }
  int vocabulary() const { return static_cast<int>(logits_part().size); }

  /// The logits behind each sequence when `next` has come at `position`: [samples][vocabulary], valid until the next
  /// call. Positions come in ascending order from 0.
  std::span<const float> step(std::span<const std::int32_t> next, int position);

  /// Sequence i goes on from what sequence `parents[i]` was, of `tokens` tokens.
  void reorder(std::span<const int> parents, int tokens);

 private:
  const row& row_at(int l) const { return of_.sequence.row_of(l); }
  const decode_row<host::context>& decode_at(int l) const { return of_.decode[of_.sequence.slots[l].row]; }
  const forward_row<host::context>& forward_at(int l) const { return of_.forward[of_.token.slots[l].row]; }
  call call_of(int l) const;
  const row& loss() const { return of_.token.row_of(of_.token.loss_slot()); }
  /// The logits are what the loss reads, or what it makes itself.
  edge_part logits_part() const {
    if (loss().predicted < 0) return of_.token.values[read_by_loss()].part;
    return {loss().extras[loss().predicted].size, loss().extras[loss().predicted].type};
  }
  int read_by_loss() const { return of_.token.reads_value(of_.token.loss_slot(), 0); }
  const std::byte* logits() const;
  void require_decodable() const;

  decoded_model of_;
  const decoded_parameters& parameters_;
  host::context context_{};
  int samples_, end_;                   // the slot behind the last one that runs
  std::vector<decoder_memory> extras_;  // [layer]
  decoder_memory workspace_;            // of all layers
  std::vector<decoder_memory> values_;
  std::unique_ptr<product_threads> sharing_;  // null: one thread
};

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE decoded_parameters::decoded_parameters(const network& sequence,
                                                               const decode_row<host::context>* decode,
                                                               std::span<const std::byte> values) {
  for (int l = 0; l < sequence.slot_count; ++l) {
    const row& r = sequence.row_of(l);
    of_layer& layer = layers_.emplace_back();
    layer.parameters = allocate_to_decode(sequence.own_bytes(l));
    for (int p = 0; p < r.parameter_count; ++p) {
      const parameter_place owner = sequence.owner(l, p);
      layer.parameter_at.push_back(layers_[index(owner.slot)].parameters.get() +
                                   sequence.own_bytes(owner.slot, owner.index));
    }
    layer.state = allocate_to_decode(r.state_bytes());
    layer.derived = allocate_to_decode(r.derived_bytes());
  }
  std::size_t from = 0;
  each_value(sequence, [&](const value_place& v) {
    const of_layer& layer = layers_[index(v.slot)];
    std::byte* const into = v.kind == memory_kind::parameters ? layer.parameters.get() : layer.state.get();
    std::memcpy(into + v.at, values.data() + from, v.bytes);
    from += v.bytes;
  });
  for (int l = 0; l < sequence.slot_count; ++l) {
    const auto refresh = decode[sequence.slots[l].row].refresh;
    if (refresh == nullptr) continue;
    call c;
    c.lists = sequence.row_of(l).lists;
    c.parameter_at = layers_[index(l)].parameter_at.data();
    c.state = layers_[index(l)].state.get();
    c.derived = layers_[index(l)].derived.get();
    refresh(host::context{}, c);
  }
}

GPIPE_COLD GPIPE_INLINE decoder::decoder(const decoded_model& of, const decoded_parameters& parameters, int samples,
                                          int threads)
    : of_(of),
      parameters_(parameters),
      samples_(samples),
      end_(of.token.loss_slot() + (loss().predicted >= 0 ? 1 : 0)) {
  require_decodable();
  for (int v = 0; v < of_.token.value_count; ++v)
    values_.push_back(allocate_to_decode(of_.token.values[v].part.bytes(samples)));
  std::size_t workspace = 0;
  for (int l = 0; l < end_; ++l) {
    const bool decodes = decode_at(l).decode != nullptr;
    const row& r = decodes ? row_at(l) : of_.token.row_of(l);
    extras_.push_back(allocate_to_decode(r.extra_bytes(samples)));
    if (decodes) workspace = (std::max)(workspace, r.workspace_bytes(samples));
    if (forward_at(l).prepare != nullptr) forward_at(l).prepare(context_, samples, of_.token.row_of(l).lists);
  }
  workspace_ = allocate_to_decode(workspace);
  if (threads > 1) sharing_ = std::make_unique<product_threads>(threads);
}

GPIPE_COLD GPIPE_INLINE void decoder::require_decodable() const {
  for (int l = 0; l < end_; ++l) {
    const row &all = row_at(l), &one = of_.token.row_of(l);
    const location here{.layer = std::string(all.name), .slot = l};
    bool same = all.parameter_count == one.parameter_count && all.state_count == one.state_count;
    for (int p = 0; same && p < all.parameter_count; ++p)
      same = all.parameters[p].extents.size() == one.parameters[p].extents.size();
    if (!same)
      throw_error({"the layer has other parameters for one token than for ", tokens()},
                  {"tokens can be generated by layers that work on each token"}, here);
    if (decode_at(l).decode == nullptr && decode_at(l).mixes_tokens)
      throw_error({"the output of the layer for a token depends on later ones"},
                  {"generate with attention that is causal, and without lengths"}, here);
    if (decode_at(l).decode == nullptr && forward_at(l).forward == nullptr)
      throw_error({"the layer has no forward on the host"}, {"write it"}, here);
    for (int o = 0; l != of_.token.loss_slot() && o < one.outputs; ++o)
      if (one.out_extents[o].extents[0] != 1)
        throw_error({"the layer's output has ", one.out_extents[o].extents[0], " rows for one token"},
                    {"tokens can be generated by layers that work on each token"}, here);
    if (l != of_.token.loss_slot() && all.field_count > 0)
      throw_error({"the layer reads the field \"", all.fields[0].name, "\""},
                  {"tokens can be generated by a model whose only input is tokens"}, here);
  }
  if (logits_part().type != dtype::float32)
    throw_error({"the logits are ", name_of(logits_part().type)}, {"generate with a model of floats"});
  if (const std::int64_t below = of_.sequence.values[0].below; below > 0 && vocabulary() > below)
    throw_error({"the model gives logits of ", vocabulary(), " tokens, but reads tokens below ", below},
                {"choose the same vocabulary for the embedding and for the last layer"});
}

GPIPE_COLD GPIPE_INLINE call decoder::call_of(int l) const {
  const detail::slot& s = of_.token.slots[l];
  call c;
  c.lists = decode_at(l).decode != nullptr ? row_at(l).lists : of_.token.row_of(l).lists;
  c.samples = c.capacity = samples_;
  for (int i = 0; i < s.reads; ++i) c.in[i] = values_[index(of_.token.reads_value(l, i))].get();
  for (int o = 0; o < s.writes; ++o) c.out[o] = values_[index(of_.token.writes_value(l, o))].get();
  c.parameter_at = parameters_[l].parameter_at.data();
  c.state = parameters_[l].state.get();
  c.derived = parameters_[l].derived.get();
  c.extras = extras_[index(l)].get();
  c.workspace = workspace_.get();
  return c;
}

GPIPE_COLD GPIPE_INLINE std::span<const float> decoder::step(std::span<const std::int32_t> next, int position) {
  const shared_products sharing(sharing_.get());
  std::memcpy(values_[0].get(), next.data(), next.size_bytes());
  for (int l = 0; l < end_; ++l) {
    if (const auto decode = decode_at(l).decode) decode(context_, call_of(l), position);
    else forward_at(l).forward(context_, call_of(l));
  }
  const std::span found{reinterpret_cast<const float*>(logits()), index(samples_) * index(vocabulary())};
  if (std::any_of(found.begin(), found.end(), [](float x) { return std::isnan(x); }))
    throw_error({"the logits behind token ", position, " are not numbers"},
                {"train the model again, or load another checkpoint: its parameters are not finite"});
  return found;
}

GPIPE_COLD GPIPE_INLINE const std::byte* decoder::logits() const {
  if (loss().predicted < 0) return values_[index(read_by_loss())].get();
  return extras_.back().get() + loss().extra_offset(loss().predicted, samples_);
}

GPIPE_COLD GPIPE_INLINE void decoder::reorder(std::span<const int> parents, int tokens) {
  std::vector<std::byte> kept;
  for (int l = 0; l < end_; ++l) {
    const row& r = row_at(l);
    std::size_t at = 0;
    for (int e = 0; e < decode_at(l).kept_extras; ++e) {
      const std::size_t all = r.extras[e].size * bytes_of(r.extras[e].type),
                        used = all / index(this->tokens()) * index(tokens);
      kept.resize(used * parents.size());
      for (std::size_t i = 0; i < parents.size(); ++i)
        std::memcpy(kept.data() + i * used, extras_[index(l)].get() + at + index(parents[i]) * all, used);
      for (std::size_t i = 0; i < parents.size(); ++i)
        std::memcpy(extras_[index(l)].get() + at + i * all, kept.data() + i * used, used);
      at += r.extras[e].bytes(index(samples_));
    }
  }
}
#endif

}  // namespace gpipe::detail
