"""The residual networks of bench/networks.hpp in torch, and the loop that answers requests for times."""

import sys
import time

from torch import nn

INPUTS, CLASSES = 64, 10
NETWORKS = {"mlp": (8, 256, 32), "mlps": (16, 64, 4)}  # blocks, width, samples in a micro-batch
MICRO_BATCHES = 32


class Block(nn.Module):
    def __init__(self, width, dropout=False):
        super().__init__()
        self.inside = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                    nn.Linear(4 * width, width), *([nn.Dropout(0.1)] if dropout else []))

    def forward(self, x):
        return x + self.inside(x)


def layers(blocks, width, inputs=INPUTS, classes=CLASSES):
    """The layers in order, for a whole network or a part of one."""
    return [nn.Linear(inputs, width), *(Block(width) for _ in range(blocks)), nn.Linear(width, classes)]


def answer(ways, fence=lambda: None):
    """For each line `WAY STEPS` of the standard input: runs these steps, and prints their duration in seconds. `ways`
    are functions by name; `fence` waits until all work is done."""
    for line in sys.stdin:
        way, steps = line.split()
        fence()
        begin = time.perf_counter()
        for _ in range(int(steps)):
            ways[way]()
        fence()
        print(time.perf_counter() - begin, flush=True)
