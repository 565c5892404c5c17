#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// change: the sum over replicas; sharded
/// The gradients of a stage that are sent, bucket by bucket while backward runs, to the process of the replica whose
/// share contains them. Gradients that wait for tied uses are not included. Two windows alternate, and so do the
/// owner's two landing buffers per other replica:
///
///     replica 0   computes bucket 0, 1, ... | sends 0 from window 0 | window 1 has left: clears it for bucket 1 | ...
///     replica 1   computes bucket 0, 1, ... in their own memory | adds what has arrived of 0 | ...
///
/// An owner adds the gradients that have arrived whenever it completes a bucket, and the remaining ones when it has
/// completed its share, because then it may wait for the owner of the next share. So no two replicas wait for each
/// other.
class leaving_gradients {
 public:
  /// Every process makes its channel ends in the same order.
  GPIPE_COLD leaving_gradients(process_group& job, const network& net, const step_plan& plan, replica& part, int stage,
                               std::byte* landing)
      : part_(part), stage_(stage), type_(net.type), landing_(landing), queue_(part.queues()[index(stage)]) {
    const int R = plan.replicas(), own_number = part.number();
    const arena_map& map = *part.maps()[index(stage)];
    std::vector<int> bucket_counts(index(R));  // buckets so far
    each_bucket(
        stage_view(net, plan.cut(), stage),
        [&](const bucket& b) {
          if (b.lent) return;
          const int kind = b.owner == own_number ? 0 : 1;
          buckets_.push_back(
              {b, bucket_counts[index(b.owner)]++, map.find(memory_kind::gradients, b.first, -1, {}, kind).base});
          window_ = (std::max)(window_, b.bytes);
        },
        R);
    if (window_ > static_cast<std::size_t>((std::numeric_limits<int>::max)()))
      throw_error({"a layer's gradients are ", window_, " bytes, more than one message carries"},
                  {"choose .shard = shard::optimizer_state"}, {.stage = stage});
    others_ = R - 1;
    out_.resize(index(R));
    std::byte* windows[2]{};
    for (std::size_t i = 0; i < buckets_.size() && i < 2; ++i)
      windows[i] = map.find(memory_kind::gradients, buckets_[i].block.first, -1, {}, 1).base;
    for (int owner = 0; owner < R; ++owner) {
      channel_layout layout{0, static_cast<int>(window_ / alignment), {}, {}, {}, queue_};
      for (std::size_t i = 0; i < buckets_.size(); ++i)
        if (buckets_[i].block.owner == owner) {
          layout.receiver_slot.push_back(buckets_[i].number % 2);
          layout.sender_slot.push_back(static_cast<int>(i % 2));
        }
      if (layout.receiver_slot.empty()) continue;
      const rank_layout ranks(plan, &job);
      if (owner != own_number) {
        layout.peer = ranks.rank_of_stage(owner, stage);
        layout.values = {{windows[0], static_cast<std::size_t>(windows[1] - windows[0]), alignment}};
        if (windows[1] == nullptr) layout.values[0].stride = 0;
        out_[index(owner)] = job.sender(layout);
        continue;
      }
      owned_ = layout.receiver_slot.size();
      for (int r = 0; r < R; ++r) {
        if (r == own_number) continue;
        layout.peer = ranks.rank_of_stage(r, stage);
        layout.values = {{landing + 2 * window_ * in_.size(), window_, alignment}};
        in_.emplace_back(r, job.receiver(layout));
      }
    }
  }
  std::size_t landing_bytes() const { return 2 * window_ * index(others_); }

