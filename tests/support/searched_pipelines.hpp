#pragma once

// Random pipelines for searches of tables, and all tables of small ones.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gpipe/tools/search/order_search.hpp>
#include <gpipe/tools/search/pipeline.hpp>

namespace searches {

using namespace gpipe;

/// A pipeline with its arrays: times that differ, bytes of which a part stays until the parameter part, and half of the
/// time transfers and limits.
struct random_pipeline {
  std::vector<searched_stage> stages;
  std::vector<link_times> transfers;
  std::vector<std::int64_t> limits;
  searched_pipeline is;

  random_pipeline(std::mt19937& random, int workers, int micro_batches, placement placed) {
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    is.workers = workers;
    is.micro_batches = micro_batches;
    is.placed = placed;
    const bool even = below(3) == 0;
    for (int s = 0; s < is.stage_count(); ++s) {
      const int bytes = even ? 10 : 5 + below(10);
      stages.push_back(
          {even ? 4 : 1 + below(9), even ? 4 : 1 + below(9), even ? 4 : below(9), bytes, below(bytes + 1)});
      transfers.push_back({below(4), below(4)});
    }
    is.stages = stages.data();
    if (below(2) == 0) is.transfers = transfers.data();
    for (int w = 0; w < workers; ++w) {
      std::int64_t least = 0;
      for (int c = 0; c < is.chunks(); ++c) least += stages[static_cast<std::size_t>(is.stage_at(w, c))].kept;
      limits.push_back(least + below(static_cast<int>(least) * (workers + 1)));
    }
    if (below(3) > 0) is.limits = limits.data();
  }
  random_pipeline(const random_pipeline&) = delete;
};

/// The input of a simulation of a pipeline's tables, with its arrays.
struct simulated_pipeline {
  std::vector<stage_link> links;
  std::vector<stage_times> times;
  std::vector<link_times> transfers;
  simulation_input input;

  explicit simulated_pipeline(const searched_pipeline& pipeline) {
    const int S = pipeline.stage_count();
    for (int s = 0; s < S; ++s) {
      const searched_stage stage = pipeline.stage(s);
      times.push_back({stage.forward, stage.backward_input, stage.backward_parameters});
      if (s + 1 == S) break;
      links.push_back({s, s + 1});
      transfers.push_back({pipeline.transfer(s, false), pipeline.transfer(s, true)});
    }
    input = {S, pipeline.micro_batches, {}, times.data(), links.data(), S - 1, transfers.data()};
  }
  simulated_pipeline(const simulated_pipeline&) = delete;
};

/// A pipeline whose shortest makespan another solver has proven.
struct solved_pipeline {
  std::vector<searched_stage> stages;
  std::vector<link_times> transfers;
  std::vector<std::int64_t> limits;
  std::int64_t optimum = 0;
  searched_pipeline is;

  /// From a line of tests/tools/search/optima.csv; optima.py beside it says what the numbers are.
  explicit solved_pipeline(std::string line) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream text(line);
    int v = 0;
    std::int64_t bytes = 0;
    text >> v >> is.workers >> is.micro_batches >> bytes >> optimum;
    is.placed = v == 1 ? placement::v : placement::one_each;
    limits.assign(static_cast<std::size_t>(is.workers), bytes);
    searched_stage stage;
    link_times link;
    while (text >> stage.forward >> stage.backward_input >> stage.backward_parameters >> stage.kept >> stage.held >>
           link.forward >> link.back) {
      stages.push_back(stage);
      transfers.push_back(link);
    }
    is.stages = stages.data();
    is.transfers = transfers.data();
    is.limits = limits.data();
  }
  solved_pipeline(const solved_pipeline&) = delete;
};

inline std::vector<std::unique_ptr<solved_pipeline>> solved_pipelines() {
  std::ifstream file(GPIPE_TESTS_FOLDER "/tools/search/optima.csv");
  std::vector<std::unique_ptr<solved_pipeline>> all;
  for (std::string line; std::getline(file, line);)
    if (line[0] != '#') all.push_back(std::make_unique<solved_pipeline>(line));
  return all;
}

/// All rows of a worker that hold, and on a V run the way up of a micro-batch between its parts on the way down.
inline std::vector<std::vector<std::uint8_t>> all_rows(const searched_pipeline& of, int worker) {
  const int codes = 3 * of.chunks(), M = of.micro_batches;
  std::vector<std::vector<std::uint8_t>> rows;
  std::vector<std::uint8_t> row;
  std::vector<int> done(6);
  const auto may = [&](int code) {
    const int m = done[static_cast<std::size_t>(code)];
    const auto over = [&](int before) { return done[static_cast<std::size_t>(before)] > m; };
    if (m == M) return false;
    if (code % 3 != 0) return over(code - 1) && (codes == 3 || code != 1 || over(4));
    return code == 0 || over(0);
  };
  const auto extend = [&](const auto& self) -> void {
    if (static_cast<int>(row.size()) == codes * M) {
      rows.push_back(row);
      return;
    }
    for (int code = 0; code < codes; ++code) {
      if (!may(code)) continue;
      row.push_back(static_cast<std::uint8_t>(code));
      ++done[static_cast<std::size_t>(code)];
      if (gpipe::detail::row_holds(of, worker, row.data(), static_cast<int>(row.size()))) self(self);
      --done[static_cast<std::size_t>(code)];
      row.pop_back();
    }
  };
  extend(extend);
  return rows;
}

/// The shortest makespan of all tables.
inline std::int64_t optimum(const searched_pipeline& of) {
  gpipe::detail::worker_orders orders(of);
  gpipe::detail::order_times times(of);
  std::vector<std::vector<std::vector<std::uint8_t>>> rows;
  for (int w = 0; w < of.workers; ++w) rows.push_back(all_rows(of, w));
  std::int64_t best = -1;
  const auto choose = [&](const auto& self, int w) -> void {
    if (w == of.workers) {
      if (const std::int64_t t = times.run(orders); t >= 0 && (best < 0 || t < best)) best = t;
      return;
    }
    for (const auto& row : rows[static_cast<std::size_t>(w)]) {
      std::copy(row.begin(), row.end(), orders.row(w));
      self(self, w + 1);
    }
  };
  choose(choose, 0);
  return best;
}

}  // namespace searches
