#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <hwloc.h>
#include <unistd.h>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe {

static_assert(HWLOC_API_VERSION >= 0x00020000, "gpipe: <gpipe/hwloc.hpp> needs hwloc 2 or newer");

namespace detail {

/// Makes the whole pages of this memory prefer the nodes of `bound_cores`, and moves the pages that are allocated.
/// False: the system refuses, as containers do.
GPIPE_COLD inline bool prefer_nodes(hwloc_topology_t topology, void* memory, std::size_t bytes,
                                    const core_set& bound_cores) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), first = (begin + page - 1) / page * page,
             last = (begin + bytes) / page * page;
  if (first >= last) return true;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set == nullptr) return false;
  bool done = true;
  for (std::size_t c = 0; c < bound_cores.size() * 64 && done; ++c)
    if (bound_cores[c / 64] >> c % 64 & 1) done = hwloc_bitmap_set(set, static_cast<unsigned>(c)) == 0;
  // Without STRICT a full node uses memory of other nodes, and pages that another process shares stay.
  done = done && hwloc_set_area_membind(topology, reinterpret_cast<void*>(first), last - first, set, HWLOC_MEMBIND_BIND,
                                        HWLOC_MEMBIND_MIGRATE) == 0;
  hwloc_bitmap_free(set);
  return done;
}

}  // namespace detail

// change: core binding
/// Divides the cores that this process may run on among its workers, in the order of the machine's topology, in which
/// neighbours share caches and memory. Each worker gets cores of one memory node: whole cores if there are enough,
/// otherwise hardware threads; if there are fewer of these than workers, some workers share one.
///
///     node 0 [ core 0  core 1  core 2  core 3 ]  node 1 [ core 4  core 5  core 6  core 7 ]
///     workers  0       0       1       1                  2       2       2                   3 workers: 2 or 3 each
///
/// The numbers of cores differ by at most one, so a core may have no worker. Processes of a job that may run on the
/// same cores first divide them by their numbers of workers; a process that mpirun has bound to separate cores keeps
/// these.
class core_binding final : public core_placement {
 public:
  /// The cores of this machine that the calling thread may run on. Throws `error` if hwloc cannot read them.
  GPIPE_COLD core_binding() : core_binding(loaded(), detail::cores::allowed_bits()) {}
  /// A loaded topology, which this object destroys, and its cores to divide.
  GPIPE_COLD core_binding(hwloc_topology_t topology, const core_set& allowed) : topology_(topology) {
    threads_ = units_of(HWLOC_OBJ_PU, allowed);
    cores_ = units_of(HWLOC_OBJ_CORE, allowed);
    nodes_ = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    if (threads_.empty())
      detail::throw_error({"the topology of hwloc has none of the ", detail::count_of(allowed),
                           " cores that the calling thread may run on"},
                          {"see what lstopo and taskset -p print, or train without .cores"});
  }

  GPIPE_COLD std::vector<core_set> divide(int workers, const host_cores& host) const override {
    const std::vector<unit> available = units(part(host.first, workers, host.alike), workers);
    const int n = static_cast<int>(available.size());
    std::vector<core_set> found;
    if (n < workers) {
      for (int w = 0; w < workers; ++w) found.push_back(available[detail::index(share(w, workers, n))].set);
      return found;
    }
    // Assigns each worker to the node that then has the most cores per worker.
    struct node_part {
      int first, count, workers;
    };
    std::vector<node_part> nodes;
    for (int i = 0; i < n; ++i) {
      if (i == 0 || available[detail::index(i)].node != available[detail::index(i - 1)].node)
        nodes.push_back({i, 0, 0});
      ++nodes.back().count;
    }
    for (int w = 0; w < workers; ++w)
      ++std::max_element(nodes.begin(), nodes.end(), [](const node_part& a, const node_part& b) {
          return a.count * (b.workers + 1) < b.count * (a.workers + 1);
        })->workers;
    int least = n;
    for (const node_part& node : nodes)
      if (node.workers > 0) least = (std::min)(least, node.count / node.workers);
    for (const node_part& node : nodes)
      for (int w = 0; w < node.workers; ++w) {
        const int first = share(w, node.workers, node.count), end = share(w + 1, node.workers, node.count);
        found.push_back(sum(available, node.first + first, node.first + (std::min)(end, first + least + 1)));
      }
    return found;
  }

