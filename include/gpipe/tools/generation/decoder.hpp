#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/runtime/processes/collective_calls.hpp>
#include <gpipe/runtime/worker/thread_team.hpp>
#include <gpipe/tools/generation/decode_kernels.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

/// The layers of a generator that this process has: all layers, or in a job the layers of its stages. Values go to all
/// processes from the one that has them:
///
///     layers      0 1 2 | 3 4 | 5 6
///     rank          0   |  1  |  2     rank 2 chooses a token, which goes to all
///                      row   row
class layer_share {
 public:
  /// This process has all layers.
  layer_share() = default;
  /// `ranks`: [layer], the rank that has it.
  layer_share(process_group& job, std::vector<int> ranks) : job_(&job), ranks_(std::move(ranks)) {}

  bool alone() const { return job_ == nullptr; }
  int rank_of(int layer) const { return alone() ? 0 : ranks_[index(layer)]; }
  bool has_rank(int rank) const { return alone() || job_->rank() == rank; }
  bool has(int layer) const { return has_rank(rank_of(layer)); }

  /// Throws if another process makes another call.
  void agree(collective_kind kind, std::span<const agreed_value> values) const {
    if (!alone()) job_->agree(kind, values);
  }
  /// Runs the local part of a call. If it throws here, the call fails in all processes.
  template <class Call>
  void work(Call&& call) const {
    const collective_calls calls(job_);
    calls.together([&] {
      calls.working("generate");
      call();
    });
  }
  /// Sends bytes of rank `root` to all ranks. `tag` is the same everywhere.
  GPIPE_COLD void broadcast(void* bytes, std::size_t size, int root, std::uint64_t tag) const {
    if (alone()) return;
    try {
      job_->broadcast(bytes, size, root, tag);
    } catch (const interrupted&) {
      throw job_->recover();
    }
  }

 private:
  process_group* job_ = nullptr;
  std::vector<int> ranks_;
};

/// Threads that share the products of the calling thread. After a product they spin for some time, because the next one
/// comes soon, and then sleep.
class product_threads final : public host::product_sharing {
 public:
  explicit product_threads(int threads) : signals_(threads), team_(signals_, threads) {}

  int threads() const override { return team_.workers(); }
  void run(void (*part)(const void* product, int i), const void* product) override {
    team_.run([part, product](int worker) { part(product, worker); });
  }

 private:
  worker_signals signals_;
  thread_team team_;
};

/// Shares the products of this thread during its lifetime; with null they are not shared.
class shared_products {
 public:
  explicit shared_products(host::product_sharing* sharing) : previous_(host::sharing_of_thread) {
    host::sharing_of_thread = sharing;
  }
  ~shared_products() { host::sharing_of_thread = previous_; }
  shared_products(const shared_products&) = delete;
  shared_products& operator=(const shared_products&) = delete;

 private:
  host::product_sharing* previous_;
};

/// A model of tokens that makes one token at a time. `sequence` has buffers for all tokens, `token` for one; both have
/// an encoder's buffers for all tokens.
struct decoded_model {
  const network &sequence, &token;
  const decode_row<host::context>* decode;    // [row of `sequence`]
  const forward_row<host::context>* forward;  // [row of `token`]

  /// The first layer of the decoder after an encoder, whose output is the token; -1: there is no encoder.
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
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
// change: memory pages
/// Memory that the system provides on the first write.
using decoder_memory = std::unique_ptr<std::byte[], release_decoder_memory>;

GPIPE_COLD inline decoder_memory allocate_to_decode(std::size_t bytes) {
  const std::size_t boundary = bytes < host::large_page ? alignment : host::large_page;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(boundary, (bytes / boundary + 1) * boundary));
  if (memory == nullptr)
    throw_error({"cannot allocate ", bytes, " bytes to generate tokens"}, {"generate fewer sequences at once"});
  host::use_large_pages(memory, bytes);
  return decoder_memory(memory);
}

/// The parameters of this process's layers, and the values that layers derive from them, such as packed weights.
/// Decoders only read them, so any number of decoders share them: packing takes as long as many tokens.
class decoded_parameters {
 public:
  /// Copies a parameter or a part of the state. `together`: all processes of the job call it for this value, and each
  /// gets the value; otherwise only the process that has the layer calls it.
  using value_reader = std::function<void(const array_location& source, void* target, bool together)>;

  decoded_parameters(const network& sequence, const decode_row<host::context>* decode, layer_share share,
                     const value_reader& read);

  struct layer_memory {
    decoder_memory parameters, state, derived;   // parameters: without tied ones
    std::vector<const std::byte*> parameter_at;  // [parameter], a tied one at its owner
  };
  const layer_memory& operator[](int l) const { return layers_[index(l)]; }
  const layer_share& share() const { return share_; }
  /// All memory of this process for them.
  std::size_t bytes() const { return bytes_; }

 private:
  decoder_memory allocate(std::size_t bytes) {
    bytes_ += bytes;
    return allocate_to_decode(bytes);
  }

  layer_share share_;
  std::vector<layer_memory> layers_;      // empty: another process has the layer
  std::vector<decoder_memory> borrowed_;  // parameters of other processes' layers that local layers are tied to
  std::size_t bytes_ = 0;
};

