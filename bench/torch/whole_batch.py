"""A network of bench/networks.hpp in torch, as a user without a pipeline trains it: two threads, the whole mini-batch at
once. "plain" is eager, "last" the same with images in channels-last order, "compiled" by torch.compile, in that order
too; requests come line by line."""

import sys

import torch

from networks import NETWORKS, answer
from images import Chain

network = NETWORKS[sys.argv[1]]
torch.set_num_threads(2)
torch.manual_seed(1)
x, y = network.data()


last = torch.channels_last if x.dim() == 4 else torch.contiguous_format


def way(wrapped, order):
    net, inputs = Chain(*network.layers()).to(memory_format=order), x.contiguous(memory_format=order)
    rule = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    forward = wrapped(lambda: network.loss(net(inputs), y))

    def step():
        rule.zero_grad()
        forward().backward()
        rule.step()

    return step


answer({"plain": way(lambda f: f, torch.contiguous_format), "last": way(lambda f: f, last),
        "compiled": way(torch.compile, last)})
