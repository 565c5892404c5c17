#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe {

/// A stage, for a search of tables: its times for a micro-batch, and the bytes that a micro-batch takes there.
///
///     F ------ kept ------ I --- held --- W        until backward's input part, then until its parameter part
///
/// The bytes held are at most the bytes kept.
struct searched_stage {
  std::int64_t forward = 1, backward_input = 1, backward_parameters = 1;
  std::int64_t kept = 1, held = 1;
};

/// The stages of a worker: one, or two that form a V.
///
///     worker 0   stage 0    |  stage 0      stage 3
///     worker 1   stage 1    |     stage 1  stage 2
enum class placement : std::uint8_t { one_each, v };

/// A pipeline for which a table is searched. The arrays belong to the caller.
struct searched_pipeline {
  int workers = 1, micro_batches = 1;
  placement placed = placement::one_each;
  const searched_stage* stages = nullptr;  ///< null: all are equal, and a micro-batch takes one byte
  const link_times* transfers = nullptr;   ///< between stages s and s + 1 of different workers; null: no time
  const std::int64_t* limits = nullptr;    ///< bytes per worker; null: no limit

  constexpr int chunks() const { return placed == placement::v ? 2 : 1; }
  constexpr int stage_count() const { return chunks() * workers; }
  // change: the schedule search; another placement
  constexpr int stage_at(int worker, int chunk) const { return chunk == 0 ? worker : 2 * workers - 1 - worker; }
  constexpr int worker_of(int stage) const { return stage < workers ? stage : 2 * workers - 1 - stage; }
  constexpr int chunk_of(int stage) const { return stage < workers ? 0 : 1; }
  constexpr searched_stage stage(int s) const { return stages == nullptr ? searched_stage{} : stages[s]; }
  constexpr std::int64_t limit(int worker) const {
    return limits == nullptr ? (std::numeric_limits<std::int64_t>::max)() : limits[worker];
  }
  /// The time from stage s to stage s + 1, or back.
  constexpr std::int64_t transfer(int s, bool back) const {
    if (transfers == nullptr || worker_of(s) == worker_of(s + 1)) return 0;
    return back ? transfers[s].back : transfers[s].forward;
  }
};

