#pragma once

#include <gpipe/mpi/call_check.hpp>
#include <gpipe/transport/contract/process_group.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace gpipe::mpi {

/// All processes send their bytes to rank 0, which sends all of them to every process: a process that has received them
/// can be sure that all have contributed.
class gather_at_root final : public all_gather {
 public:
  /// The functions make the ends of channels, in the same order in all processes.
  GPIPE_COLD gather_at_root(progress_engine& progress, call_check& call, int rank,
                            const std::vector<std::size_t>& sizes,
                            const std::function<std::unique_ptr<sending_end>(const channel_layout&)>& make_sender,
                            const std::function<std::unique_ptr<receiving_end>(const channel_layout&)>& make_receiver)
      : progress_(progress), call_(call), rank_(rank), begins_(1, 0) {
    for (const std::size_t size : sizes)
      begins_.push_back(begins_.back() + detail::aligned(size + 1));  // none is empty
    const auto part = [this](int r) { return begins_[index(r) + 1] - begins_[index(r)]; };
    mine_.resize(part(rank));
    all_.resize(begins_.back()), arriving_.resize(all_.size());
    const auto layout = [](int peer, std::byte* data, std::size_t bytes) {
      return channel_layout{peer, 1, {{data, 0, bytes}}, {0}, {0}};
    };
    if (rank != 0) {
      out_.push_back(make_sender(layout(0, mine_.data(), mine_.size())));
      in_.push_back(make_receiver(layout(0, all_.data(), all_.size())));
    }
    for (int r = 1; rank == 0 && r < static_cast<int>(sizes.size()); ++r) {
      in_.push_back(make_receiver(layout(r, arriving_.data() + begins_[index(r)], part(r))));
      out_.push_back(make_sender(layout(r, all_.data(), all_.size())));
    }
  }

  std::byte* mine() override { return mine_.data(); }
  const std::byte* of(int rank) const override { return all_.data() + begins_[index(rank)]; }

  void gather(wait_context context, const std::vector<sending_end*>& settled) override {
    if (rank_ == 0) {
      for (const auto& end : out_) end->acquire(0, context);
      std::memcpy(all_.data(), mine_.data(), mine_.size());
      for (const auto& end : in_) end->consume(0, context);
      std::memcpy(all_.data() + mine_.size(), arriving_.data() + mine_.size(), all_.size() - mine_.size());
      for (const auto& end : in_) end->release(0);
      for (sending_end* end : settled) end->acquire(0, context);
      call_.complete();
      progress_.conclude();  // a stopped process can still receive everything after the others have left
      for (const auto& end : out_) end->publish(0, 1);
    } else {
      in_[0]->release(0);  // the bytes of the last call are no longer read
      out_[0]->publish(0, 1);
      bool has_all = false;
      try {
        in_[0]->consume(0, context);
        has_all = true;
        out_[0]->acquire(0, context);
        for (sending_end* end : settled) end->acquire(0, context);
      } catch (const gpipe::detail::interrupted&) {
        progress_.wait_for_conclusion([&] { return has_all || in_[0]->arrived(0); });
        if (!has_all) in_[0]->consume(0, context);
      }
    }
    progress_.complete_round();  // no failure of another process ends this call any more
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  progress_engine& progress_;
  call_check& call_;
  int rank_;
  std::vector<std::size_t> begins_;
  std::vector<std::byte> mine_, all_, arriving_;
  std::vector<std::unique_ptr<sending_end>> out_;
  std::vector<std::unique_ptr<receiving_end>> in_;
};

}  // namespace gpipe::mpi
