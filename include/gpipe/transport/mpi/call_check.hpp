#pragma once

#include <gpipe/transport/contract/call_fingerprint.hpp>
#include <gpipe/transport/mpi/receiver.hpp>
#include <gpipe/transport/mpi/sender.hpp>

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace gpipe::mpi {

/// Before each call that all make together every process sends rank 0 what it was asked for, and goes on. Rank 0 looks
/// at what has come whenever it waits, and tells all of the first that differs:
///
///     rank 1    step of 16 ----.     gives up
///     rank 0    step of 16 ... hears ... "ranks 0 and 2 do not agree on the samples of the call: 16 and 9"
///     rank 2    step of 9 ----'      gives up
class roll_call final : public listener {
 public:
  /// `to` and `from` make ends of a channel, in the same order everywhere.
  template <class To, class From>
  GPIPE_ONCE roll_call(lookout& watch, int rank, int ranks, To to, From from) : watch_(watch), rank_(rank) {
    const auto along = [](int peer, void* at, std::size_t bytes) {
      return route{peer, 1, {{static_cast<std::byte*>(at), 0, bytes}}, {0}, {0}};
    };
    theirs_.resize(static_cast<std::size_t>(rank == 0 ? ranks : 1));
    for (int r = 1; r < ranks; ++r) {
      if (rank == 0) {
        in_.push_back(from(along(r, &theirs_[static_cast<std::size_t>(r)], sizeof(asked))));
        out_.push_back(to(along(r, &go_, sizeof go_)));
      } else if (rank == r) {
        out_.push_back(to(along(0, &mine_, sizeof mine_)));
        in_.push_back(from(along(0, &go_, sizeof go_)));
      }
    }
    heard_.resize(in_.size(), 1);
    watch_.attend(this);
  }
  ~roll_call() { watch_.attend(nullptr); }
  roll_call(const roll_call&) = delete;
  roll_call& operator=(const roll_call&) = delete;

  void enter(request what, std::span<const trait> traits) {
    const asked now(what, traits);
    if (rank_ == 0) {
      complete();  // who has begun a call may have left it before others come
      for (std::size_t i = 0; i < traits.size(); ++i) traits_[i] = traits[i];
      count_ = traits.size();
      mine_ = now;
      for (const auto& end : in_) end->release(0);
      heard_.assign(heard_.size(), 0);
      left_ = in_.size();
      hear();
    } else {
      for (const auto& end : out_) {
        end->acquire(0, entering);
        mine_ = now;
        end->publish(0, 1);
      }
    }
  }

  /// Rank 0: all are asked for the same as it is.
  void complete() {
    for (std::size_t i = 0; left_ > 0 && i < in_.size(); ++i)
      watch_.await([&] { return hear(), heard_[i] != 0; }, entering, static_cast<int>(i) + 1);
    if (rank_ == 0) watch_.look();
  }
  /// And all others know it.
  void close() {
    complete();
    if (rank_ == 0) {
      for (const auto& end : out_) end->acquire(0, entering), end->publish(0, 1);
    } else {
      for (const auto& end : in_) end->consume(0, entering), end->release(0);
    }
    watch_.pass();
  }

  /// Looks at what has come.
  void hear() override {
    for (std::size_t i = 0; left_ > 0 && i < in_.size(); ++i)
      if (!heard_[i] && in_[i]->arrived(0)) {
        in_[i]->consume(0, entering);  // at once
        compare(i);
      }
  }
  /// After a failure: what has come meanwhile is of no call.
  void forget() {
    heard_.assign(heard_.size(), 1);
    left_ = 0;
  }

 private:
  static constexpr errand entering{.action = "agree"};

  void compare(std::size_t i) {
    heard_[i] = 1, --left_;
    if (!(theirs_[i + 1] == mine_)) [[unlikely]]
      watch_.tell(mine_.difference(theirs_[i + 1], static_cast<int>(i) + 1, {traits_.data(), count_}), false);
  }

  lookout& watch_;
  int rank_;
  asked mine_;
  std::vector<asked> theirs_;  // [rank]
  std::array<trait, asked::most> traits_{};
  std::size_t count_ = 0, left_ = 0;
  std::vector<char> heard_;
  std::byte go_{};
  std::vector<std::unique_ptr<sender>> out_;
  std::vector<std::unique_ptr<receiver>> in_;
};

}  // namespace gpipe::mpi
