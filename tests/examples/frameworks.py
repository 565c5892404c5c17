"""Reads the output of plan export with the frameworks' own code, and compares plan check with PyTorch's check.

frameworks.py PROGRAM FOLDER FRAMEWORK: FRAMEWORK is torch, megatron or deepspeed.
"""

import json
import os
import random
import re
import subprocess
import sys
from types import SimpleNamespace

program, folder, which = sys.argv[1], sys.argv[2], sys.argv[3]

MODELS = {
    "gpt2": dict(model_type="gpt2", n_layer=12, n_embd=768, n_head=12, n_positions=1024, vocab_size=50257),
    "llama": dict(model_type="llama", hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                  num_hidden_layers=32, num_key_value_heads=8, max_position_embeddings=8192, vocab_size=128256),
}
BLOCKS = {"gpt2": 12, "llama": 32}


def plan(*arguments):
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=100)
    return run.returncode, run.stdout, run.stderr


def export(target, model, stages, *more):
    config = f"{folder}/{model}.json"
    with open(config, "w") as file:
        json.dump(MODELS[model], file)
    status, out, failure = plan("export", "--plain", "--for", target, "--config", config, "--stages", stages, *more)
    assert status == 0, failure
    return out


def check_megatron():
    from megatron.core.transformer.enums import LayerType
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    count = 0
    for model, blocks in BLOCKS.items():
        for ranks in (1, 2, 3, 4, 6):
            for chunks in (1, 2):
                order = ["--schedule", "interleaved", "--chunks", chunks] if chunks > 1 else []
                if ranks == 1 and chunks > 1:
                    continue
                text = export("megatron", model, ranks * chunks, "--micro-batches", 4 * ranks, *order)
                size = int(re.search(r"--pipeline-model-parallel-size (\d+)", text)[1])
                layout = re.search(r'--pipeline-model-parallel-layout "(.*)"', text)[1]
                assert size == ranks
                read = PipelineParallelLayerLayout(layout, size)
                read.validate_layer_layout(blocks, 0)
                assert read.virtual_pipeline_model_parallel_size == chunks
                seen = []
                for v in range(chunks):
                    for rank in range(ranks):
                        assert len(read.layout[rank][v]) > 0
                        first = len(seen)
                        seen += [first + i for i in range(read.layout[rank][v].count(LayerType.decoder))]
                assert seen == list(range(blocks))
                count += 1
    costs = f"{folder}/mtp.csv"
    with open(costs, "w") as file:
        file.write("name,forward_ns,backward_ns,parameter_bytes,activation_bytes\nembedding,1,1,1,1\n")
        file.writelines(f"block{i},100,200,1,1\n" for i in range(13))
        file.write("mtp,150,300,1,1\nhead,60,120,1,1\n")
    for ranks, chunks in ((4, 1), (4, 2), (2, 3)):
        status, out, failure = plan("export", "--plain", "--for", "megatron", "--costs", costs, "--stages",
                                    ranks * chunks, "--micro-batches", 8, "--schedule",
                                    *(["interleaved", "--chunks", chunks] if chunks > 1 else ["1f1b"]))
        assert status == 0, failure
        layout = re.search(r'layout "(.*)"', out)[1]
        PipelineParallelLayerLayout(layout, ranks).validate_layer_layout(13, 1)
        count += 1
    print(count, "layouts were read by Megatron-Core")


def check_deepspeed():
    from deepspeed.pipe import PipelineModule

    count = 0
    for model, blocks in BLOCKS.items():
        for stages in (1, 2, 4, 7):
            file = f"{folder}/pipe.py"
            export("deepspeed", model, stages, "--output", file)
            scope = {}
            exec(open(file).read(), scope)
            planned = scope["PlannedPipeline"]
            assert issubclass(planned, PipelineModule)
            ends = []
            for stage in range(stages):
                made = planned.__new__(planned)
                for name, value in dict(num_stages=stages, stage_id=stage, _num_layers=blocks + 3, _local_start=0,
                                        _local_stop=None).items():
                    object.__setattr__(made, name, value)
                made._partition_layers(method="parameters")
                assert made.parts == scope["PARTS"] and made._local_start < made._local_stop
                ends += [made._local_start, made._local_stop]
            assert ends[0] == 0 and ends[-1] == blocks + 3 and ends[1:-1:2] == ends[2::2]
            made._num_layers += 1
            try:
                made._partition_layers()
                raise AssertionError("another number of layers was taken")
            except ValueError as refused:
                assert f"of {blocks + 3} layers, not for" in str(refused)
            count += 1
    print(count, "partitions were read by DeepSpeed")


