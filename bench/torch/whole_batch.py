"""A network of bench/networks.hpp in torch, as a user without a pipeline trains it: two threads, the whole mini-batch at
once. "plain" is eager, "compiled" by torch.compile; requests come line by line."""

import sys

import torch
from torch import nn

from networks import NETWORKS, answer

network = NETWORKS[sys.argv[1]]
torch.set_num_threads(2)
torch.manual_seed(1)
x, y = network.data()


def way(wrapped):
    net = nn.Sequential(*network.layers())
    rule = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    forward = wrapped(lambda: network.loss(net(x), y))

    def step():
        rule.zero_grad()
        forward().backward()
        rule.step()

    return step


answer({"plain": way(lambda f: f), "compiled": way(torch.compile)})
