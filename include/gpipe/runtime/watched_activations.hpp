#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Brings rows of a stage to all processes: of the call's samples, behind `before` others, each replica has a part.
GPIPE_COLD inline void share_rows(const abroad& others, const runtime_plan& plan, const step_context& step, int stage,
                                  tensor_rows& rows, int before) {
  for (int r = 0; r < plan.replicas(); ++r) {
    const int first = step.first_sample(r * plan.micro_batches());
    const int count = step.first_sample((r + 1) * plan.micro_batches()) - first;
    for (int t = 0; t < rows.tensors() && count > 0; ++t)
      others.share(r, stage, rows.at(t, before + first), rows.row_bytes(t) * static_cast<std::size_t>(count));
  }
}

/// What is looked at in every call that trains: rows of slots that are watched, and hashes for a digest.
class watched_activations {
 public:
  /// `calls` are kept in the digest; 0: there is none.
  GPIPE_COLD watched_activations(const network& net, const runtime_plan& plan, std::size_t calls)
      : net_(net), plan_(plan), watched_(index(net.slot_count)) {
    if (calls == 0) return;
    std::vector<std::string> layers;
    for (int l = 0; l < net.slot_count; ++l) layers.emplace_back(net.row_of(l).name);
    digest_ = {std::move(layers), plan.all_micro_batches(), calls};
  }

  gpipe::digest& digest() { return digest_; }
  const gpipe::digest& digest() const { return digest_; }

  /// Where rows of the slot go from now on; null: it is watched no longer.
  GPIPE_COLD watched_rows* watch(int slot, bool watched) {
    auto& rows = watched_[index(slot)];
    rows.reset();
    if (!watched) return nullptr;
    rows = std::make_unique<watched_rows>();
    for (int o = 0; o < net_.slots[slot].writes; ++o) {
      const value& of = net_.values[net_.writes_value(slot, o)];
      rows->outputs.add(of.part, plan_.max_batch());
      rows->gradients.add(of.gradient ? of.part : edge_part{0, of.part.type}, plan_.max_batch());
    }
    return rows.get();
  }
  const watched_rows* watched(int slot) const { return watched_[index(slot)].get(); }

  /// A call begins, with its batch; it may fail, and is then begun anew.
  void open(const step_context& step) {
    hold(0);
    if (!digest_.full()) note_data(step);
  }
  /// It has come to its end, `before` others of the same step. `others` null: this process has all.
  void close(const step_context& step, int before, const abroad* others) {
    hold(step.rows.samples);
    if (others != nullptr) share(*others, step);
    digest_.close({step.step, before});
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  void hold(int samples) {
    for (auto& rows : watched_)
      if (rows) rows->outputs.hold(samples), rows->gradients.hold(samples);
  }
  GPIPE_COLD void note_data(const step_context& step) {
    digest_.open();
    hash sum;
    const auto add = [&](const std::byte* rows, std::size_t size, dtype type) {
      if (rows != nullptr) sum.add(rows, size * bytes_of(type) * index(step.rows.samples));
    };
    add(step.rows.inputs, net_.values[0].part.size, net_.values[0].part.type);
    for (int f = 0; f < net_.field_count; ++f)
      add(step.rows.fields[index(f)], net_.fields[f].size, net_.fields[f].type);
    digest_.put(action_kind::idle, -1, -1, sum.value());
  }
  GPIPE_COLD void share(const abroad& others, const step_context& step) {
    for (int l = 0; l < net_.slot_count; ++l)
      if (watched_[index(l)])
        for (tensor_rows* rows : {&watched_[index(l)]->outputs, &watched_[index(l)]->gradients})
          share_rows(others, plan_, step, plan_.cut().stage_of(l), *rows, 0);
    for (int s = 0; s < plan_.stages(); ++s) {
      const int first = plan_.first[index(s)], last = plan_.first[index(s) + 1];
      const auto own = digest_.of_slots(first, last);
      std::vector<std::uint64_t> all(own.size());  // each is noted by one replica, and zero in the others
      for (int r = 0; r < plan_.replicas() && !own.empty(); ++r) {
        auto its = own;
        others.share(r, s, its.data(), its.size() * sizeof(its[0]));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] |= its[i];
      }
      digest_.put_slots(first, last, all);
    }
  }

  const network& net_;
  const runtime_plan& plan_;
  std::vector<std::unique_ptr<watched_rows>> watched_;  // [slot]
  gpipe::digest digest_;
};

}  // namespace gpipe::detail
