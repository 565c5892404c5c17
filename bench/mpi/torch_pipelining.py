"""The network "mlp" of bench/networks.hpp by torch.distributed.pipelining: two processes, gloo, one thread each, no
recompute. Prints its rate, of useful work: 6 operations a weight and sample."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

INPUTS, CLASSES, WIDTH, BLOCKS, M, B = 64, 10, 256, 8, 32, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"),
                                    nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.inside(x)


def layers(rank):
    """Half of the network: the blocks weigh by far the most."""
    blocks = [Block() for _ in range(BLOCKS // 2)]
    return nn.Sequential(*([nn.Linear(INPUTS, WIDTH)] + blocks if rank == 0 else blocks + [nn.Linear(WIDTH, CLASSES)]))


def run(rank, rounds, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    weights = torch.tensor([0.0])
    rates = {}
    for name, kind in (("gpipe", ScheduleGPipe), ("1f1b", Schedule1F1B)):
        part = layers(rank)
        weights[0] = sum(p.numel() for p in part.parameters())
        dist.all_reduce(weights)
        stage = PipelineStage(part, rank, 2, torch.device("cpu"))
        schedule = kind(stage, M, loss_fn=nn.CrossEntropyLoss())
        rule = torch.optim.SGD(part.parameters(), lr=1e-3)
        x, y = torch.randn(M * B, INPUTS), torch.randint(0, CLASSES, (M * B,))
        times = []
        for i in range(rounds + 2):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(3):
                rule.zero_grad()
                schedule.step(x) if rank == 0 else schedule.step(target=y, losses=[])
                rule.step()
            dist.barrier()
            if i >= 2:
                times.append((time.perf_counter() - begin) / 3)
        rates[name] = 6e-9 * weights.item() * M * B / statistics.median(times)
    if rank == 0:
        out.put(rates)
    dist.destroy_process_group()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    out = context.Queue()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    both = [context.Process(target=run, args=(rank, rounds, out)) for rank in range(2)]
    for process in both:
        process.start()
    for name, rate in out.get().items():
        print(f"result {name} {rate:.4g} GFLOP/s")
    for process in both:
        process.join()
