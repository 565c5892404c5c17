#pragma once

// A network with more repetitions, chosen at run time: what a plan needs of a deeper model than the compiled one.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gpipe/model/graph.hpp>

namespace example {

using namespace gpipe;

/// The layers [begin, end) of the last of several equal repetitions. The one before is as long.
struct repetition {
  int begin = 0, end = 0;

  int length() const { return end - begin; }
};

/// The last repetition of every `repeat` of a model: its layers have the types of those before.
inline std::vector<repetition> repetitions_of(const network& net) {
  std::vector<repetition> found;
  std::vector<int> last(static_cast<std::size_t>(net.type_count), -1);  // the layer of each type
  for (int l = 0; l < net.layer_count; ++l) {
    int& before = last[static_cast<std::size_t>(net.layers[l].type)];
    if (before >= 0) {
      const int length = l - before;
      if (!found.empty() && found.back().length() == length && found.back().end + length > l) {
        if (l >= found.back().end) found.back() = {found.back().end, found.back().end + length};
      } else {
        found.push_back({l, l + length});
      }
    }
    before = l;
  }
  return found;
}

/// A network in which each of some repetitions follows `more` times again.
///
///     layers of the compiled network    a | b b | c      b: the repetitions
///     ... stretched by 2               a | b b b b | c
///
/// Each further repetition reads of the ones before as the last one does. A layer that reads the last one, or
/// reads through it (as the cell behind two cells), reads the new last one. It is for planning: it has no names of
/// layers.
class stretched {
 public:
  stretched(const network& from, const std::vector<repetition>& parts, int more) : from_(from) {
    at_.resize(static_cast<std::size_t>(from.value_count));
    moved_.resize(static_cast<std::size_t>(from.layer_count));
    for (int v = 0; v < from.entering; ++v) at_[index(v)] = add_value(v, -1);
    for (int l = 0, p = 0; l < from.layer_count; ++l) {
      moved_[index(l)] = static_cast<int>(layers_.size());
      add_layer(l, [this](int read) { return at_[index(from_.reads[read].value)]; });
      if (p < static_cast<int>(parts.size()) && l + 1 == parts[index(p)].end) repeat(parts[index(p++)], more);
    }
    group_reads();
  }
  stretched(const stretched&) = delete;
  stretched& operator=(const stretched&) = delete;

  /// It points into this object.
  network net() const {
    network made = from_;
    made.layers = layers_.data();
    made.tied = tied_.data();
    made.values = values_.data();
    made.reads = reads_.data();
    made.readers = readers_.data();
    made.layer_count = static_cast<int>(layers_.size());
    made.value_count = static_cast<int>(values_.size());
    made.read_count = static_cast<int>(reads_.size());
    made.paths = nullptr;
    return made;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  int add_value(int like, int writer) {
    gpipe::detail::value made = from_.values[like];
    made.writer = writer;
    made.readers = 0;
    values_.push_back(made);
    return static_cast<int>(values_.size()) - 1;
  }

  /// A layer like layer `l`, whose reads are of the values `value_of(index of the read)`.
  template <class Of>
  void add_layer(int l, const Of& value_of) {
    const gpipe::detail::expanded_layer& like = from_.layers[l];
    const int here = static_cast<int>(layers_.size());
    gpipe::detail::expanded_layer made = like;
    made.first_read = static_cast<int>(reads_.size());
    made.first_write = static_cast<int>(values_.size());
    made.first_tied = static_cast<int>(tied_.size());
    for (int i = 0; i < like.tied; ++i) {
      gpipe::detail::tied_parameter shared = from_.tied[like.first_tied + i];
      shared.owner.layer_index = moved_[index(shared.owner.layer_index)];
      tied_.push_back(shared);
    }
    for (int i = 0; i < like.reads; ++i) reads_.push_back({value_of(like.first_read + i), here});
    for (int o = 0; o < like.writes; ++o) at_[index(like.first_write + o)] = add_value(like.first_write + o, here);
    layers_.push_back(made);
  }

  void repeat(const repetition& last, int more) {
    const auto first_read = [&](int l) { return from_.layers[l].first_read; };
    const auto first_value = [&](int l) { return from_.layers[l].first_write; };
    const auto end_of = [&](const auto& first, int l, int count) { return l < from_.layer_count ? first(l) : count; };
    const int before = last.begin - last.length();
    const int reads = first_read(last.begin), count = end_of(first_read, last.end, from_.read_count) - reads;
    const int values = first_value(last.begin), written = end_of(first_value, last.end, from_.value_count) - values;
    const int earlier_values = first_value(before), earlier_reads = first_read(before);

    std::vector<int> source(index(count));  // what the latest repetition reads
    for (int i = 0; i < count; ++i) source[index(i)] = at_[index(from_.reads[reads + i].value)];
    for (int copy = 0; copy < more; ++copy) {
      const std::vector<int> wrote(at_.begin() + values, at_.begin() + values + written), read = source;
      for (int i = 0; i < count; ++i) {
        const int v = from_.reads[reads + i].value;
        if (v >= values) continue;  // of this repetition
        if (v >= earlier_values) {
          source[index(i)] = wrote[index(v - earlier_values)];
          continue;
        }
        // The repetition before has passed it on: it read the value at some place, and this one reads what is there
        // now.
        if (from_.reads[earlier_reads + i].value == v) continue;
        for (int j = 0; j < count; ++j)
          if (from_.reads[earlier_reads + j].value == v) source[index(i)] = read[index(j)];
      }
      for (int l = last.begin; l < last.end; ++l)
        add_layer(l, [&](int r) {
          const int v = from_.reads[r].value;
          return v >= values ? at_[index(v)] : source[index(r - reads)];
        });
    }
    for (int i = 0; i < count; ++i)
      if (const int v = from_.reads[reads + i].value; v < values) at_[index(v)] = source[index(i)];
  }

  /// The reads grouped by value, in model order.
  void group_reads() {
    for (const gpipe::detail::read& r : reads_) ++values_[index(r.value)].readers;
    int next = 0;
    for (gpipe::detail::value& v : values_) {
      v.first_reader = next;
      next += v.readers;
      v.readers = 0;
    }
    readers_.resize(reads_.size());
    for (std::size_t r = 0; r < reads_.size(); ++r) {
      gpipe::detail::value& v = values_[index(reads_[r].value)];
      readers_[index(v.first_reader + v.readers++)] = static_cast<int>(r);
    }
  }

  network from_;
  std::vector<gpipe::detail::expanded_layer> layers_;
  std::vector<gpipe::detail::tied_parameter> tied_;
  std::vector<gpipe::detail::value> values_;
  std::vector<gpipe::detail::read> reads_;
  std::vector<int> readers_;
  std::vector<int> at_;     // the new value that each value of the compiled network stands for now
  std::vector<int> moved_;  // the first new layer that stands for each compiled layer
};

}  // namespace example
