"""The networks of bench/networks.hpp in torch, and the loop that answers requests for times."""

import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from images import Images, amoebanet, resnet

INPUTS, CLASSES, VOCABULARY = 64, 10, 256


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


class Tokens(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(tokens, width)

    def forward(self, x):
        return self.words(x) + self.places.weight


class GPTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inside = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                    nn.Linear(4 * width, width))

    def forward(self, x):
        samples, tokens, width = x.shape
        split = self.qkv(self.before(x)).view(samples, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).reshape(samples, tokens, width)
        x = x + self.out(y)
        return x + self.inside(x)


class MLP:
    def __init__(self, blocks, width, samples):
        self.blocks, self.width, self.micro_batches, self.samples = blocks, width, 32, 32 * samples
        self.half = 1 + blocks // 2  # the blocks have nearly all of the weight

    def layers(self):
        return layers(self.blocks, self.width)

    def data(self):
        return torch.randn(self.samples, INPUTS), torch.randint(0, CLASSES, (self.samples,))

    loss = nn.CrossEntropyLoss()


class GPT:
    def __init__(self, blocks, width, heads, tokens, micro_batches, samples):
        self.blocks, self.width, self.heads, self.tokens = blocks, width, heads, tokens
        self.micro_batches, self.samples = micro_batches, micro_batches * samples
        self.half = 1 + blocks // 2

    def layers(self):
        return [Tokens(self.tokens, self.width), *(GPTBlock(self.width, self.heads) for _ in range(self.blocks)),
                nn.Sequential(nn.LayerNorm(self.width), nn.Linear(self.width, VOCABULARY))]

    def data(self):
        return tuple(torch.randint(0, VOCABULARY, (self.samples, self.tokens)) for _ in range(2))

    @staticmethod
    def loss(logits, labels):
        return cross_entropy(logits.flatten(0, 1), labels.flatten())


# Blocks and width, or layers and the first of the second stage; micro-batches and samples in one last. A network cut before
# layer `half` has two stages.
NETWORKS = {"mlp": MLP(8, 256, 32), "mlps": MLP(16, 64, 4), "tf": GPT(8, 256, 4, 128, 8, 4),
            "tfs": GPT(8, 128, 4, 64, 32, 2), "resnet": Images(resnet, 7, 8, 8),
            "amoebanet": Images(lambda: amoebanet(6, 64), 6, 8, 8)}


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
