#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/pipeline.hpp>

#include <cstdint>

namespace gpipe::detail {

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

}  // namespace gpipe::detail
