#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/tools/generation/decoder.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE decoded_parameters::decoded_parameters(const network& sequence,
                                                               const decode_row<host::context>* decode,
                                                               layer_share share, const value_reader& read)
    : share_(std::move(share)) {
  struct borrowed_value {
    array_location source;
    int rank_of_borrower;
    std::byte* memory;
  };
  std::vector<borrowed_value> borrowed;  // by the layers of all processes
  share_.work([&] {
    for (int l = 0; l < sequence.layer_count; ++l) {
      const layer_type& type = sequence.type_of(l);
      layer_memory& layer = layers_.emplace_back();
      const bool is_local = share_.has(l);
      if (is_local) {
        layer.parameters = allocate(sequence.own_bytes(l));
        layer.state = allocate(type.state_bytes());
        layer.derived = allocate(type.derived_bytes());
      }
      for (int p = 0; p < type.parameter_count; ++p) {
        const array_location owner = locate(sequence, {l, p});
        const int rank = share_.rank_of(l);
        if (share_.rank_of(owner.layer_index) == rank) {
          if (is_local) layer.parameter_at.push_back(layers_[index(owner.layer_index)].parameters.get() + owner.offset);
          continue;
        }
        auto borrower = std::find_if(borrowed.begin(), borrowed.end(), [&](const borrowed_value& borrowed_parameter) {
          return borrowed_parameter.source == owner && borrowed_parameter.rank_of_borrower == rank;
        });
        if (borrower == borrowed.end()) {
          if (is_local) borrowed_.push_back(allocate(owner.bytes));
          borrower = borrowed.insert(borrower, {owner, rank, is_local ? borrowed_.back().get() : nullptr});
        }
        if (is_local) layer.parameter_at.push_back(borrower->memory);
      }
    }
  });
  std::vector<std::byte> passing;
  each_value(sequence, [&](const array_location& value) {
    std::byte* target = nullptr;
    if (share_.has(value.layer_index)) {
      const layer_memory& layer = layers_[index(value.layer_index)];
      target = (value.kind == memory_kind::parameters ? layer.parameters.get() : layer.state.get()) + value.offset;
    }
    if (target != nullptr) read(value, target, false);
  });
  for (std::size_t i = 0; i < borrowed.size(); ++i) {
    const array_location& source = borrowed[i].source;
    const auto same_source = [&](const borrowed_value& borrowed_parameter) {
      return borrowed_parameter.source == source;
    };
    const auto first = std::find_if(borrowed.begin(), borrowed.end(), same_source);
    if (first != borrowed.begin() + static_cast<std::ptrdiff_t>(i)) continue;  // every borrower has it
    const auto local = std::find_if(first, borrowed.end(), [&](const borrowed_value& borrowed_parameter) {
      return same_source(borrowed_parameter) && borrowed_parameter.memory != nullptr;
    });
    if (local == borrowed.end()) passing.resize(source.bytes);
    read(source, local == borrowed.end() ? passing.data() : local->memory, true);
  }
  share_.work([&] {
    for (int l = 0; l < sequence.layer_count; ++l) {
      const auto refresh = decode[sequence.layers[l].type].refresh;
      if (refresh == nullptr || !share_.has(l)) continue;
      call c;
      c.lists = sequence.type_of(l).lists;
      c.parameter_at = layers_[index(l)].parameter_at.data();
      c.state = layers_[index(l)].state.get();
      c.derived = layers_[index(l)].derived.get();
      refresh(host::context{}, c);
    }
  });
}

GPIPE_COLD GPIPE_INLINE decoder::decoder(const decoded_model& model, const decoded_parameters& parameters, int samples,
                                         int threads)
    : model_(model),
      parameters_(parameters),
      samples_(samples),
      start_(model.start()),
      token_(start_ < 0 ? 0 : model.token.writes_value(start_, 0)),
      end_(model.token.loss_layer() + (loss().predicted >= 0 ? 1 : 0)),
      lengths_(index(samples)) {
  find_source();
  require_decodable();
  cut_by_rank();
  std::size_t workspace = 0, source_extras_bytes = 0;
  for (int l = 0; l < end_; ++l) {
    extras_.emplace_back();
    if (!parameters_.share().has(l)) {  // the last rank joins all slices
      if (in_slices() && makes_logits(l) && parameters_.share().has_rank(last_rank()))
        extras_.back() = allocate(model_.token.type_of(l).extra_bytes(samples));
      continue;
    }
    if (l == start_) continue;
    const int rows = is_source_layer(l) ? 1 : samples;
    const layer_type& token_type = model_.token.type_of(l);
    if (is_source_layer(l)) {
      source_extras_bytes = (std::max)(source_extras_bytes, token_type.extra_bytes(1));
      workspace = (std::max)(workspace, token_type.forward_workspace_bytes(1));
    } else {
      const bool decodes = decode_at(l).decode != nullptr;
      const layer_type& run_type = decodes ? row_at(l) : token_type;
      extras_.back() = allocate(run_type.extra_bytes(samples));
      workspace = (std::max)(workspace,
                             decodes ? run_type.workspace_bytes(samples) : run_type.forward_workspace_bytes(samples));
    }
    if (forward_at(l).prepare != nullptr) forward_at(l).prepare(context_, rows, model_.token.type_of(l).lists);
  }
  workspace_ = allocate(workspace);
  source_extras_ = allocate(source_extras_bytes);
  if (threads > 1) sharing_ = std::make_unique<product_threads>(threads);
}

