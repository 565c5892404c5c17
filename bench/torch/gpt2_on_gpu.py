"""A training step of GPT-2, 124 million parameters, in torch on one GPU: 8 samples of 1,024 tokens as 4 micro-batches of
2 (and as one of 8), parameters in float32, products in bf16, AdamW and a largest norm of 1. Seconds, eager and compiled."""

import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, TOKENS, WORDS, SAMPLES = 12, 12, 768, 1024, 50257, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.01)

    def forward(self, words, labels):
        x = self.words(words) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def median_step(net, micro_batches):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    words = (torch.arange(SAMPLES * TOKENS) * 7919 % WORDS).view(SAMPLES, TOKENS).cuda()
    took = []
    for i in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for part in words.chunk(micro_batches):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = net(part, part) / micro_batches
            loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        if i >= 3:
            took.append(time.perf_counter() - begin)
    return statistics.median(took)


if torch.cuda.is_available():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    net = GPT2().cuda()
    print(f"result eager {median_step(net, 4)} s", flush=True)
    print(f"result eager_whole {median_step(net, 1)} s", flush=True)
    print(f"result compiled {median_step(torch.compile(net), 4)} s", flush=True)
