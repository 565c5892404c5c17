"""Hashes of the tables that PyTorch makes, for the law tests/laws/schedule/torch.cpp: prints its array.

A line for each schedule, number of ranks K and of stages a rank V, with the FNV-1a hash of all tables for M from
K to 16 micro-batches that PyTorch admits: "M" and a line of cells for each rank, without idle ones.

    python bench/schedules/torch_tables.py        (PyTorch 2.15; no device, no process group)
"""

import re

import torch
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase


class Stage(_PipelineStageBase):
    """What a schedule asks of a stage before it runs."""

    def __init__(self, index, count, rank, ranks):
        self.stage_index, self.num_stages = index, count
        self.group_rank, self.group_size, self.group = rank, ranks, None
        self.has_backward, self.submod, self.device = True, None, torch.device("cpu")

    def _refuse(self, *_, **__):
        raise NotImplementedError("nothing runs here")

    _create_grad_recv_info = _prepare_backward_infra = _prepare_forward_infra = _refuse


def cells(action):
    """The computations of an action: an overlapped pair is two."""
    return [cell for sub in action.sub_actions for cell in cells(sub)] if action.sub_actions else [str(action)]


def table(schedule, ranks, chunks, micro_batches):
    """A line for each rank; None if PyTorch does not admit the numbers."""
    count = ranks * chunks
    try:
        made = schedule([Stage(r, count, 0, ranks) for r in range(0, count, ranks)], micro_batches)
    except (ValueError, AssertionError):
        return None
    rows = [made.pipeline_order[rank] for rank in range(ranks)]
    return "".join(",".join(c for action in row if action is not None for c in cells(action)) + "\n" for row in rows)


def descending(text, micro_batches):
    """The same with micro-batches numbered from behind, so that gradients are complete in the order 0, 1, 2, ..."""
    return re.sub(r"(?<=[FB])\d+", lambda number: str(micro_batches - 1 - int(number[0])), text)


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


if __name__ == "__main__":
    print(f"// PyTorch {torch.__version__}: kind, K, V, the number of tables, their hash.")
    for kind, schedule, all_chunks in (
        ("zb_h1", schedules.ScheduleInterleavedZeroBubble, [1]),
        ("interleaved_zb", schedules.ScheduleInterleavedZeroBubble, [2, 3]),
        ("zb_v", schedules.ScheduleZBVZeroBubble, [2]),
        ("dual_pipe_v", schedules.ScheduleDualPipeV, [2]),
        ("interleaved", schedules.ScheduleInterleaved1F1B, [2, 3]),
        ("looped_bfs", schedules.ScheduleLoopedBFS, [2, 3]),
    ):
        for chunks in all_chunks:
            for ranks in range(1, 8 // chunks + 1):
                texts = [(m, table(schedule, ranks, chunks, m)) for m in range(ranks, 17)]
                if kind == "looped_bfs":
                    texts = [(m, descending(text, m)) for m, text in texts if text is not None]
                texts = [f"{m}\n{text}" for m, text in texts if text is not None]
                print(f"    {{schedule_kind::{kind}, {ranks}, {chunks}, {len(texts)}, {fnv(''.join(texts)):#018x}}},")