// Finds the layers and values of the source: they do not depend on the token.
GPIPE_COLD GPIPE_INLINE void decoder::find_source() {
  source_layer_.assign(index(model_.token.layer_count), start_ >= 0);
  source_value_.assign(index(model_.token.value_count), start_ >= 0);
  if (start_ < 0) return;
  source_layer_[index(start_)] = source_value_[index(token_)] = 0;
  for (int l = 0; l < model_.token.layer_count; ++l) {
    const expanded_layer& layer = model_.token.layers[l];
    for (int i = 0; i < layer.reads; ++i)
      if (!is_source_value(model_.token.reads_value(l, i))) source_layer_[index(l)] = 0;
    for (int o = 0; o < layer.writes; ++o)
      source_value_[index(model_.token.writes_value(l, o))] = source_layer_[index(l)];
  }
}

// Cuts the layers that run into segments of one rank each, and allocates values where they are read or written.
GPIPE_COLD GPIPE_INLINE void decoder::cut_by_rank() {
  const layer_share& share = parameters_.share();
  std::vector<char> is_local(index(model_.token.value_count));
  std::vector<int> written_in(is_local.size(), -1);  // the segment; -1: the tokens, which every process has
  std::size_t passing_bytes = 0;
  const auto sends = [&](int v) {
    std::vector<int>& sent = segments_[index(written_in[index(v)])].sent;
    if (std::find(sent.begin(), sent.end(), v) == sent.end()) sent.push_back(v);
  };
  for (const bool source : {true, false})
    for (int l = 0; l < end_; ++l) {
      if (is_source_layer(l) != source || l == start_) continue;
      const int rank = share.rank_of(l);
      const detail::expanded_layer& layer = model_.token.layers[l];
      if (segments_.empty() || segments_.back().rank != rank || segments_.back().source != source)
        segments_.push_back({rank, source, {}, {}});
      segments_.back().layers.push_back(l);
      for (int i = 0; i < layer.reads; ++i) {
        const int v = model_.token.reads_value(l, i), writer = written_in[index(v)];
        if (share.has(l)) is_local[index(v)] = 1;
        if (writer >= 0 && segments_[index(writer)].rank != rank) sends(v);
      }
      for (int o = 0; o < layer.writes; ++o) {
        const int v = model_.token.writes_value(l, o);
        written_in[index(v)] = static_cast<int>(segments_.size()) - 1;
        if (share.has(l)) is_local[index(v)] = 1;
      }
    }
  // The last rank reads the logits.
  if (loss().predicts && loss().predicted < 0) {
    const int v = value_read_by_loss(), writer = written_in[index(v)];
    if (share.has_rank(last_rank())) is_local[index(v)] = 1;
    if (writer >= 0 && segments_[index(writer)].rank != last_rank()) sends(v);
  }
  for (const layer_segment& segment : segments_)
    for (const int v : segment.sent)
      if (!is_local[index(v)]) passing_bytes = (std::max)(passing_bytes, model_.token.values[v].part.bytes(rows_of(v)));
  for (int v = 0; v < model_.token.value_count; ++v)
    values_.push_back(is_local[index(v)] ? allocate(model_.token.values[v].part.bytes(rows_of(v))) : decoder_memory());
  if (in_slices())
    each_part([&](int, const edge_part& made) { passing_bytes = (std::max)(passing_bytes, made.bytes(samples_)); });
  passing_ = allocate(passing_bytes);
}

// Whether a layer reads fields of the data, other than the number of tokens that count.
GPIPE_COLD GPIPE_INLINE bool decoder::reads_fields(int l) const {
  return row_at(l).field_count > (start_ >= 0 && decode_at(l).counts_tokens >= 0 ? 1 : 0);
}

GPIPE_COLD GPIPE_INLINE void decoder::require_decodable() const {
  for (int l = 0; l < end_; ++l)
    if (l != start_) is_source_layer(l) ? require_encodable(l) : require_decodable(l);
  dtype type = read_by_loss().type;
  each_part([&](int, const edge_part& made) { type = made.type; });
  if (type != dtype::float32) throw_error({"the logits are ", name_of(type)}, {"generate with a model of floats"});
  if (const std::int64_t below = model_.tokens().below; below > 0 && vocabulary() > below)
    throw_error({"the model gives logits of ", vocabulary(), " tokens, but reads tokens below ", below},
                {"choose the same vocabulary for the embedding and for the last layer"});
}

