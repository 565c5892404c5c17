#pragma once

#include <cstdint>

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// When a layer of a stage packs its weights.
///
/// Packing n x k weights moves 2 n k numbers for a micro-batch of `rows` rows, whose three products are 3 rows n k
/// multiply-adds. With `many_rows` both packs took 0.5 to 1.5 % of the products, of weights of 256 to 2,048 columns on
/// a core with AVX-512, so the copies are not worth their memory. On a GPU they take more, and a launch each.
GPIPE_COLD constexpr packed_weights packing_of(const layer_type& r, const memory_requirements& needs) {
  if (needs.packed == packed_weights::on_the_way) return needs.packed;
  const bool makes_more = r.derived_bytes(read_by::all) > 0;  // which it would make again, too
  if (needs.rows_on_the_way > 0 && !makes_more && r.rows_of_weights(needs.micro_batch_size) >= needs.rows_on_the_way)
    return packed_weights::on_the_way;
  return r.derived_bytes(read_by::forward) > 0 ? needs.packed : packed_weights::kept;
}
inline constexpr int many_rows = 1024;

/// Whether layers may pack on the way by default: not on a GPU, where each packing is a launch of microseconds.
constexpr bool may_pack_on_the_way(const plan_options& o, int stage) {
  return o.packs_on_the_way && !o.keep_packed_weights && o.device_of(stage).launch_ns < 1'000;
}

/// Without a memory limit, and under one if the stage fits then. While it is not known which of the listed layers run
/// again in the stage, it is as if one did that packs weights.
constexpr packed_weights default_packing(const plan_options& o, const memory_requirements& needs) {
  if (o.keep_packed_weights) return packed_weights::kept;
  if (o.share_packed_weights) return packed_weights::on_the_way;
  return needs.turns_once && (o.recompute_layers.empty() || o.micro_batches == 1) ? packed_weights::in_turn
                                                                                  : packed_weights::kept;
}
/// The same for a stage whose recomputed layers are known. A recomputed layer that packs would need forward's copy
/// between two backwards, which need the other one.
GPIPE_COLD constexpr packed_weights default_packing(const plan_options& o, const memory_requirements& needs,
                                                    const stage_view& stage) {
  const packed_weights known = default_packing(o, needs);
  if (known != packed_weights::kept || o.keep_packed_weights || !needs.turns_once) return known;
  memory_requirements in_turn = needs;
  in_turn.packed = packed_weights::in_turn;
  for (int l = stage.first(); l < stage.last(); ++l)
    if (stage.recomputed(l) && packing_of(stage.net().type_of(l), in_turn) == packed_weights::in_turn) return known;
  return packed_weights::in_turn;
}

/// The choice with the fewest bytes, for any recomputes and any limit.
constexpr packed_weights fewest_packed(const plan_options& o, const memory_requirements& needs, int stage) {
  if (may_pack_on_the_way(o, stage)) return packed_weights::on_the_way;
  return needs.turns_once && !o.keep_packed_weights && !o.share_packed_weights ? packed_weights::in_turn : needs.packed;
}

}  // namespace gpipe::detail
