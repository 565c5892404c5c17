#pragma once

#include <gpipe/transport/mpi/all_gather.hpp>
#include <gpipe/transport/mpi/receiver.hpp>
#include <gpipe/transport/mpi/sender.hpp>

#include <algorithm>
#include <exception>
#include <map>

namespace gpipe::mpi {

/// The processes that mpirun has started together, each with workers of its own: `mpi::job job;` at the beginning of
/// `main`, and `{.job = &job}` among the options of a training.
///
/// Initialises MPI, unless the program has (`MPI_THREAD_FUNNELED` serves: a job is used by one thread), and then ends
/// it. It talks over communicators of its own. SIGTERM is noted while it lives, for who has died to be told.
class job final : public process_group {
 public:
  ///
  /// `shares_memory`: whether the processes of one host do, to see each other; else each is as if on a host of its own.
  GPIPE_COLD explicit job(bool shares_memory = true) {
    int before = 0, level = 0;
    MPI_Initialized(&before);
    if (!before) check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    else MPI_Query_thread(&level);
    owns_ = !before;
    if (level < MPI_THREAD_FUNNELED)
      gpipe::detail::throw_error({"MPI was initialised for programs without threads"},
                            {"call MPI_Init_thread with MPI_THREAD_FUNNELED, or leave it to gpipe"});
    MPI_Comm line = MPI_COMM_NULL;
    for (MPI_Comm* comm : {&line, &control_, &news_}) {
      check(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
      MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(line, &rank_);
    MPI_Comm_size(line, &ranks_);
    book_ = std::make_unique<shared_status>(control_, shares_memory);
    std::vector<int> on_host(static_cast<std::size_t>(book_->count()));
    check(MPI_Allgather(&rank_, 1, MPI_INT, on_host.data(), 1, MPI_INT, book_->host()), "MPI_Allgather");
    std::vector<int> elsewhere;
    for (int r = 0; r < ranks_; ++r)
      if (std::find(on_host.begin(), on_host.end(), r) == on_host.end()) elsewhere.push_back(r);
    if (!elsewhere.empty()) herald_ = std::make_unique<failure_broadcast>(news_, elsewhere);
    watch_ = std::make_unique<progress_engine>(*book_, on_host, herald_.get());
    wiring_.reset(new wiring{*watch_, line, control_});
    roll_ = std::make_unique<call_check>(*watch_, rank_, ranks_,
                                        [this](const channel_layout& r) { return make<mpi::sender>(r, out_); },
                                        [this](const channel_layout& r) { return make<mpi::receiver>(r, in_); });
    if (ranks_ > 1) guard_ = std::make_unique<termination_guard>();
  }
  /// Ends MPI together with all others. After a loss, or while an error leaves the program, it does not wait for them:
  /// the process is to end with a code that is not 0.
  GPIPE_COLD ~job() override {
    if (!part()) {
      wait_for_exit();
      return;
    }
    roll_.reset();
    herald_.reset();
    book_->close();
    for (MPI_Comm* comm : {&wiring_->line, &control_, &news_}) MPI_Comm_free(comm);
    if (owns_) MPI_Finalize();
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  int rank() const noexcept override { return rank_; }
  int ranks() const noexcept override { return ranks_; }

  void expect(std::chrono::nanoseconds deadline) override { watch_->expect(deadline); }

  GPIPE_COLD void agree(collective_kind what, std::span<const agreed_value> traits) override {
    outside_of_steps([&] { settle(what, traits); });
  }
  void enter(collective_kind what, std::span<const agreed_value> traits) override { roll_->enter(what, traits); }

  GPIPE_COLD std::unique_ptr<sending_end> sender(const channel_layout& along) override { return make<mpi::sender>(along, out_); }
  GPIPE_COLD std::unique_ptr<receiving_end> receiver(const channel_layout& along) override {
    return make<mpi::receiver>(along, in_);
  }
  GPIPE_COLD std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override {
    return std::make_unique<gather_at_root>(*watch_, *roll_, rank_, sizes, [this](const channel_layout& r) { return sender(r); },
                                  [this](const channel_layout& r) { return receiver(r); });
  }

  void begin(wait_context what) override {
    process_status& mine = book_->mine();
    mine.stage.store(what.stage, std::memory_order_relaxed);
    mine.micro_batch.store(what.micro_batch, std::memory_order_relaxed);
    mine.action.set(what.action);
    mine.tick();
    watch_->look();
  }

  void look() override { watch_->poll(); }

  GPIPE_COLD void broadcast(void* bytes, std::size_t size, int root, std::uint64_t which) override {
    outside_of_steps([&] {
      const agreed_value wanted[] = {agreed_value::number("the bytes to read", static_cast<std::int64_t>(size)),
                              agreed_value::number("the rank to read from", root), {"what to read", which}};
      settle(collective_kind::read, wanted);  // what MPI does for all at once is begun by all or nobody
      spread(bytes, size, root);
    });
  }

  GPIPE_COLD void fail(const error& cause) noexcept override {
    location at = cause.where();
    at.rank = rank_;
    watch_->tell(error(cause.wrong(), cause.remedy(), at), false);
  }

  GPIPE_COLD error recover() override {
    try {
      roll_->forget();
      watch_->recover(true);
      if (!book_->lost().is_there()) {
        watch_->await([this] { return book_->thrown().is_there(); }, {.action = "recover"}, -1);
        for (end* it : wiring_->ends) it->drain();
        const cause first = first_of_all(book_->thrown().what);
        if (book_->own() == 0) book_->thrown().state = first_failure::none;
        meet();
        watch_->recover(false);
        return first.get();
      }
    } catch (const gpipe::detail::interrupted&) {
    }
    return book_->lost().what.get();
  }

  GPIPE_COLD bool leave(const error& cause) noexcept override {
    location at = cause.where();
    if (at.rank < 0) at.rank = rank_;
    watch_->tell(error(cause.wrong(), cause.remedy(), at), true, true);
    return rank_ == 0 || (book_->lost().what.rank == 0 && !book_->lost().what.own);
  }

 private:
  // Where nobody is in a step, nobody else throws what has happened.
  template <class Call>
  void outside_of_steps(Call&& call) {
    try {
      watch_->look();
      call();
      return;
    } catch (const gpipe::detail::interrupted&) {
    }
    throw recover();
  }

  void settle(collective_kind what, std::span<const agreed_value> traits) {
    roll_->enter(what, traits);
    roll_->close();
  }
  void spread(void* bytes, std::size_t size, int root) {
    for (std::size_t done = 0; done < size;) {
      const std::size_t part = (std::min)(size - done, std::size_t{1} << 30);
      MPI_Request collective_kind = MPI_REQUEST_NULL;
      check(MPI_Ibcast(static_cast<std::byte*>(bytes) + done, static_cast<int>(part), MPI_BYTE, root, control_,
                       &collective_kind),
            "MPI_Ibcast");
      await(collective_kind, {.action = "broadcast"}, root);
      done += part;
    }
    watch_->pass();
  }

  template <class End>
  std::unique_ptr<End> make(const channel_layout& along, std::map<int, int>& tags) {
    int& tag = tags[along.peer];
    auto made = std::make_unique<End>(*wiring_, along, tag);
    tag += end::tags(along);
    return made;
  }

  void await(MPI_Request& collective_kind, wait_context what, int peer = -1) {
    watch_->await(
        [&] {
          int done = 0;
          check(MPI_Test(&collective_kind, &done, MPI_STATUS_IGNORE), "MPI_Test");
          return done != 0;
        },
        what, peer);
  }
  // Of what was thrown on several hosts, that of the lowest rank.
  GPIPE_COLD cause first_of_all(cause mine) {
    int least = mine.rank;
    MPI_Request collective_kind = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(&mine.rank, &least, 1, MPI_INT, MPI_MIN, control_, &collective_kind), "MPI_Iallreduce");
    await(collective_kind, {.action = "recover"});
    watch_->pass();
    spread(&mine, sizeof mine, least);
    return mine;
  }
  void meet() {
    MPI_Request collective_kind = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(control_, &collective_kind), "MPI_Ibarrier");
    await(collective_kind, {.action = "recover"});
    watch_->pass();
  }

  // Whether all leave together.
  GPIPE_COLD bool part() noexcept {
    if (book_->lost().is_there()) return false;
    book_->mine().left = true;
    watch_->leave(true);
    try {
      MPI_Request collective_kind = MPI_REQUEST_NULL;
      check(MPI_Ibarrier(news_, &collective_kind), "MPI_Ibarrier");  // others may be in another call, over the other line
      const auto begin = progress_engine::clock::now();
      bool told = false;
      watch_->await(
          [&] {
            int done = 0;
            check(MPI_Test(&collective_kind, &done, MPI_STATUS_IGNORE), "MPI_Test");
            if (done == 0 && !told && progress_engine::clock::now() - begin > std::chrono::milliseconds(20))
              told = true, watch_->say_goodbye();
            return done != 0;
          },
          {.action = "leave"}, -1);
      return true;
    } catch (...) {
      return false;
    }
  }
  // mpirun ends all when one has ended: until each has told what it knows, or a second has passed.
  GPIPE_COLD void wait_for_exit() noexcept {
    book_->mine().told = true;
    for (int i = 0, ms = 0; i < book_->count() && ms < 1000;)
      if (watch_->knows(i)) ++i;
      else std::this_thread::sleep_for(std::chrono::milliseconds(1)), ++ms;
  }

  bool owns_ = false;
  int rank_ = 0, ranks_ = 1;
  MPI_Comm control_ = MPI_COMM_NULL, news_ = MPI_COMM_NULL;
  std::unique_ptr<shared_status> book_;
  std::unique_ptr<failure_broadcast> herald_;
  std::unique_ptr<progress_engine> watch_;
  std::unique_ptr<wiring> wiring_;
  std::unique_ptr<termination_guard> guard_;
  std::map<int, int> out_, in_;  // [peer]: the next tag
  std::unique_ptr<call_check> roll_;
};

}  // namespace gpipe::mpi