GPIPE_COLD GPIPE_INLINE void decoder::require_decodable(int l) const {
  const layer_type &sequence_type = row_at(l), &token_type = model_.token.type_of(l);
  const location place{.layer = std::string(sequence_type.name), .layer_index = l};
  bool same_parameters = sequence_type.parameter_count == token_type.parameter_count &&
                         sequence_type.state_count == token_type.state_count;
  for (int p = 0; same_parameters && p < sequence_type.parameter_count; ++p)
    same_parameters = sequence_type.parameters[p].extents.size() == token_type.parameters[p].extents.size();
  if (!same_parameters)
    throw_error({"the layer has other parameters for one token than for ", tokens()},
                {"tokens can be generated by layers that work on each token"}, place);
  const decode_row<host::context>& row = decode_at(l);
  for (int i = 0; i < token_type.inputs; ++i) {
    const bool from_encoder = is_source_value(model_.token.reads_value(l, i));
    if (from_encoder && (row.decode == nullptr || row.source_input != i))
      throw_error({"input ", i, " of the layer comes from the encoder, and it has no decode for it"},
                  {"let cross_attention read it, or a layer whose `source_input` is ", i}, place);
    if (!from_encoder && row.source_input == i)
      throw_error({"input ", i, " of the layer does not come from an encoder"},
                  {"begin the decoder with only<from<\"targets\", tensor<std::int32_t, N>>>"}, place);
  }
  if (row.decode == nullptr && row.mixes_tokens)
    throw_error({"the output of the layer for a token depends on later ones"},
                {"generate with attention that is causal, and without lengths"}, place);
  if (row.decode == nullptr && forward_at(l).forward == nullptr)
    throw_error({"the layer has no forward on the host"}, {"write it"}, place);
  for (int o = 0; l != model_.token.loss_layer() && o < token_type.outputs; ++o)
    if (token_type.out_extents[o].extents[0] != 1)
      throw_error({"the layer's output has ", token_type.out_extents[o].extents[0], " rows for one token"},
                  {"tokens can be generated by layers that work on each token"}, place);
  if (!makes_logits(l) && l != model_.token.loss_layer() && reads_fields(l))
    throw_error({"the layer reads the field \"", sequence_type.fields[0].name, "\""},
                {"tokens can be generated by a model whose only input is tokens"}, place);
}

GPIPE_COLD GPIPE_INLINE void decoder::require_encodable(int l) const {
  const layer_type& type = row_at(l);
  const location place{.layer = std::string(type.name), .layer_index = l};
  if (forward_at(l).forward == nullptr) throw_error({"the layer has no forward on the host"}, {"write it"}, place);
  if (reads_fields(l))
    throw_error({"the layer reads the field \"", type.fields[0].name, "\""},
                {"tokens can be generated by a model whose only inputs are a source, its length and targets"}, place);
}

GPIPE_COLD GPIPE_INLINE bool decoder::counts_source() const {
  for (int l = 0; l < end_; ++l)
    if (decode_at(l).counts_tokens < 0 &&
        (is_source_layer(l) ? decode_at(l).mixes_tokens : decode_at(l).source_input >= 0))
      return false;
  return true;
}

GPIPE_COLD GPIPE_INLINE call decoder::call_of(int l) const {
  const detail::expanded_layer& layer = model_.token.layers[l];
  call c;
  const bool decodes = !is_source_layer(l) && decode_at(l).decode != nullptr;
  c.lists = decodes ? row_at(l).lists : model_.token.type_of(l).lists;
  c.samples = c.capacity = is_source_layer(l) ? 1 : samples_;
  for (int i = 0; i < layer.reads; ++i) c.in[i] = values_[index(model_.token.reads_value(l, i))].get();
  for (int o = 0; o < layer.writes; ++o) c.out[o] = values_[index(model_.token.writes_value(l, o))].get();
  c.parameter_at = parameters_[l].parameter_at.data();
  c.state = parameters_[l].state.get();
  c.derived = parameters_[l].derived.get();
  c.extras = is_source_layer(l) ? source_extras_.get() : extras_[index(l)].get();
  c.workspace = c.forward_workspace = workspace_.get();
  if (const int field = decode_at(l).counts_tokens; field >= 0)
    c.fields[field] = reinterpret_cast<const std::byte*>(lengths_.data());
  return c;
}