/// Makes the logits that follow a token, for several sequences at once. The extras of layers keep the data of earlier
/// tokens, so a token costs one row:
///
///     position 0 1 2 3
///     keys     x x x .      step 3 writes the key and the value of token 3, and reads all four
///
/// A layer that does not depend on the token belongs to the source, which is an encoder. It runs once, before the first
/// token, and all sequences read its outputs.
///
///     source layers -> memory -----.
///     token layers  ---------------> logits    for each token
///
/// The calling thread runs the layers, and shares large products with other threads. `parameters` must outlive the
/// decoder. In a job all processes make the same calls: each runs its own layers, and sends their outputs to the
/// processes that read them.
class decoder {
 public:
  decoder(const decoded_model& model, const decoded_parameters& parameters, int samples, int threads);

  int samples() const { return samples_; }
  int tokens() const { return static_cast<int>(model_.tokens().part.size); }
  int vocabulary() const;

  /// The tokens that the encoder reads.
  int source_tokens() const { return static_cast<int>(model_.sequence.values[0].part.size); }
  /// Whether a source may have fewer tokens: all layers that mix its tokens read their number.
  bool counts_source() const;

  /// The rank that has the logits.
  int last_rank() const { return segments_.back().rank; }
  /// The memory of this process for the data of earlier tokens and for the rows between layers.
  std::size_t bytes() const { return bytes_; }

  /// Runs the encoder, before the first step.
  void encode(std::span<const std::int32_t> source);

  /// Appends `next` at `position` to each sequence, and returns the logits that follow: [samples][vocabulary], valid
  /// until the next call; empty in a process that does not have them. Positions ascend from 0.
  std::span<const float> step(std::span<const std::int32_t> next, int position);

  /// Sequence i continues the first `tokens` tokens of sequence `parents[i]`.
  void reorder(std::span<const int> parents, int tokens);

 private:
  const layer_type& row_at(int l) const { return model_.sequence.type_of(l); }
  const decode_row<host::context>& decode_at(int l) const { return model_.decode[model_.sequence.layers[l].type]; }
  const forward_row<host::context>& forward_at(int l) const { return model_.forward[model_.token.layers[l].type]; }
  call call_of(int l) const;
  const layer_type& loss() const { return model_.token.type_of(model_.token.loss_layer()); }
  /// The logits are the input of the loss, or the loss or the slices of a head make them.
  edge_part read_by_loss() const { return model_.token.values[value_read_by_loss()].part; }
  int value_read_by_loss() const { return model_.token.reads_value(model_.token.loss_layer(), 0); }
  /// Calls visit(layer, part) for each layer that makes logits.
  template <class Visit>
  void each_part(const Visit& visit) const {
    for (int l = 0; l < end_; ++l) {
      const layer_type& type = model_.token.type_of(l);
      if (type.predicted >= 0) visit(l, edge_part{type.extras[type.predicted].size, type.extras[type.predicted].type});
    }
  }
  /// Whether several layers make the logits: a head in slices.
  bool in_slices() const { return loss().predicted < 0 && !loss().predicts; }
  std::byte* made_by(int l) const {
    const layer_type& type = model_.token.type_of(l);
    return extras_[index(l)].get() + type.extra_offset(type.predicted, samples_);
  }
  void bring_slices();
  bool makes_logits(int l) const { return model_.token.type_of(l).predicted >= 0; }
  const std::byte* logits();
  void require_decodable() const;
  void require_decodable(int l) const;
  void require_encodable(int l) const;
  bool reads_fields(int l) const;
  void find_source();
  void cut_by_rank();
  void run(const std::vector<int>& layers, int position);
  void run_segments(bool source, int position);
  /// Whether a layer or a value belongs to the source.
  bool is_source_layer(int l) const { return source_layer_[index(l)] != 0; }
  bool is_source_value(int v) const { return source_value_[index(v)] != 0; }
  int rows_of(int v) const { return is_source_value(v) ? 1 : samples_; }
  decoder_memory allocate(std::size_t bytes) {
    bytes_ += bytes;
    return allocate_to_decode(bytes);
  }

  /// Consecutive layers of one rank.
  struct layer_segment {
    int rank;
    bool source;
    std::vector<int> layers, sent;  // sent: values that another rank reads
  };

  decoded_model model_;
  const decoded_parameters& parameters_;
  host::context context_{};
  int samples_, start_, token_, end_;  // start_: model_.start(); token_: a value; end_: after the last layer that runs
  std::vector<char> source_layer_, source_value_;
  std::vector<std::int32_t> lengths_;    // of the source, [sequence]
  std::vector<layer_segment> segments_;  // all layers that run, in order: the source first
  std::vector<decoder_memory> extras_;   // [layer]; null: in the source, or in another process
  decoder_memory source_extras_;         // shared by all source layers, which need them only while they run
  decoder_memory workspace_;             // shared by all layers, for forward or `decode`
  std::vector<decoder_memory> values_;   // null: no layer of this process reads or writes it
  decoder_memory passing_;               // a value that goes from another process to a third one
  std::size_t bytes_ = 0;
  std::vector<float> joined_;                 // the logits of several slices, [samples][vocabulary]
  std::unique_ptr<product_threads> sharing_;  // null: one thread
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/tools/generation/decoder-inl.hpp>
#endif
