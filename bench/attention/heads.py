"""Causal attention of torch, forward and backward, on one thread: 1 sample, 4 heads of width 64."""

import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/torch")
from networks import answer

torch.set_num_threads(1)


def training(tokens, heads=4, width=64):
    torch.manual_seed(0)
    q, k, v = (torch.rand(1, heads, tokens, width).sub_(0.5).requires_grad_() for _ in range(3))
    gradient = torch.rand(1, heads, tokens, width).sub_(0.5)

    def run():
        q.grad = k.grad = v.grad = None
        scaled_dot_product_attention(q, k, v, is_causal=True).backward(gradient)

    return run


answer({tokens: training(int(tokens)) for tokens in sys.argv[1].split(",")})
