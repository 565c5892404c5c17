#pragma once

// The networks whose memory GPipe and torchgpipe measured.

#include "../../examples/plan/families.hpp"

#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A model of one of both tables, as torchgpipe and GPipe measured it; 0: unknown, or it did not fit.
struct measured_model {
  std::string name;
  example::family_member of;
  int depth = 0, stages = 1;
  double torchgpipe = 0, gpipe = 0;  ///< GiB, GB
};

/// GPipe's table 1. The first row is a run without a pipeline there.
inline std::vector<measured_model> amoebanets_of_table_1() {
  const auto of = [](int L, int D, example::family_member like, int stages, double torchgpipe, double paper) {
    return measured_model{
        "amoebanet." + std::to_string(L) + "x" + std::to_string(D), std::move(like), L, stages, torchgpipe, paper};
  };
  return {of(18, 208, example::amoebanet_member<208>(), 1, 0, 6.26),
          of(18, 416, example::amoebanet_member<416>(), 1, 0.91, 3.46),
          of(18, 544, example::amoebanet_member<544>(), 2, 3.39, 8.11),
          of(36, 544, example::amoebanet_member<544>(), 4, 6.91, 15.21),
          of(72, 512, example::amoebanet_member<512>(), 8, 10.83, 26.24)};
}

}  // namespace bench
