"""The translator of examples/translate.cpp in torch, T(2, 768, 3) of width 192, and its steps: 32 sentences of 64 pieces
on two cores. The ways are `eager` and `compiled`. Norms stand before the layers, as in gpipe's."""

import math
import os
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))
from networks import answer

PIECES, WIDTH, HIDDEN, HEADS, HEAD_WIDTH, LAYERS, LENGTH, BATCH = 6000, 192, 768, 3, 64, 2, 64, 32
DROPOUT, SMOOTHING = 0.1, 0.1


class Attention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal
        self.queries, self.others = nn.Linear(WIDTH, HEADS * HEAD_WIDTH), nn.Linear(WIDTH, 2 * HEADS * HEAD_WIDTH)
        self.out = nn.Linear(HEADS * HEAD_WIDTH, WIDTH)

    def forward(self, x, source, mask=None):
        def heads(y, parts):
            return y.view(y.shape[0], y.shape[1], parts, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4)

        q, (k, v) = heads(self.queries(x), 1)[0], heads(self.others(source), 2)
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))


class Layer(nn.Module):
    def __init__(self, decodes):
        super().__init__()
        self.own, self.inside = Attention(causal=decodes), FeedForward()
        self.cross = Attention() if decodes else None
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3 if decodes else 2))
        self.dropped = nn.Dropout(DROPOUT)

    def forward(self, x, mask, memory=None):
        y = self.norms[0](x)
        x = x + self.dropped(self.own(y, y, None if self.cross else mask))
        if self.cross:
            x = x + self.dropped(self.cross(self.norms[2](x), memory, mask))
        return x + self.dropped(self.inside(self.norms[1](x)))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(PIECES, WIDTH)
        nn.init.normal_(self.words.weight, std=WIDTH ** -0.5)
        self.encoder = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.head, self.dropped = nn.Linear(WIDTH, PIECES), nn.Dropout(DROPOUT)
        rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        angles = torch.arange(LENGTH)[:, None] * rate
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))

    def embedded(self, x):
        return self.dropped(self.words(x) * math.sqrt(WIDTH) + self.places)

    def forward(self, inputs, lengths, targets):
        mask = (torch.arange(LENGTH) < lengths[:, None])[:, None, None, :]
        x = self.embedded(inputs)
        for layer in self.encoder:
            x = layer(x, mask)
        memory, x = self.norms[0](x), self.embedded(targets)
        for layer in self.decoder:
            x = layer(x, mask, memory)
        return self.head(self.norms[1](x))


torch.set_num_threads(2)
torch.manual_seed(1)
net = Translator()
inputs, targets, labels = (torch.randint(4, PIECES, (BATCH, LENGTH)) for _ in range(3))
lengths = torch.full((BATCH,), LENGTH)
rule = torch.optim.AdamW(net.parameters(), fused=True)
compiled = torch.compile(net)


def step(forward):
    rule.zero_grad()
    cross_entropy(forward(inputs, lengths, targets).flatten(0, 1), labels.flatten(), ignore_index=-100,
                  label_smoothing=SMOOTHING).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1)
    rule.step()


answer({"eager": lambda: step(net), "compiled": lambda: step(compiled)})