  /// Does nothing on a machine with one node.
  GPIPE_COLD bool move_near(void* memory, std::size_t bytes, const core_set& bound_cores) const noexcept override {
    return nodes_ < 2 || detail::prefer_nodes(topology_.get(), memory, bytes, bound_cores);
  }

 private:
  /// A core, or a hardware thread, and its memory node; -1: none.
  struct unit {
    core_set set;
    int node;
  };
  struct destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  };

  GPIPE_COLD static hwloc_topology_t loaded() {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0)
      detail::throw_error({"hwloc makes no topology"}, {"free memory, or train without .cores"});
    if (hwloc_topology_load(made) != 0) {
      hwloc_topology_destroy(made);
      detail::throw_error({"hwloc cannot read the machine's topology"},
                          {"see what lstopo prints, mount /sys and /proc, or train without .cores"});
    }
    if (hwloc_topology_is_thissystem(made) == 0) {
      hwloc_topology_destroy(made);
      detail::throw_error({"hwloc has another machine's topology"},
                          {"unset HWLOC_XMLFILE and HWLOC_SYNTHETIC, or set HWLOC_THISSYSTEM=1"});
    }
    return made;
  }

  GPIPE_COLD std::vector<unit> units_of(hwloc_obj_type_t type, const core_set& within) const {
    std::vector<unit> found;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology_.get(), type, object)) != nullptr;) {
      core_set set{};
      for (std::size_t c = 0; c < set.size() * 64; ++c)
        if (hwloc_bitmap_isset(object->cpuset, static_cast<unsigned>(c)) != 0)
          set[c / 64] |= within[c / 64] & std::uint64_t{1} << c % 64;
      if (detail::count_of(set) > 0) found.push_back({set, node_of(object)});
    }
    return found;
  }
  GPIPE_COLD int node_of(hwloc_obj_t object) const {
    for (hwloc_obj_t node = nullptr;
         (node = hwloc_get_next_obj_by_type(topology_.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;)
      if (hwloc_bitmap_isincluded(object->cpuset, node->cpuset) != 0) return static_cast<int>(node->logical_index);
    return -1;
  }

  static core_set common(const core_set& a, const core_set& b) {
    core_set found{};
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = a[i] & b[i];
    return found;
  }
  static core_set sum(const std::vector<unit>& list, int first, int end) {
    core_set found{};
    for (int u = first; u < end; ++u) found = detail::united(found, list[detail::index(u)].set);
    return found;
  }
  /// The index of the first of n elements in part k of `parts`.
  static int share(int k, int parts, int n) { return static_cast<int>(std::int64_t{k} * n / parts); }

  /// The cores within a set of hardware threads; the threads, if cores are too few or unknown.
  GPIPE_COLD std::vector<unit> units(const core_set& within, int needed) const {
    std::vector<unit> found;
    for (const auto* list : {&cores_, &threads_}) {
      found.clear();
      for (const unit& entry : *list)
        if (const core_set set = common(entry.set, within); detail::count_of(set) > 0)
          found.push_back({set, entry.node});
      const core_set covered = sum(found, 0, static_cast<int>(found.size()));
      if (static_cast<int>(found.size()) >= needed && covered == within) break;
    }
    return found;
  }
  /// The part of `count` workers, beginning with number `first` of the `workers` that divide the cores.
  GPIPE_COLD core_set part(int first, int count, int workers) const {
    const core_set every = sum(threads_, 0, static_cast<int>(threads_.size()));
    const int dividing = (std::max)(workers, first + count);
    const std::vector<unit> divided = units(every, dividing);
    const int n = static_cast<int>(divided.size()), begin = share(first, dividing, n);
    return sum(divided, begin, (std::max)(begin + 1, share(first + count, dividing, n)));
  }

  std::unique_ptr<hwloc_topology, destroy> topology_;
  std::vector<unit> cores_, threads_;
  int nodes_ = 0;
};

}  // namespace gpipe