GPIPE_COLD GPIPE_INLINE void decoder::run(const std::vector<int>& layers, int position) {
  const default_float_environment exact;
  const shared_products sharing(sharing_.get());
  for (const int l : layers) {
    if (const auto decode = decode_at(l).decode; decode != nullptr && !is_source_layer(l))
      decode(context_, call_of(l), position);
    else forward_at(l).forward(context_, call_of(l));
  }
}

GPIPE_COLD GPIPE_INLINE void decoder::run_segments(bool source, int position) {
  const layer_share& share = parameters_.share();
  for (const layer_segment& segment : segments_) {
    if (segment.source != source) continue;
    if (share.has_rank(segment.rank)) share.work([&] { run(segment.layers, position); });
    for (const int v : segment.sent) {
      const edge_part& row = model_.token.values[v].part;
      share.broadcast(values_[index(v)] != nullptr ? values_[index(v)].get() : passing_.get(),
                      row.size * bytes_of(row.type) * index(rows_of(v)), segment.rank, static_cast<std::uint64_t>(v));
    }
  }
}

GPIPE_COLD GPIPE_INLINE void decoder::encode(std::span<const std::int32_t> source) {
  std::fill(lengths_.begin(), lengths_.end(), static_cast<std::int32_t>(source.size()));
  if (values_[0] != nullptr) {
    std::memset(values_[0].get(), 0, index(source_tokens()) * sizeof source[0]);
    std::memcpy(values_[0].get(), source.data(), source.size_bytes());
  }
  run_segments(true, 0);
}

GPIPE_COLD GPIPE_INLINE std::span<const float> decoder::step(std::span<const std::int32_t> next, int position) {
  const layer_share& share = parameters_.share();
  if (values_[index(token_)] != nullptr) std::memcpy(values_[index(token_)].get(), next.data(), next.size_bytes());
  run_segments(false, position);
  if (in_slices()) bring_slices();
  if (!share.has_rank(last_rank())) return {};
  const std::span found{reinterpret_cast<const float*>(logits()), index(samples_) * index(vocabulary())};
  share.work([&] {
    if (std::any_of(found.begin(), found.end(), [](float x) { return is_nan(x); }))
      throw_error({"the logits behind token ", position, " are not numbers"},
                  {"train the model again, or load another checkpoint: its parameters are not finite"});
  });
  return found;
}

GPIPE_COLD GPIPE_INLINE void decoder::bring_slices() {
  const layer_share& share = parameters_.share();
  each_part([&](int l, const edge_part& made) {
    const int rank = share.rank_of(l);
    if (rank == last_rank()) return;
    share.broadcast(extras_[index(l)] != nullptr ? made_by(l) : passing_.get(),
                    made.size * bytes_of(made.type) * index(samples_), rank, static_cast<std::uint64_t>(l));
  });
}

GPIPE_COLD GPIPE_INLINE int decoder::vocabulary() const {
  int words = 0;
  each_part([&](int, const edge_part& made) { words += static_cast<int>(made.size); });
  return words > 0 ? words : static_cast<int>(read_by_loss().size);
}

GPIPE_COLD GPIPE_INLINE const std::byte* decoder::logits() {
  if (loss().predicted >= 0) return made_by(model_.token.loss_layer());
  if (loss().predicts) return values_[index(value_read_by_loss())].get();
  const auto words = index(vocabulary());
  joined_.resize(words * index(samples_));
  std::size_t first = 0;
  each_part([&](int l, const edge_part& made) {
    for (std::size_t i = 0; i < index(samples_); ++i)
      std::memcpy(joined_.data() + i * words + first, made_by(l) + i * made.size * sizeof(float),
                  made.size * sizeof(float));
    first += made.size;
  });
  return reinterpret_cast<const std::byte*>(joined_.data());
}

GPIPE_COLD GPIPE_INLINE void decoder::reorder(std::span<const int> parents, int tokens) {
  std::vector<std::byte> kept;
  for (int l = 0; l < end_; ++l) {
    if (!parameters_.share().has(l)) continue;
    const layer_type& type = row_at(l);
    std::size_t offset = 0;
    for (int e = 0; e < decode_at(l).kept_extras; ++e) {
      const std::size_t sequence_bytes = type.extras[e].size * bytes_of(type.extras[e].type),
                        used_bytes = sequence_bytes / index(this->tokens()) * index(tokens);
      kept.resize(used_bytes * parents.size());
      for (std::size_t i = 0; i < parents.size(); ++i)
        std::memcpy(kept.data() + i * used_bytes, extras_[index(l)].get() + offset + index(parents[i]) * sequence_bytes,
                    used_bytes);
      for (std::size_t i = 0; i < parents.size(); ++i)
        std::memcpy(extras_[index(l)].get() + offset + i * sequence_bytes, kept.data() + i * used_bytes, used_bytes);
      offset += type.extras[e].bytes(index(samples_));
    }
  }
}

}  // namespace gpipe::detail
