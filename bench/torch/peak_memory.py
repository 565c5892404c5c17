"""The peak of the memory that torch has allocated in a step of a network, in bytes: parameters, gradients, moments,
activations. Whole batch, and micro-batches with gradients summed, each without and with checkpointing of every block."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from networks import CLASSES, INPUTS, Block


class Net(nn.Module):
    def __init__(self, blocks, width, dropout, recompute):
        super().__init__()
        self.recompute = recompute
        self.first = nn.Sequential(*([nn.Dropout(0.1)] if dropout else []), nn.Linear(INPUTS, width))
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(blocks))
        self.last = nn.Sequential(*([nn.LayerNorm(width)] if dropout else []), nn.Linear(width, CLASSES))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.last(x)


def peak_of(net, optimizer, samples, pieces):
    x, y = torch.randn(samples, INPUTS), torch.randint(CLASSES, (samples,))
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        for xs, ys in zip(x.chunk(pieces), y.chunk(pieces)):
            (loss(net(xs), ys) / pieces).backward()
        optimizer.step()

    step()  # moments are made
    optimizer.zero_grad()
    held = sum(p.numel() * p.element_size() for p in net.parameters())
    held += sum(t.numel() * t.element_size() for s in optimizer.state.values() for t in s.values() if torch.is_tensor(t))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        step()
    now = most = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return held + most


torch.manual_seed(1)
for name, blocks, width, dropout, samples, pieces in [("mlp", 8, 256, False, 1024, 32), ("digits", 16, 64, True, 64, 8)]:
    for recompute in (False, True):
        net = Net(blocks, width, dropout, recompute)
        adam = torch.optim.Adam(net.parameters())
        way = "recompute" if recompute else "plain"
        print(f"result {name}.{way}.whole_batch {peak_of(net, adam, samples, 1)} bytes")
        print(f"result {name}.{way}.micro_batches {peak_of(net, adam, samples, pieces)} bytes")
