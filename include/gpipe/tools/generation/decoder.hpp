#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/tools/generation/decode_kernels.hpp>
#include <gpipe/tools/generation/layer_share.hpp>
#include <gpipe/tools/generation/product_threads.hpp>

namespace gpipe::detail {

/// A model of tokens, as it makes one token after the other. `sequence` has its buffers for all tokens, `token` for
/// one; both have an encoder's for all.
struct decoded_model {
  const network &sequence, &token;
  const decode_row<host::context>* decode;    // of the rows of `sequence`
  const forward_row<host::context>* forward;  // of the rows of `token`

  /// The layer with which the decoder behind an encoder begins: its output is the token; -1: there is no encoder.
  int start() const {
    for (int l = 0; l < token.layer_count; ++l)
      if (token.layers[l].reads == 0 && token.layers[l].writes == 1 &&
          token.type_of(l).out[0].size != sequence.type_of(l).out[0].size)
        return l;
    return -1;
  }
  bool encodes() const { return start() >= 0; }
  /// The value with the token; without an encoder it enters the model.
  const value& tokens() const { return sequence.values[encodes() ? sequence.writes_value(start(), 0) : 0]; }
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

/// The parameters of the layers that this process has, and what layers derive from them, such as packed weights.
/// Decoders read them and write none, so that any number of decoders share them: packing takes as long as many tokens.
class decoded_parameters {
 public:
  /// Copies a parameter or a part of the state. `together`: all processes of the job call it for this value, and each
  /// of them gets it; else only the process that has the layer does.
  using value_reader = std::function<void(const array_location& from, void* into, bool together)>;

  decoded_parameters(const network& sequence, const decode_row<host::context>* decode, layer_share share,
                     const value_reader& read);

  struct of_layer {
    decoder_memory parameters, state, derived;   // parameters: its own
    std::vector<const std::byte*> parameter_at;  // of each parameter, a tied one at its owner
  };
  const of_layer& operator[](int l) const { return layers_[index(l)]; }
  const layer_share& share() const { return share_; }
  /// All that is here.
  std::size_t bytes() const { return bytes_; }

 private:
  decoder_memory allocate(std::size_t bytes) {
    bytes_ += bytes;
    return allocate_to_decode(bytes);
  }

  layer_share share_;
  std::vector<of_layer> layers_;          // empty: another process has the layer
  std::vector<decoder_memory> borrowed_;  // parameters of other processes' layers, to which layers here are tied
  std::size_t bytes_ = 0;
};

/// Makes the logits that follow a token, for several sequences at once. What layers keep of earlier tokens stays in
/// their extras, so that a token costs one row:
///
///     position 0 1 2 3
///     keys     x x x .      step 3 writes the key and the value of token 3, and reads all four
///
/// A layer that does not depend on the token is of the source, which is an encoder's: it runs once, before the first
/// token, and all sequences read what it writes.
///
///     source layers -> memory -----.
///     token layers  ---------------> logits    for each token
///
/// It runs on the calling thread, which shares its large products with others. `parameters` must live as long. In a job
/// all processes make the same calls: each runs its own layers, and sends what they write to those that read it.
class decoder {
 public:
  decoder(const decoded_model& of, const decoded_parameters& parameters, int samples, int threads);

  int samples() const { return samples_; }
  int tokens() const { return static_cast<int>(of_.tokens().part.size); }
  int vocabulary() const;

  /// The tokens that the encoder reads.
  int source_tokens() const { return static_cast<int>(of_.sequence.values[0].part.size); }
  /// Whether a source may have fewer: all layers that mix its tokens read how many there are.
  bool counts_source() const;

  /// The rank that has the logits.
  int last_rank() const { return segments_.back().rank; }
  /// The memory for what layers here keep of earlier tokens, and for the rows between layers.
  std::size_t bytes() const { return bytes_; }