def check_torch():
    import torch
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase

    class Stage(_PipelineStageBase):
        """What a schedule asks of a stage before it runs."""

        def __init__(self, index, count, ranks):
            self.stage_index, self.num_stages = index, count
            self.group_rank, self.group_size, self.group = 0, ranks, None
            self.has_backward, self.submod, self.device = True, None, torch.device("cpu")

        def _refuse(self, *_, **__):
            raise NotImplementedError("nothing runs here")

        _create_grad_recv_info = _prepare_backward_infra = _prepare_forward_infra = _refuse

    def loaded(file, stages, ranks, micro_batches):
        """The schedule as torchtitan makes it from a file, after PyTorch's check and its dry run."""
        mine = [Stage(s, stages, ranks) for s in range(0, stages, ranks)]
        made = schedules._PipelineScheduleRuntime(mine, micro_batches)
        made._load_csv(file)
        skipped = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD")  # the dry run does not know them
        actions = {rank: [a for a in row if not str(a).lstrip("0123456789").startswith(skipped)]
                   for rank, row in made.pipeline_order_with_comms.items()}
        schedules._simulate_comms_compute(actions, lambda s: made.stage_index_to_group_rank[s], stages)
        return made

    def ranks_of(style, stages, ranks):
        if style == "PipelineScheduleMulti":
            return {s: s % ranks for s in range(stages)}
        return {s: s if s < ranks else 2 * ranks - 1 - s for s in range(stages)}

    count = 0
    for model, blocks in BLOCKS.items():
        for order, chunks in (("fill-drain", 1), ("1f1b", 1), ("zb-h1", 1), ("zb-2p", 1), ("interleaved", 2),
                              ("interleaved", 3), ("interleaved-zb", 2), ("looped-bfs", 2), ("zb-v", 2),
                              ("dualpipev", 2), ("v-half", 2), ("v-min", 2)):
            for ranks in (2, 4):
                stages, micro_batches = ranks * chunks, 4 * ranks
                if stages > blocks:
                    continue
                more = ["--chunks", chunks] if order in ("interleaved", "interleaved-zb", "looped-bfs") else []
                text = export("torchtitan", model, stages, "--micro-batches", micro_batches, "--schedule", order,
                              "--output", f"{folder}/titan", *more)
                config = SimpleNamespace(parallelism=SimpleNamespace())
                exec(text, {"config": config})
                it = config.parallelism
                modules = [name for part in it.module_fqns_per_model_part for name in part]
                assert modules == ["tok_embeddings", *(f"layers.{i}" for i in range(blocks)), "norm", "lm_head"]
                assert len(it.module_fqns_per_model_part) == stages and all(it.module_fqns_per_model_part)
                assert (it.pipeline_parallel_degree, it.num_pp_microbatches) == (ranks, micro_batches)
                made = loaded(it.pipeline_parallel_schedule_csv, stages, ranks, micro_batches)
                expected = ranks_of(it.pipeline_parallel_schedule, stages, ranks)
                assert made.stage_index_to_group_rank == expected, (order, made.stage_index_to_group_rank, expected)
                assert plan("check", it.pipeline_parallel_schedule_csv)[0] == 0
                count += 1
    print(count, "plans were read as torchtitan does")

    # PyTorch's own tables pass, and a table with a fault passes exactly where PyTorch's check and dry run do.
    tables = 0
    file = f"{folder}/table.csv"
    samples = []
    for kind, chunks in ((schedules.ScheduleInterleaved1F1B, 2), (schedules.ScheduleLoopedBFS, 2),
                         (schedules.ScheduleInterleavedZeroBubble, 2), (schedules.ScheduleZBVZeroBubble, 2),
                         (schedules.ScheduleDualPipeV, 2)):
        for ranks in (2, 3, 4):
            for micro_batches in (2 * ranks, 4 * ranks):
                stages = ranks * chunks
                made = kind([Stage(s, stages, ranks) for s in range(0, stages, ranks)], micro_batches)
                schedules.PipelineScheduleMulti._dump_csv(made, file)
                status, out, failure = plan("check", file, "--plain")
                assert status == 0, (kind, ranks, micro_batches, out, failure)
                assert f"ranks {ranks}\nstages {stages}\nmicro_batches {micro_batches}\n" in out
                tables += 1
                rows = [line.split(",") for line in open(file).read().splitlines()]
                if not any("OVERLAP" in cell for row in rows for cell in row):
                    samples.append((rows, stages, ranks, micro_batches))
    print(tables, "tables of PyTorch pass")

    generator, verdicts = random.Random(1), {}
    for _ in range(300):
        rows, stages, ranks, micro_batches = generator.choice(samples)
        rows = [[cell for cell in row if cell] for row in rows]
        row = generator.choice(rows)
        way = generator.choice(["swap", "move", "remove", "rename"])
        i, j = generator.randrange(len(row)), generator.randrange(len(row))
        if way == "swap":
            row[i], row[j] = row[j], row[i]
        elif way == "move":
            row.insert(j, row.pop(i))
        elif way == "remove":
            row.pop(i)
        else:
            row[i] = re.sub(r"\d+$", lambda m: str((int(m[0]) + 1) % micro_batches), row[i])
        with open(file, "w") as out:
            out.writelines(",".join(cells) + "\n" for cells in rows)
        try:
            loaded(file, stages, ranks, micro_batches)
            theirs = True
        except (AssertionError, ValueError, RuntimeError, KeyError):
            theirs = False
        status, out, failure = plan("check", file, "--plain")
        ours = status == 0
        verdicts[(theirs, ours)] = verdicts.get((theirs, ours), 0) + 1
        assert ours == theirs, (way, theirs, out, failure, open(file).read())
    print("of 300 changed tables", verdicts.get((True, True), 0), "pass in both and",
          verdicts.get((False, False), 0), "fail in both")
    assert min(verdicts.get((True, True), 0), verdicts.get((False, False), 0)) > 20


os.makedirs(folder, exist_ok=True)
{"torch": check_torch, "megatron": check_megatron, "deepspeed": check_deepspeed}[which]()
