#pragma once

#include <gpipe/mpi/all_gather.hpp>
#include <gpipe/mpi/arrival.hpp>
#include <gpipe/mpi/call_deadline.hpp>
#include <gpipe/mpi/ends.hpp>
#include <gpipe/mpi/hosts/limits.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gpipe::mpi {

/// The processes that mpirun has started together, each with its workers: `mpi::job job;` at the beginning of `main`,
/// and `{.job = &job}` among the options of a training.
///
/// Initializes and finalizes MPI, unless the program has initialized it. Then `MPI_THREAD_FUNNELED` is enough for one
/// worker per process, and several need `MPI_THREAD_SERIALIZED`. A program that trains only in some of its processes
/// passes their communicator. MPI can be initialized once per process: a second job after one that has finalized MPI
/// throws `error`. A job uses separate communicators. It records SIGTERM, to report which process ended.
class job final : public process_group {
 public:
  /// `shares_memory`: the processes of one host communicate their status in shared memory; otherwise each is treated as
  /// if alone on its host.
  ///
  /// `deadline`: the limit for each call of MPI in this constructor, and for every wait until a training's deadline
  /// replaces it. The error names the missing ranks. If MPI does not return (from MPI_Init_thread or MPI_Finalize),
  /// nothing can be thrown: the process prints the call and ends.
  GPIPE_COLD explicit job(bool shares_memory = true, std::chrono::nanoseconds deadline = wait_limits{}.deadline) {
    require_not_finalized();
    int before = 0;
    MPI_Initialized(&before);
    if (!before) gpipe::detail::require_limits_of_mpi(call_deadline::rank_before_init());
    guard_ = std::make_unique<termination_guard>();
    call_deadline limit(call_deadline::rank_before_init(), deadline);
    limit.begin("MPI_Init_thread");
    if (int level = 0; !before)
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    limit.begin(nullptr);
    owns_ = !before;
    require_threads();
    std::vector<std::string> hosts = await_arrival_of_all(MPI_COMM_WORLD, deadline);
    join(MPI_COMM_WORLD, shares_memory, std::move(hosts), limit, deadline);
  }
  /// The processes of a communicator that the program has made for training: exactly these processes make the job
  /// together, with their ranks in it. The program initializes MPI before and finalizes it after the job. It may send
  /// in the communicator and set its error handler meanwhile, because the job sends in copies of it.
  ///
  ///     MPI_COMM_WORLD  0 1 2 3 4 5      the program's own messages
  ///     processes               0 1      mpi::job
  GPIPE_COLD explicit job(MPI_Comm processes, std::chrono::nanoseconds deadline = wait_limits{}.deadline) {
    require_not_finalized();
    int before = 0;
    MPI_Initialized(&before);
    if (!before)
      gpipe::detail::throw_error({"the job is of a communicator, and MPI is not initialized"},
                                 {"call MPI_Init_thread with MPI_THREAD_FUNNELED before"});
    require_threads();
    if (processes == MPI_COMM_NULL)
      gpipe::detail::throw_error({"the job's communicator is MPI_COMM_NULL"},
                                 {"let the processes outside of the communicator make no job"});
    int inter = 0;
    MPI_Comm_test_inter(processes, &inter);
    if (inter)
      gpipe::detail::throw_error({"the job's communicator is an intercommunicator"},
                                 {"give an intracommunicator, by MPI_Intercomm_merge or MPI_Comm_split"});
    guard_ = std::make_unique<termination_guard>();
    MPI_Comm copy = copy_when_joined(processes, deadline);
    int rank = 0;
    MPI_Comm_rank(copy, &rank);
    std::vector<std::string> hosts = await_arrival_of_all(copy, deadline);
    call_deadline limit(rank, deadline);
    join(copy, true, std::move(hosts), limit, deadline);
    MPI_Comm_free(&copy);
  }
  /// Ends MPI together with the other processes. After a loss, or while an error leaves the program, it does not wait
  /// for them: the process is to end with a nonzero code. A missing process is a loss, which is printed.
  GPIPE_COLD ~job() override {
    if (!leave_together()) {
      wait_for_exit();
      return;
    }
    call_deadline limit(rank_, progress_->deadline());
    call_check_.reset();
    other_hosts_.reset();
    limit.begin("MPI_Win_free");
    status_->close();
    limit.begin("MPI_Comm_free");
    for (MPI_Comm* comm : {&connection_->data, &control_, &failures_}) MPI_Comm_free(comm);
    limit.begin("MPI_Finalize");
    if (owns_) MPI_Finalize();
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  int rank() const noexcept override { return rank_; }
  int ranks() const noexcept override { return ranks_; }
  host_cores on_this_host() const noexcept override { return on_this_host_; }

  bool takes_threads() const noexcept override {
    int level = 0;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_SERIALIZED;
  }
  GPIPE_COLD void set_workers(const std::vector<int>& counts) override {
    std::vector<int> on_host;
    for (const int rank : ranks_here_) on_host.push_back(counts[static_cast<std::size_t>(rank)]);
    on_this_host_ = gpipe::detail::host_cores_of(allowed_, on_host, status_->own());
    progress_->set_workers(on_this_host_.workers);
  }
  void expect(std::chrono::nanoseconds deadline) override { progress_->expect(deadline); }

  GPIPE_COLD void agree(collective_kind kind, std::span<const agreed_value> values) override {
    outside_of_steps([&] { check_call(kind, values); });
  }
  void enter(collective_kind kind, std::span<const agreed_value> values) override { call_check_->enter(kind, values); }

  GPIPE_COLD std::unique_ptr<sending_end> sender(const channel_layout& layout) override {
    return make<mpi::sender>(layout, out_);
  }
  GPIPE_COLD std::unique_ptr<receiving_end> receiver(const channel_layout& layout) override {
    return make<mpi::receiver>(layout, in_);
  }
  GPIPE_COLD std::unique_ptr<all_gather> make_all_gather(const std::vector<std::size_t>& sizes) override {
    return std::make_unique<gather_at_root>(
        *progress_, *call_check_, rank_, sizes, [this](const channel_layout& layout) { return sender(layout); },
        [this](const channel_layout& layout) { return receiver(layout); });
  }

  void begin(wait_context context) override {
    const auto turn = progress_->turn();
    process_status& status = status_->mine();
    status.stage.store(context.stage, std::memory_order_relaxed);
    status.micro_batch.store(context.micro_batch, std::memory_order_relaxed);
    status.action.set(context.action);
    status.runs_long.store(false, std::memory_order_relaxed);
    status.tick();
    progress_->check_failures();
  }
  void runs_long(const detail::location& kernel) noexcept override { progress_->runs_long(kernel); }

  void poll() override { progress_->poll(); }

  GPIPE_COLD void broadcast(void* bytes, std::size_t size, int root, std::uint64_t tag) override {
    outside_of_steps([&] {
      const agreed_value wanted[] = {agreed_value::number("the bytes to read", static_cast<std::int64_t>(size)),
                                     agreed_value::number("the rank to read from", root),
                                     {"what to read", tag}};
      check_call(collective_kind::read, wanted);  // a collective call of MPI must be entered by all or none
      broadcast_bytes(bytes, size, root);
    });
  }

  GPIPE_COLD void fail(const error& cause) noexcept override {
    detail::location place = cause.where();
    // change: an error location
    place.rank = rank_;
    progress_->report(error(cause.wrong(), cause.remedy(), place), false);
  }

  GPIPE_COLD error recover() override {
    try {
      call_check_->reset();
      progress_->set_recovering(true);
      if (!status_->lost().is_set()) {
        progress_->await([this] { return status_->thrown().is_set(); }, {.action = "recover"}, -1);
        for (end* channel_end : connection_->ends) channel_end->drain();
        const cause first = first_cause(status_->thrown().reason);
        if (status_->own() == 0) status_->thrown().state = first_failure::none;
        wait_for_all();
        progress_->set_recovering(false);
        return first.get();
      }
    } catch (const gpipe::detail::interrupted&) {
    }
    return status_->lost().reason.get();
  }

  GPIPE_COLD bool leave(const error& cause) noexcept override {
    detail::location place = cause.where();
    if (place.rank < 0) place.rank = rank_;
    progress_->report(error(cause.wrong(), cause.remedy(), place), true, true);
    const mpi::cause& found = status_->lost().reason;
    if (rank_ == 0) return prints_loss();
    if (found.rank == 0) return !found.reports_itself;
    const int next = found.reports_itself ? found.rank : found.rank == 1 ? 2 : 1;  // if rank 0 does not come to it
    if (rank_ == next && !progress_->await_print() && prints_loss()) std::fprintf(stderr, "%s\n", found.get().what());
    return false;
  }

  bool lost() const noexcept override {
    const first_failure& found = status_->lost();
    return found.is_set() && !found.reason.reports_itself;
  }

 private:
  GPIPE_COLD static void require_not_finalized() {
    int over = 0;
    MPI_Finalized(&over);
    if (over)
      gpipe::detail::throw_error({"MPI has ended in this process, with the job before or by MPI_Finalize"},
                                 {"use one job for all trainings, or call MPI_Init_thread before the first job and "
                                  "MPI_Finalize behind the last"});
  }
  GPIPE_COLD static void require_threads() {
    int level = 0;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_FUNNELED)
      gpipe::detail::throw_error({"MPI was initialized for programs without threads"},
                                 {"call MPI_Init_thread with MPI_THREAD_FUNNELED, or let gpipe initialize MPI"});
  }

