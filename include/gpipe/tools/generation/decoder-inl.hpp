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

#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/finite.hpp>
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
    array_location from;
    int by;  // the rank
    std::byte* at;
  };
  std::vector<borrowed_value> borrowed;  // by layers of any process
  share_.work([&] {
    for (int l = 0; l < sequence.layer_count; ++l) {
      const layer_type& r = sequence.type_of(l);
      of_layer& layer = layers_.emplace_back();
      const bool here = share_.has(l);
      if (here) {
        layer.parameters = allocate(sequence.own_bytes(l));
        layer.state = allocate(r.state_bytes());
        layer.derived = allocate(r.derived_bytes());
      }
      for (int p = 0; p < r.parameter_count; ++p) {
        const array_location owner = locate(sequence, {l, p});
        const int rank = share_.rank_of(l);
        if (share_.rank_of(owner.layer_index) == rank) {
          if (here) layer.parameter_at.push_back(layers_[index(owner.layer_index)].parameters.get() + owner.offset);
          continue;
        }
        auto found = std::find_if(borrowed.begin(), borrowed.end(),
                                  [&](const borrowed_value& it) { return it.from == owner && it.by == rank; });
        if (found == borrowed.end()) {
          if (here) borrowed_.push_back(allocate(owner.bytes));
          found = borrowed.insert(found, {owner, rank, here ? borrowed_.back().get() : nullptr});
        }
        if (here) layer.parameter_at.push_back(found->at);
      }
    }
  });
  std::vector<std::byte> passing;
  each_value(sequence, [&](const array_location& value) {
    std::byte* into = nullptr;
    if (share_.has(value.layer_index)) {
      const of_layer& layer = layers_[index(value.layer_index)];
      into = (value.kind == memory_kind::parameters ? layer.parameters.get() : layer.state.get()) + value.offset;
    }
    if (into != nullptr) read(value, into, false);
  });
  for (std::size_t i = 0; i < borrowed.size(); ++i) {
    const array_location& from = borrowed[i].from;
    const auto is_it = [&](const borrowed_value& it) { return it.from == from; };
    const auto first = std::find_if(borrowed.begin(), borrowed.end(), is_it);
    if (first != borrowed.begin() + static_cast<std::ptrdiff_t>(i)) continue;  // all who borrow it have it
    const auto mine =
        std::find_if(first, borrowed.end(), [&](const borrowed_value& it) { return is_it(it) && it.at != nullptr; });
    if (mine == borrowed.end()) passing.resize(from.bytes);
    read(from, mine == borrowed.end() ? passing.data() : mine->at, true);
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

GPIPE_COLD GPIPE_INLINE decoder::decoder(const decoded_model& of, const decoded_parameters& parameters, int samples,
                                         int threads)
    : of_(of),
      parameters_(parameters),
      samples_(samples),
      start_(of.start()),
      token_(start_ < 0 ? 0 : of.token.writes_value(start_, 0)),
      end_(of.token.loss_layer() + (loss().predicted >= 0 ? 1 : 0)),
      lengths_(index(samples)) {
  find_source();
  require_decodable();
  cut_by_rank();
  std::size_t workspace = 0, of_source_layers = 0;
  for (int l = 0; l < end_; ++l) {
    extras_.emplace_back();
    if (!parameters_.share().has(l)) {  // the last rank joins the slices of all
      if (in_slices() && makes_logits(l) && parameters_.share().has_rank(last_rank()))
        extras_.back() = allocate(of_.token.type_of(l).extra_bytes(samples));
      continue;
    }
    if (l == start_) continue;
    const int rows = of_source(l) ? 1 : samples;
    const layer_type& all = of_.token.type_of(l);
    if (of_source(l)) {
      of_source_layers = (std::max)(of_source_layers, all.extra_bytes(1));
      workspace = (std::max)(workspace, all.forward_workspace_bytes(1));
    } else {
      const bool decodes = decode_at(l).decode != nullptr;
      const layer_type& r = decodes ? row_at(l) : all;
      extras_.back() = allocate(r.extra_bytes(samples));
      workspace = (std::max)(workspace, decodes ? r.workspace_bytes(samples) : r.forward_workspace_bytes(samples));
    }
    if (forward_at(l).prepare != nullptr) forward_at(l).prepare(context_, rows, of_.token.type_of(l).lists);
  }
  workspace_ = allocate(workspace);
  source_extras_ = allocate(of_source_layers);
  if (threads > 1) sharing_ = std::make_unique<product_threads>(threads);
}

// Finds the layers and values of the source: they do not depend on the token.
GPIPE_COLD GPIPE_INLINE void decoder::find_source() {
  source_layer_.assign(index(of_.token.layer_count), start_ >= 0);
  source_value_.assign(index(of_.token.value_count), start_ >= 0);
  if (start_ < 0) return;
  source_layer_[index(start_)] = source_value_[index(token_)] = 0;
  for (int l = 0; l < of_.token.layer_count; ++l) {
    const expanded_layer& s = of_.token.layers[l];
    for (int i = 0; i < s.reads; ++i)
      if (!value_of_source(of_.token.reads_value(l, i))) source_layer_[index(l)] = 0;
    for (int o = 0; o < s.writes; ++o) source_value_[index(of_.token.writes_value(l, o))] = source_layer_[index(l)];
  }
}

// The layers that run become segments, each of one rank, and values get memory where they are read or written.
GPIPE_COLD GPIPE_INLINE void decoder::cut_by_rank() {
  const layer_share& share = parameters_.share();
  std::vector<char> here(index(of_.token.value_count));
  std::vector<int> written_in(here.size(), -1);  // the segment; -1: the tokens, which every process has
  std::size_t passing = 0;
  const auto sends = [&](int v) {
    std::vector<int>& all = segments_[index(written_in[index(v)])].sent;
    if (std::find(all.begin(), all.end(), v) == all.end()) all.push_back(v);
  };
  for (const bool source : {true, false})
    for (int l = 0; l < end_; ++l) {
      if (of_source(l) != source || l == start_) continue;
      const int rank = share.rank_of(l);
      const detail::expanded_layer& s = of_.token.layers[l];
      if (segments_.empty() || segments_.back().rank != rank || segments_.back().source != source)
        segments_.push_back({rank, source, {}, {}});
      segments_.back().layers.push_back(l);
      for (int i = 0; i < s.reads; ++i) {
        const int v = of_.token.reads_value(l, i), from = written_in[index(v)];
        if (share.has(l)) here[index(v)] = 1;
        if (from >= 0 && segments_[index(from)].rank != rank) sends(v);
      }
      for (int o = 0; o < s.writes; ++o) {
        const int v = of_.token.writes_value(l, o);
        written_in[index(v)] = static_cast<int>(segments_.size()) - 1;
        if (share.has(l)) here[index(v)] = 1;
      }
    }
  // The last rank reads the logits.
  if (loss().predicts && loss().predicted < 0) {
    const int v = value_read_by_loss(), from = written_in[index(v)];
    if (share.has_rank(last_rank())) here[index(v)] = 1;
    if (from >= 0 && segments_[index(from)].rank != last_rank()) sends(v);
  }
  for (const segment& of : segments_)
    for (const int v : of.sent)
      if (!here[index(v)]) passing = (std::max)(passing, of_.token.values[v].part.bytes(rows_of(v)));
  for (int v = 0; v < of_.token.value_count; ++v)
    values_.push_back(here[index(v)] ? allocate(of_.token.values[v].part.bytes(rows_of(v))) : decoder_memory());
  if (in_slices()) each_part([&](int, const edge_part& made) { passing = (std::max)(passing, made.bytes(samples_)); });
  passing_ = allocate(passing);
}

// Whether a layer reads fields of the data, other than how many tokens count.
GPIPE_COLD GPIPE_INLINE bool decoder::reads_fields(int l) const {
  return row_at(l).field_count > (start_ >= 0 && decode_at(l).counts_tokens >= 0 ? 1 : 0);
}

GPIPE_COLD GPIPE_INLINE void decoder::require_decodable() const {
  for (int l = 0; l < end_; ++l)
    if (l != start_) of_source(l) ? require_encodable(l) : require_decodable(l);
  dtype type = read_by_loss().type;
  each_part([&](int, const edge_part& made) { type = made.type; });
  if (type != dtype::float32) throw_error({"the logits are ", name_of(type)}, {"generate with a model of floats"});
  if (const std::int64_t below = of_.tokens().below; below > 0 && vocabulary() > below)
    throw_error({"the model gives logits of ", vocabulary(), " tokens, but reads tokens below ", below},
                {"choose the same vocabulary for the embedding and for the last layer"});
}

GPIPE_COLD GPIPE_INLINE void decoder::require_decodable(int l) const {
  const layer_type &all = row_at(l), &one = of_.token.type_of(l);
  const location here{.layer = std::string(all.name), .layer_index = l};
  bool same = all.parameter_count == one.parameter_count && all.state_count == one.state_count;
  for (int p = 0; same && p < all.parameter_count; ++p)
    same = all.parameters[p].extents.size() == one.parameters[p].extents.size();
  if (!same)
    throw_error({"the layer has other parameters for one token than for ", tokens()},
                {"tokens can be generated by layers that work on each token"}, here);
  const decode_row<host::context>& row = decode_at(l);
  for (int i = 0; i < one.inputs; ++i) {
    const bool of_source = value_of_source(of_.token.reads_value(l, i));
    if (of_source && (row.decode == nullptr || row.source_input != i))
      throw_error({"input ", i, " of the layer comes from the encoder, and it has no decode for it"},
                  {"let cross_attention read it, or a layer whose `source_input` is ", i}, here);
    if (!of_source && row.source_input == i)
      throw_error({"input ", i, " of the layer does not come from an encoder"},
                  {"begin the decoder with only<from<\"targets\", tensor<std::int32_t, N>>>"}, here);
  }
  if (row.decode == nullptr && row.mixes_tokens)
    throw_error({"the output of the layer for a token depends on later ones"},
                {"generate with attention that is causal, and without lengths"}, here);
  if (row.decode == nullptr && forward_at(l).forward == nullptr)
    throw_error({"the layer has no forward on the host"}, {"write it"}, here);
  for (int o = 0; l != of_.token.loss_layer() && o < one.outputs; ++o)
    if (one.out_extents[o].extents[0] != 1)
      throw_error({"the layer's output has ", one.out_extents[o].extents[0], " rows for one token"},
                  {"tokens can be generated by layers that work on each token"}, here);
  if (!makes_logits(l) && l != of_.token.loss_layer() && reads_fields(l))
    throw_error({"the layer reads the field \"", all.fields[0].name, "\""},
                {"tokens can be generated by a model whose only input is tokens"}, here);
}

GPIPE_COLD GPIPE_INLINE void decoder::require_encodable(int l) const {
  const layer_type& all = row_at(l);
  const location here{.layer = std::string(all.name), .layer_index = l};
  if (forward_at(l).forward == nullptr) throw_error({"the layer has no forward on the host"}, {"write it"}, here);
  if (reads_fields(l))
    throw_error({"the layer reads the field \"", all.fields[0].name, "\""},
                {"tokens can be generated by a model whose only inputs are a source, its length and targets"}, here);
}

GPIPE_COLD GPIPE_INLINE bool decoder::counts_source() const {
  for (int l = 0; l < end_; ++l)
    if (decode_at(l).counts_tokens < 0 && (of_source(l) ? decode_at(l).mixes_tokens : decode_at(l).source_input >= 0))
      return false;
  return true;
}

GPIPE_COLD GPIPE_INLINE call decoder::call_of(int l) const {
  const detail::expanded_layer& s = of_.token.layers[l];
  call c;
  const bool decodes = !of_source(l) && decode_at(l).decode != nullptr;
  c.lists = decodes ? row_at(l).lists : of_.token.type_of(l).lists;
  c.samples = c.capacity = of_source(l) ? 1 : samples_;
  for (int i = 0; i < s.reads; ++i) c.in[i] = values_[index(of_.token.reads_value(l, i))].get();
  for (int o = 0; o < s.writes; ++o) c.out[o] = values_[index(of_.token.writes_value(l, o))].get();
  c.parameter_at = parameters_[l].parameter_at.data();
  c.state = parameters_[l].state.get();
  c.derived = parameters_[l].derived.get();
  c.extras = of_source(l) ? source_extras_.get() : extras_[index(l)].get();
  c.workspace = c.forward_workspace = workspace_.get();
  if (const int field = decode_at(l).counts_tokens; field >= 0)
    c.fields[field] = reinterpret_cast<const std::byte*>(lengths_.data());
  return c;
}

GPIPE_COLD GPIPE_INLINE void decoder::run(const std::vector<int>& layers, int position) {
  const default_float_environment exact;
  const shared_products sharing(sharing_.get());
  for (const int l : layers) {
    if (const auto decode = decode_at(l).decode; decode != nullptr && !of_source(l))
      decode(context_, call_of(l), position);
    else forward_at(l).forward(context_, call_of(l));
  }
}

GPIPE_COLD GPIPE_INLINE void decoder::run_segments(bool of_source, int position) {
  const layer_share& share = parameters_.share();
  for (const segment& of : segments_) {
    if (of.source != of_source) continue;
    if (share.has_rank(of.rank)) share.work([&] { run(of.layers, position); });
    for (const int v : of.sent) {
      const edge_part& row = of_.token.values[v].part;
      share.broadcast(values_[index(v)] != nullptr ? values_[index(v)].get() : passing_.get(),
                      row.size * bytes_of(row.type) * index(rows_of(v)), of.rank, static_cast<std::uint64_t>(v));
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
  if (loss().predicted >= 0) return made_by(of_.token.loss_layer());
  if (loss().predicts) return values_[index(value_read_by_loss())].get();
  const auto all = index(vocabulary());
  joined_.resize(all * index(samples_));
  std::size_t first = 0;
  each_part([&](int l, const edge_part& made) {
    for (std::size_t i = 0; i < index(samples_); ++i)
      std::memcpy(joined_.data() + i * all + first, made_by(l) + i * made.size * sizeof(float),
                  made.size * sizeof(float));
    first += made.size;
  });
  return reinterpret_cast<const std::byte*>(joined_.data());
}

GPIPE_COLD GPIPE_INLINE void decoder::reorder(std::span<const int> parents, int tokens) {
  std::vector<std::byte> kept;
  for (int l = 0; l < end_; ++l) {
    if (!parameters_.share().has(l)) continue;
    const layer_type& r = row_at(l);
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

}  // namespace gpipe::detail
