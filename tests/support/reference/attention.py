#!/usr/bin/env python3
"""PyTorch's numbers of three training steps with attention: torch 2.15, float64.

Each case is a linear layer, an attention and a cross-entropy of every token, trained by plain gradient descent:

    causal        torch.nn.MultiheadAttention with a causal mask and a padding mask
    cross         the same, of one linear layer's tokens to those of another
    two_widths    the same, to further tokens of another width (kdim, vdim), padded
    grouped       scaled_dot_product_attention with two query heads for each key head, a head width of its own, and
                  rotary positions as in Hugging Face's Llama

Inputs and first values are formulas (`number` below; tests/layer/attention/torch.cpp repeats it). A case has the losses
of three steps and one more, and all parameters after the third step.

    python3 tests/support/reference/attention.py     # needs torch; writes attention.hpp beside this file
"""

from pathlib import Path

import torch
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)

SAMPLES, TOKENS, FEATURES, WIDTH, KEY_TOKENS, KEY_WIDTH, RATE = 4, 5, 3, 4, 6, 2, 0.5
LENGTHS, KEY_LENGTHS = [5, 3, 1, 2], [6, 2, 1, 5]


def number(stream, shape):
    """Element i of a stream of numbers in [-1, 1]."""
    count = 1
    for extent in shape:
        count *= extent
    return torch.tensor([((i * 37 + stream * 11) % 41) / 20 - 1 for i in range(count)]).reshape(shape)


def parameters_of(module, streams):
    """The module's parameters in the order of registration, with first values."""
    found = []
    for name, p in module.named_parameters():
        with torch.no_grad():
            p.copy_(number(next(streams), p.shape))
        found.append(p)
    return found


def padding(lengths, tokens):
    return torch.tensor([[t >= n for t in range(tokens)] for n in lengths])


class Grouped(torch.nn.Module):
    HEADS, KEY_HEADS, HEAD = 4, 2, 6

    def __init__(self):
        super().__init__()
        columns = (self.HEADS + 2 * self.KEY_HEADS) * self.HEAD
        self.in_proj_weight = torch.nn.Parameter(torch.empty(columns, WIDTH))
        self.out_proj_weight = torch.nn.Parameter(torch.empty(WIDTH, self.HEADS * self.HEAD))

    def turned(self, x):
        half = self.HEAD // 2
        angles = torch.arange(TOKENS)[:, None] * 100.0 ** (-torch.arange(half) * 2 / self.HEAD)
        cosine, sine = torch.cos(angles).repeat(1, 2), torch.sin(angles).repeat(1, 2)
        return x * cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sine

    def forward(self, x):
        heads = [self.HEADS, self.KEY_HEADS, self.KEY_HEADS]
        parts = (x @ self.in_proj_weight.T).split([h * self.HEAD for h in heads], dim=-1)
        q, k, v = (p.reshape(SAMPLES, TOKENS, h, self.HEAD).transpose(1, 2) for p, h in zip(parts, heads))
        mixed = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(SAMPLES, TOKENS, -1) @ self.out_proj_weight.T


def run(case):
    streams = iter(range(3, 100))
    first = torch.nn.Linear(FEATURES, WIDTH)
    trained = parameters_of(first, streams)
    if case == "cross":
        second = torch.nn.Linear(WIDTH, WIDTH)
        trained += parameters_of(second, streams)
    if case == "grouped":
        attention = Grouped()
        trained += parameters_of(attention, streams)
    else:
        widths = {"kdim": KEY_WIDTH, "vdim": KEY_WIDTH} if case == "two_widths" else {}
        attention = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True, **widths)
        trained += parameters_of(attention, streams)
    x, memory = number(1, (SAMPLES, TOKENS, FEATURES)), number(2, (SAMPLES, KEY_TOKENS, KEY_WIDTH))
    labels = torch.tensor([i * 5 % WIDTH for i in range(SAMPLES * TOKENS)])
    earlier = torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), diagonal=1)

    def forward():
        h = first(x)
        if case == "causal":
            y = attention(h, h, h, attn_mask=earlier, key_padding_mask=padding(LENGTHS, TOKENS))[0]
        elif case == "cross":
            g = second(h)
            y = attention(g, h, h)[0]
        elif case == "two_widths":
            y = attention(h, memory, memory, key_padding_mask=padding(KEY_LENGTHS, KEY_TOKENS))[0]
        else:
            y = attention(h)
        return F.cross_entropy(y.reshape(-1, WIDTH), labels)

    optimizer, losses, after = torch.optim.SGD(trained, lr=RATE), [], []
    for step in range(4):
        loss = forward()
        losses.append(loss.item())
        if step < 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for p in trained:
        after += p.detach().flatten().tolist()
    return losses, after


def table(name, numbers):
    lines = [f"inline constexpr double {name}[{len(numbers)}] = {{"]
    line = "   "
    for x in numbers:
        if len(line) + len(repr(x)) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {x!r},"
    return "\n".join(lines + [line, "};"]) + "\n"


def main():
    text = "// Generated by attention.py, which says what this is; do not edit.\n#pragma once\n\n// clang-format off\n"
    text += "namespace reference::attention {\n\n"
    text += f"inline constexpr int samples = {SAMPLES}, tokens = {TOKENS}, features = {FEATURES}, width = {WIDTH};\n"
    text += f"inline constexpr int key_tokens = {KEY_TOKENS}, key_width = {KEY_WIDTH};\n"
    text += f"inline constexpr double rate = {RATE};\n"
    text += f"inline constexpr int lengths[] = {{{', '.join(map(str, LENGTHS))}}};\n"
    text += f"inline constexpr int key_lengths[] = {{{', '.join(map(str, KEY_LENGTHS))}}};\n\n"
    for case in ("causal", "cross", "two_widths", "grouped"):
        losses, after = run(case)
        text += table(f"{case}_losses", losses) + table(f"{case}_after", after) + "\n"
    text += "}  // namespace reference::attention\n"
    (Path(__file__).parent / "attention.hpp").write_text(text)


if __name__ == "__main__":
    main()