  GPIPE_COLD void join(MPI_Comm processes, bool shares_memory, std::vector<std::string> hosts, call_deadline& limit,
                       std::chrono::nanoseconds deadline) {
    limit.begin("MPI_Comm_dup");
    MPI_Comm data = MPI_COMM_NULL;
    for (MPI_Comm* comm : {&data, &control_, &failures_}) {
      check(MPI_Comm_dup(processes, comm), "MPI_Comm_dup");
      MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(data, &rank_);
    MPI_Comm_size(data, &ranks_);
    limit.begin("MPI_Win_allocate_shared");
    status_ = std::make_unique<shared_status>(control_, shares_memory);
    limit.begin("MPI_Allgather");
    ranks_here_.resize(static_cast<std::size_t>(status_->count()));
    check(MPI_Allgather(&rank_, 1, MPI_INT, ranks_here_.data(), 1, MPI_INT, status_->host()), "MPI_Allgather");
    const core_set allowed = gpipe::detail::cores::allowed_bits();
    allowed_.resize(ranks_here_.size());
    const int words = static_cast<int>(allowed.size());
    check(MPI_Allgather(allowed.data(), words, MPI_UINT64_T, allowed_.data(), words, MPI_UINT64_T, status_->host()),
          "MPI_Allgather");
    limit.begin(nullptr);
    std::vector<int> elsewhere;
    for (int r = 0; r < ranks_; ++r)
      if (std::find(ranks_here_.begin(), ranks_here_.end(), r) == ranks_here_.end()) elsewhere.push_back(r);
    if (!elsewhere.empty())
      other_hosts_ = std::make_unique<remote_hosts>(failures_, rank_, std::move(hosts), elsewhere);
    progress_ = std::make_unique<progress_engine>(*status_, ranks_here_, other_hosts_.get());
    progress_->expect(deadline);
    set_workers(std::vector<int>(static_cast<std::size_t>(ranks_), 1));
    connection_.reset(new connection{*progress_, data, control_});
    call_check_ = std::make_unique<call_check>(
        *progress_, rank_, ranks_, [this](const channel_layout& layout) { return make<mpi::sender>(layout, out_); },
        [this](const channel_layout& layout) { return make<mpi::receiver>(layout, in_); });
    if (ranks_ == 1) guard_.reset();
  }

  // Outside of steps no caller recovers, so this function throws the cause.
  template <class Call>
  void outside_of_steps(Call&& call) {
    try {
      progress_->check_failures();
      call();
      return;
    } catch (const gpipe::detail::interrupted&) {
    }
    throw recover();
  }

  void check_call(collective_kind kind, std::span<const agreed_value> values) {
    call_check_->enter(kind, values);
    call_check_->close();
  }
  void broadcast_bytes(void* bytes, std::size_t size, int root) {
    for (std::size_t done = 0; done < size;) {
      const std::size_t part = (std::min)(size - done, std::size_t{1} << 30);
      MPI_Request request = MPI_REQUEST_NULL;
      check(
          MPI_Ibcast(static_cast<std::byte*>(bytes) + done, static_cast<int>(part), MPI_BYTE, root, control_, &request),
          "MPI_Ibcast");
      progress_->await(request, {.action = "broadcast"}, root);
      done += part;
    }
    progress_->complete_round();
  }

  template <class End>
  std::unique_ptr<End> make(const channel_layout& layout, std::map<int, int>& tags) {
    int& tag = tags[layout.peer];
    auto made = std::make_unique<End>(*connection_, layout, tag);
    tag += end::tags(layout);
    return made;
  }

  // If processes have thrown on several hosts, the cause of the lowest rank counts.
  GPIPE_COLD cause first_cause(cause own_cause) {
    int lowest = own_cause.rank;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(&own_cause.rank, &lowest, 1, MPI_INT, MPI_MIN, control_, &request), "MPI_Iallreduce");
    progress_->await(request, {.action = "recover"});
    progress_->complete_round();
    broadcast_bytes(&own_cause, sizeof own_cause, lowest);
    return own_cause;
  }
  void wait_for_all() {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(control_, &request), "MPI_Ibarrier");
    progress_->await(request, {.action = "recover"});
    progress_->complete_round();
  }

  bool prints_loss() noexcept {
    if (progress_->loss_is_printed()) return false;
    progress_->print_loss();
    return true;
  }
  // Returns whether all processes leave together.
  GPIPE_COLD bool leave_together() noexcept {
    if (status_->lost().is_set()) return false;
    status_->mine().left = true;
    progress_->leave(true);
    try {
      // Twice: a process that receives no messages ends no barrier, and the others detect that in the second.
      for (int i = 0; i < 2; ++i) wait_for_leaving();
      return true;
    } catch (...) {
      const cause& found = status_->lost().reason;
      if (status_->lost().is_set() && (rank_ == 0 ? prints_loss() : found.rank == 0))  // one process prints it
        std::fprintf(stderr, "%s\n", found.get().what());
      return false;
    }
  }
  void wait_for_leaving() {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(failures_, &request), "MPI_Ibarrier");  // another process may still use `control_`
    const auto begin = progress_engine::clock::now();
    progress_->await(
        [&, reported = false]() mutable {
          const bool done = progress_engine::is_complete(request);
          if (!done && !reported && progress_engine::clock::now() - begin > std::chrono::milliseconds(20))
            reported = true, progress_->send_goodbye();
          return done;
        },
        {.action = "leave"}, -1);
  }
  // mpirun ends all processes when one has ended: waits until each has seen the loss, or for a second. A message to a
  // lost host does not leave.
  GPIPE_COLD void wait_for_exit() noexcept {
    status_->mine().knows_loss = true;
    for (int ms = 0; other_hosts_ && !other_hosts_->causes().all_sent() && ms < 300; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0, ms = 0; i < status_->count() && ms < 1000;)
      if (progress_->knows_loss(i)) ++i;
      else std::this_thread::sleep_for(std::chrono::milliseconds(1)), ++ms;
  }

  bool owns_ = false;
  int rank_ = 0, ranks_ = 1;
  std::vector<int> ranks_here_;    // of this host's processes
  std::vector<core_set> allowed_;  // the cores that each of these may run on
  host_cores on_this_host_;
  MPI_Comm control_ = MPI_COMM_NULL, failures_ = MPI_COMM_NULL;
  std::unique_ptr<shared_status> status_;
  std::unique_ptr<remote_hosts> other_hosts_;
  std::unique_ptr<progress_engine> progress_;
  std::unique_ptr<connection> connection_;
  std::unique_ptr<termination_guard> guard_;
  std::map<int, int> out_, in_;  // [peer]: the next tag
  std::unique_ptr<call_check> call_check_;
};

}  // namespace gpipe::mpi