  /// The gradients of the layers from `layer` on are complete. Returns whether a bucket was among them, and adds the
  /// nanoseconds of waits to `waited`.
  bool complete(int layer, const wait_context& wait, std::int64_t& waited) {
    bool moved = false;
    for (; next_ < buckets_.size() && buckets_[next_].block.first >= layer; ++next_, moved = true) {
      const leaving_bucket& b = buckets_[next_];
      if (b.block.owner == part_.number()) {
        ++completed_;
        const bool last = completed_ == owned_;
        while (summed_ < completed_ && (last || queue_ != nullptr || has_arrived(summed_))) sum_next(wait, waited);
      } else {
        if (queue_ == nullptr) part_.finish(stage_);
        out_[index(b.block.owner)]->publish(b.number, static_cast<int>(b.block.bytes / alignment));
      }
      if (next_ + 1 < buckets_.size()) free_window(wait, waited);
    }
    return moved;
  }
  /// All gradients are complete: returns when all have left, and the other replicas' gradients of the share have been
  /// added.
  void finish(const wait_context& wait, std::int64_t& waited) {
    complete(0, wait, waited);
    for (const leaving_bucket& b : buckets_)
      if (b.block.owner != part_.number()) left(b, wait, waited);
    next_ = completed_ = summed_ = 0;
  }
  /// Also called after a failure between sending a bucket and waiting until it has left: on a device this makes up for
  /// the wait, because the device continues in the order of its queue. Ignores failures.
  void reset() noexcept {
    try {
      std::int64_t waited = 0;
      for (std::size_t i = 0; i < next_ && queue_ != nullptr; ++i)
        if (const leaving_bucket& b = buckets_[i]; b.block.owner != part_.number())
          left(b, {.action = "reset"}, waited);
    } catch (...) {
    }
    next_ = completed_ = summed_ = 0;
  }

 private:
  struct leaving_bucket {
    bucket block;
    int number;            // among its owner's
    std::byte* gradients;  // in this process: in a window, or of the share
  };

  // Clears the next bucket's window, which the bucket before this one has used.
  void free_window(const wait_context& wait, std::int64_t& waited) {
    if (next_ == 0) return;
    const leaving_bucket& before = buckets_[next_ - 1];
    if (before.block.owner == part_.number()) return;
    left(before, wait, waited);
    part_.clear(stage_, {before.gradients, before.block.bytes});
  }
  void left(const leaving_bucket& b, const wait_context& wait, std::int64_t& waited) {
    const auto began = now_ns();
    out_[index(b.block.owner)]->acquire(b.number, wait);
    waited += now_ns() - began;
  }
  bool has_arrived(std::size_t number) const {
    return std::all_of(in_.begin(), in_.end(),
                       [&](const auto& channel) { return channel.second->arrived(static_cast<int>(number)); });
  }
  // ((g0 + g1) + g2) + ...: the gradients of replicas before this one are summed where the first have landed.
  void sum_next(const wait_context& wait, std::int64_t& waited) {
    const auto is_next = [&](const leaving_bucket& b) {
      return b.block.owner == part_.number() && b.number == static_cast<int>(summed_);
    };
    const leaving_bucket& b = *std::find_if(buckets_.begin(), buckets_.end(), is_next);
    const auto n = static_cast<std::ptrdiff_t>(b.block.bytes / bytes_of(type_));
    std::byte* const first = landing_ + window_ * index(b.number % 2);
    std::byte* arrived = first;
    for (auto& [replica, end] : in_) {
      const auto began = now_ns();
      end->consume(b.number, wait);
      waited += now_ns() - began;
      if (replica > part_.number()) part_.add(stage_, type_, n, arrived, b.gradients);
      else if (arrived != first) part_.add(stage_, type_, n, arrived, first);
      if (replica + 1 == part_.number()) part_.add(stage_, type_, n, first, b.gradients);
      arrived += 2 * window_;
    }
    if (queue_ == nullptr) part_.finish(stage_);
    for (auto& channel : in_) channel.second->release(b.number);
    ++summed_;
  }

  replica& part_;
  int stage_, others_ = 0;
  dtype type_;
  std::byte* landing_;
  const void* queue_;
  std::vector<leaving_bucket> buckets_;                             // the last layers first
  std::size_t window_ = 0;                                          // bytes of the largest bucket
  std::size_t next_ = 0;                                            // the first bucket that is not complete
  std::size_t owned_ = 0, completed_ = 0, summed_ = 0;              // buckets of the share
  std::vector<std::unique_ptr<sending_end>> out_;                   // [owner]
  std::vector<std::pair<int, std::unique_ptr<receiving_end>>> in_;  // of each other replica, with its number
};

}  // namespace gpipe::detail
