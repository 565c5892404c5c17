"""A network of bench/networks.hpp by torch.distributed.pipelining: two processes, gloo, one thread each (the machine has
two cores), no recompute, its schedules GPipe ("gpipe") and 1F1B ("1f1b"); requests come line by line."""

import os
import sys
from functools import partial

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from networks import NETWORKS, answer
from images import Chain, in_channels_last

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def way(rank, network, kind):
    every = network.layers()
    x, y = network.data()
    part = Chain(*(every[:network.half] if rank == 0 else every[network.half:]))
    if x.dim() == 4:
        part, x = in_channels_last(part, rank), x.contiguous(memory_format=torch.channels_last)
    schedule = kind(PipelineStage(part, rank, 2, torch.device("cpu")), network.micro_batches, loss_fn=network.loss)
    rule = torch.optim.SGD(part.parameters(), lr=1e-3, fused=True)

    def step():
        rule.zero_grad()
        schedule.step(x) if rank == 0 else schedule.step(target=y, losses=[])
        rule.step()

    return step


def run(rank, network):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    ways = {name: way(rank, NETWORKS[network], kind) for name, kind in SCHEDULES.items()}
    if rank == 0:

        def order(number):
            dist.broadcast(torch.tensor([number]), 0)

        def both(number, step):
            order(number)
            step()

        def fence():
            order(len(ways))
            dist.barrier()

        answer({name: partial(both, number, step) for number, (name, step) in enumerate(ways.items())}, fence)
        order(-1)
    else:
        orders, heard = [*ways.values(), dist.barrier], torch.tensor([0])
        while True:
            dist.broadcast(heard, 0)
            if heard < 0:
                break
            orders[heard]()
    dist.destroy_process_group()


if __name__ == "__main__":
    other = mp.get_context("spawn").Process(target=run, args=(1, sys.argv[1]))
    other.start()
    run(0, sys.argv[1])
    other.join()
