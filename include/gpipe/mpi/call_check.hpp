#pragma once

#include <gpipe/mpi/ends.hpp>
#include <gpipe/transport/contract/process_group.hpp>

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace gpipe::mpi {

/// Before each call that all processes make together, every process sends rank 0 the call's fingerprint and continues.
/// Rank 0 compares the arrived fingerprints whenever it waits, and reports the first difference to all:
///
///     rank 1    step of 16 ----.     gives up
///     rank 0    step of 16 ... compares ... "ranks 0 and 2 do not agree on the samples of the call: 16 and 9"
///     rank 2    step of 9 ----'      gives up
class call_check final : public poll_listener {
 public:
  /// The functions make the ends of channels, in the same order in all processes.
  template <class MakeSender, class MakeReceiver>
  GPIPE_COLD call_check(progress_engine& progress, int rank, int ranks, MakeSender make_sender,
                        MakeReceiver make_receiver)
      : progress_(progress), rank_(rank) {
    const auto layout = [](int peer, void* data, std::size_t bytes) {
      return channel_layout{peer, 1, {{static_cast<std::byte*>(data), 0, bytes}}, {0}, {0}};
    };
    theirs_.resize(static_cast<std::size_t>(rank == 0 ? ranks : 1));
    for (int r = 1; r < ranks; ++r) {
      if (rank == 0) {
        in_.push_back(make_receiver(layout(r, &theirs_[static_cast<std::size_t>(r)], sizeof(call_fingerprint))));
        out_.push_back(make_sender(layout(r, &go_, sizeof go_)));
      } else if (rank == r) {
        out_.push_back(make_sender(layout(0, &mine_, sizeof mine_)));
        in_.push_back(make_receiver(layout(0, &go_, sizeof go_)));
      }
    }
    compared_.resize(in_.size(), 1);
    progress_.set_listener(this);
  }
  ~call_check() { progress_.set_listener(nullptr); }
  call_check(const call_check&) = delete;
  call_check& operator=(const call_check&) = delete;

  void enter(collective_kind kind, std::span<const agreed_value> values) {
    const call_fingerprint fingerprint(kind, values);
    if (rank_ == 0) {
      complete();  // rank 0 may have left the last call before others entered it
      for (std::size_t i = 0; i < values.size(); ++i) values_[i] = values[i];
      count_ = values.size();
      mine_ = fingerprint;
      for (const auto& end : in_) end->release(0);
      compared_.assign(compared_.size(), 0);
      left_ = in_.size();
      on_poll();
    } else {
      for (const auto& end : out_) {
        end->acquire(0, entering);
        mine_ = fingerprint;
        end->publish(0, 1);
      }
    }
  }

  /// Rank 0: returns when all make the same call as it does.
  void complete() {
    for (std::size_t i = 0; left_ > 0 && i < in_.size(); ++i)
      progress_.await([&] { return on_poll(), compared_[i] != 0; }, entering, static_cast<int>(i) + 1);
    if (rank_ == 0) progress_.check_failures();
  }
  /// The same, and the other processes wait until rank 0 has compared all calls.
  void close() {
    complete();
    if (rank_ == 0) {
      for (const auto& end : out_) end->acquire(0, entering), end->publish(0, 1);
    } else {
      for (const auto& end : in_) end->consume(0, entering), end->release(0);
    }
    progress_.complete_round();
  }

  /// Compares the fingerprints that have arrived.
  void on_poll() override {
    for (std::size_t i = 0; left_ > 0 && i < in_.size(); ++i)
      if (!compared_[i] && in_[i]->arrived(0)) {
        in_[i]->consume(0, entering);  // returns at once
        compare(i);
      }
  }
  /// After a failure: discards the fingerprints that have arrived meanwhile.
  void reset() {
    compared_.assign(compared_.size(), 1);
    left_ = 0;
  }

 private:
  static constexpr wait_context entering{.action = "agree"};

  void compare(std::size_t i) {
    compared_[i] = 1, --left_;
    if (!(theirs_[i + 1] == mine_)) [[unlikely]]
      progress_.report(mine_.difference(theirs_[i + 1], static_cast<int>(i) + 1, {values_.data(), count_}), false);
  }

  progress_engine& progress_;
  int rank_;
  call_fingerprint mine_;
  std::vector<call_fingerprint> theirs_;  // [rank]
  std::array<agreed_value, call_fingerprint::max_values> values_{};
  std::size_t count_ = 0, left_ = 0;
  std::vector<char> compared_;
  std::byte go_{};
  std::vector<std::unique_ptr<sender>> out_;
  std::vector<std::unique_ptr<receiver>> in_;
};

}  // namespace gpipe::mpi