namespace detail {

/// The code of a worker's next action: its kind and its chunk. Micro-batches of one code ascend, so the codes alone
/// define a worker's order.
constexpr int code_of(action_kind kind, int chunk) {
  return 3 * chunk + (kind == action_kind::forward ? 0 : kind == action_kind::backward_input ? 1 : 2);
}
constexpr action_kind kind_of(int code) {
  constexpr action_kind kinds[] = {action_kind::forward, action_kind::backward_input, action_kind::backward_parameters};
  return kinds[code % 3];
}
constexpr int chunk_of(int code) { return code / 3; }

constexpr std::int64_t time_of(const searched_stage& stage, action_kind kind) {
  return kind == action_kind::forward          ? stage.forward
         : kind == action_kind::backward_input ? stage.backward_input
                                               : stage.backward_parameters;
}
/// The bytes that an action takes; negative if it frees bytes.
constexpr std::int64_t taken_by(const searched_stage& stage, action_kind kind) {
  return kind == action_kind::forward          ? stage.kept
         : kind == action_kind::backward_input ? stage.held - stage.kept
                                               : -stage.held;
}

[[noreturn]] GPIPE_COLD inline void bad_pipeline(int workers, int micro_batches) {
  throw_error({"a search has ", workers, " workers and ", micro_batches, " micro-batches"},
              {"give at least one of each"});
}
[[noreturn]] GPIPE_COLD inline void bad_bytes(int stage, const searched_stage& costs) {
  throw_error({"stage ", stage, " keeps ", costs.kept, " bytes of a micro-batch and then holds ", costs.held},
              {"give zero or more, and hold at most what it keeps"});
}
[[noreturn]] GPIPE_COLD inline void bytes_overflow(int stage, std::int64_t kept, int micro_batches) {
  throw_error(
      {"stage ", stage, " keeps ", kept, " bytes of each of ", micro_batches, " micro-batches, more than 64 bits"},
      {"use a larger unit of bytes"});
}
[[noreturn]] GPIPE_COLD inline void no_room(int worker, std::int64_t limit, std::int64_t least) {
  throw_error({"worker ", worker, " has ", limit, " bytes, and one micro-batch takes ", least},
              {"choose at least ", least, " bytes"});
}

/// Throws if no table of the pipeline exists, or if the sum of all times overflows.
GPIPE_COLD constexpr void require_searchable(const searched_pipeline& pipeline) {
  if (pipeline.workers < 1 || pipeline.micro_batches < 1) bad_pipeline(pipeline.workers, pipeline.micro_batches);
  std::int64_t left = (std::numeric_limits<std::int64_t>::max)() / pipeline.micro_batches;
  const std::int64_t most_kept = left / (2 * pipeline.stage_count());
  const auto take = [&left](std::int64_t time, const char* name, int index) {
    if (time < 0) bad_times(name, index);
    if (time > left) times_overflow();
    left -= time;
  };
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const searched_stage stage = pipeline.stage(s);
    for (const std::int64_t time : {stage.forward, stage.backward_input, stage.backward_parameters})
      take(time, "stage", s);
    if (stage.held < 0 || stage.held > stage.kept) bad_bytes(s, stage);
    if (stage.kept > most_kept) bytes_overflow(s, stage.kept, pipeline.micro_batches);
    for (const bool back : {false, true})
      if (s + 1 < pipeline.stage_count()) take(pipeline.transfer(s, back), "link", s);
  }
  for (int w = 0; w < pipeline.workers; ++w) {
    std::int64_t least = 0;
    for (int c = 0; c < pipeline.chunks(); ++c) least += pipeline.stage(pipeline.stage_at(w, c)).kept;
    if (least > pipeline.limit(w)) no_room(w, pipeline.limit(w), least);
  }
}

/// The orders of all workers: one row of codes per worker.
///
/// With equal micro-batches nothing is lost if the micro-batches of each stage and part ascend: number the forwards of
/// a stage by their begins, and likewise its input parts and its parameter parts. If each x(i) ends before its y(i)
/// begins, the k-th end of the x is before the k-th begin of the y. So every dependence still holds, and the bytes,
/// which depend on counts, are the same. A row is therefore an interleaving of counters, and no other table is shorter.
class worker_orders {
 public:
  constexpr explicit worker_orders(const searched_pipeline& pipeline)
      : length_(3 * pipeline.chunks() * pipeline.micro_batches),
        rows_(pipeline.workers),
        codes_(pipeline.workers * length_) {}

  constexpr int length() const { return length_; }
  constexpr int rows() const { return rows_; }
  constexpr std::uint8_t* row(int worker) { return codes_.data() + worker * length_; }
  constexpr const std::uint8_t* row(int worker) const { return codes_.data() + worker * length_; }
  constexpr void assign(const worker_orders& source) {
    for (int i = 0; i < rows_ * length_; ++i) codes_[i] = source.codes_[i];
  }

 private:
  int length_, rows_;
  zeroed_array<std::uint8_t> codes_;
};

/// Whether a worker's row obeys the dependences within the worker, and its limit.
constexpr bool row_holds(const searched_pipeline& pipeline, int worker, const std::uint8_t* row, int length) {
  int done[6]{};
  std::int64_t bytes = 0;
  for (int i = 0; i < length; ++i) {
    const int code = row[i];
    const action_kind kind = kind_of(code);
    if (kind != action_kind::forward && done[code] == done[code - 1]) return false;
    ++done[code];
    bytes += taken_by(pipeline.stage(pipeline.stage_at(worker, chunk_of(code))), kind);
    if (bytes > pipeline.limit(worker)) return false;
  }
  return true;
}

}  // namespace detail

}  // namespace gpipe