  /// Runs the encoder, before the first step.
  void encode(std::span<const std::int32_t> source);

  /// The logits behind each sequence when `next` has come at `position`: [samples][vocabulary], valid until the next
  /// call; empty in a process that does not have them. Positions come in ascending order from 0.
  std::span<const float> step(std::span<const std::int32_t> next, int position);

  /// Sequence i goes on from what sequence `parents[i]` was, of `tokens` tokens.
  void reorder(std::span<const int> parents, int tokens);

 private:
  const layer_type& row_at(int l) const { return of_.sequence.type_of(l); }
  const decode_row<host::context>& decode_at(int l) const { return of_.decode[of_.sequence.layers[l].type]; }
  const forward_row<host::context>& forward_at(int l) const { return of_.forward[of_.token.layers[l].type]; }
  call call_of(int l) const;
  const layer_type& loss() const { return of_.token.type_of(of_.token.loss_layer()); }
  /// The logits are what the loss reads, or what it or the slices of a head make.
  edge_part read_by_loss() const { return of_.token.values[value_read_by_loss()].part; }
  int value_read_by_loss() const { return of_.token.reads_value(of_.token.loss_layer(), 0); }
  /// Calls visit(layer, part) for each layer that makes logits.
  template <class Visit>
  void each_part(const Visit& visit) const {
    for (int l = 0; l < end_; ++l) {
      const layer_type& r = of_.token.type_of(l);
      if (r.predicted >= 0) visit(l, edge_part{r.extras[r.predicted].size, r.extras[r.predicted].type});
    }
  }
  /// Whether several layers make the logits: a head in slices.
  bool in_slices() const { return loss().predicted < 0 && !loss().predicts; }
  std::byte* made_by(int l) const {
    const layer_type& r = of_.token.type_of(l);
    return extras_[index(l)].get() + r.extra_offset(r.predicted, samples_);
  }
  void bring_slices();
  bool makes_logits(int l) const { return of_.token.type_of(l).predicted >= 0; }
  const std::byte* logits();
  void require_decodable() const;
  void require_decodable(int l) const;
  void require_encodable(int l) const;
  bool reads_fields(int l) const;
  void find_source();
  void cut_by_rank();
  void run(const std::vector<int>& layers, int position);
  void run_segments(bool of_source, int position);
  /// Whether a layer or a value is of the source.
  bool of_source(int l) const { return source_layer_[index(l)] != 0; }
  bool value_of_source(int v) const { return source_value_[index(v)] != 0; }
  int rows_of(int v) const { return value_of_source(v) ? 1 : samples_; }
  decoder_memory allocate(std::size_t bytes) {
    bytes_ += bytes;
    return allocate_to_decode(bytes);
  }

  /// Neighbours that one rank has.
  struct segment {
    int rank;
    bool source;
    std::vector<int> layers, sent;  // sent: values that another rank reads
  };

  decoded_model of_;
  const decoded_parameters& parameters_;
  host::context context_{};
  int samples_, start_, token_, end_;  // start_: of_.start(); token_: a value; end_: behind the last layer that runs
  std::vector<char> source_layer_, source_value_;
  std::vector<std::int32_t> lengths_;   // of the source, for each sequence
  std::vector<segment> segments_;       // all layers that run, in order: those of the source first
  std::vector<decoder_memory> extras_;  // [layer]; null: of the source, or another process has the layer
  decoder_memory source_extras_;        // of all layers of the source, which need them while they run
  decoder_memory workspace_;            // of all layers, of forward or of `decode`
  std::vector<decoder_memory> values_;  // null: no layer here reads or writes it
  decoder_memory passing_;              // a value that goes from another process to a third one
  std::size_t bytes_ = 0;
  std::vector<float> joined_;                 // the logits of several slices, [samples][vocabulary]
  std::unique_ptr<product_threads> sharing_;  // null: one thread
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/tools/generation/decoder-inl.hpp>
#endif
