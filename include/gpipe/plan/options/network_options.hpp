#pragma once

#include <gpipe/core/descriptions/layer_patterns.hpp>
#include <gpipe/core/descriptions/precision.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/options/plan_options.hpp>

// The checks of options that depend on the network.

namespace gpipe::detail {

GPIPE_COLD inline void require_precision(const network& net, const plan_options& o) {
  if (o.precision == precision::bf16 && precision_of(net) != precision::bf16)
    throw_error({"precision is bf16, and the network is in float32"},
                {"plan the network of in_bf16<model>, or make the trainer one of both_precisions<model>"});
}

GPIPE_COLD inline void require_layers(const network& net, const layer_patterns& patterns) {
  const zeroed_array<bool> marked(net.layer_count);
  const pattern_mistakes found = mark_layers(net, patterns, marked.data());
  if (found.unused != nullptr)
    throw_error({"recompute_layers has the pattern ", detail::quoted(found.unused), ", and no layer is there"},
                {"write the path of a layer or a group, with * for any part, such as \"h.*.mlp\", or a type, such as "
                 "\"layer_norm\"; the first layer's path is ",
                 detail::quoted(path_of(net, 0))});
  if (found.refused >= 0)
    throw_error({"recompute_layers has the pattern ", detail::quoted(found.refusing), ", which names ",
                 detail::quoted(path_of(net, found.refused)), ", ",
                 net.type_of(found.refused).loss >= 0 ? "a loss" : "the last layer"},
                {"leave this layer out: its backward follows directly, so nothing is saved"});
}

}  // namespace gpipe::detail
