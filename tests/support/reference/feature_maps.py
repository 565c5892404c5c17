#!/usr/bin/env python3
"""PyTorch's numbers of layers of feature maps: torch 2.15, float64.

Each case is one layer in training on two samples. Inputs, the output's gradient and parameters are formulas (`number`
below; tests/support/torch_number.hpp repeats it). A case has the output, the input's gradient and the gradients of the
parameters, each as its inner products with four streams of such numbers: the elements count in the order of gpipe's
memory, so an element at a wrong place shows. PyTorch's tensors [samples, C, H, W] have the order [samples, H, W, C]
there; weights [K, C, KH, KW] have [KH, KW, C, K].

    python3 tests/support/reference/feature_maps.py     # needs torch; writes feature_maps.hpp beside this file
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)

SAMPLES, STREAMS = 2, 4


def number(stream, i):
    """Element i of a stream of numbers in [-1, 1)."""
    return (i * (i + stream) * 37 + stream * 11) % 8191 / 4096 - 1


def numbers(stream, shape):
    return torch.tensor([number(stream, i) for i in range(torch.Size(shape).numel())]).reshape(shape)


def products(x):
    """Of x in gpipe's order."""
    flat = x.detach().flatten()
    return [torch.dot(flat, numbers(11 + s, flat.shape)).item() for s in range(STREAMS)]


def to_torch(x):
    return x.permute(0, 3, 1, 2).contiguous()


def to_gpipe(x):
    return x.permute(0, 2, 3, 1).contiguous() if x.dim() == 4 else x


def weight_to_torch(w):
    return w.permute(3, 2, 0, 1).contiguous() if w.dim() == 4 else w


def weight_to_gpipe(w):
    return w.permute(2, 3, 1, 0).contiguous() if w.dim() == 4 else w


def run(layer, channels, height, width):
    x = to_torch(numbers(1, (SAMPLES, height, width, channels))).requires_grad_()
    parameters = list(layer.parameters()) if isinstance(layer, nn.Module) else []
    for i, p in enumerate(parameters):
        with torch.no_grad():
            p.copy_(weight_to_torch(numbers(3 + i, weight_to_gpipe(p).shape)))
    y = layer(x)
    dy = numbers(2, to_gpipe(y).shape)
    y.backward(to_torch(dy) if dy.dim() == 4 else dy)
    found = [products(to_gpipe(y)), products(to_gpipe(x.grad))]
    return found + [products(weight_to_gpipe(p.grad)) for p in parameters]


def averages(biased):
    """The running averages of a batch norm with 3 channels of 3 x 4 pixels after two steps, the second one of 2 x the
    input. `biased`: the variance as torchgpipe's deferred batch norm and TensorFlow have it."""
    x = to_torch(numbers(1, (SAMPLES, 3, 4, 3)))
    norm = nn.BatchNorm2d(3)
    mean, variance = torch.zeros(3), torch.ones(3)
    for step in (1, 2):
        norm(step * x)
        mean = 0.9 * mean + 0.1 * (step * x).mean((0, 2, 3))
        variance = 0.9 * variance + 0.1 * (step * x).var((0, 2, 3), unbiased=not biased)
    if not biased:
        assert torch.allclose(mean, norm.running_mean) and torch.allclose(variance, norm.running_var)
    return mean.tolist() + variance.tolist()


CASES = {
    "conv2d": ([
        nn.Conv2d(4, 3, 3),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False),
        nn.Conv2d(4, 5, (1, 5), padding=(0, 2)),
        nn.Conv2d(4, 2, 2, stride=(1, 3), padding=(2, 1), dilation=(3, 2)),
        nn.Conv2d(4, 8, 3, padding=1, groups=4),
        nn.Conv2d(4, 7, 1, stride=2),
    ], (4, 5, 6)),
    "conv_transpose2d": ([
        nn.ConvTranspose2d(4, 3, 2, stride=2),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False),
        nn.ConvTranspose2d(4, 2, (3, 2), stride=(3, 1), dilation=(1, 2)),
        nn.ConvTranspose2d(4, 5, 3, padding=1),
    ], (4, 3, 2)),
    "max_pool": ([
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d((3, 2), stride=1),
        nn.MaxPool2d(2, stride=3),
        nn.MaxPool2d(3, stride=1, padding=1),
    ], (3, 5, 7)),
    "average_pool": ([
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
        nn.AvgPool2d((1, 3), stride=(2, 1)),
        nn.AvgPool2d((5, 4), stride=1, padding=(0, 2), count_include_pad=False),
    ], (3, 5, 7)),
    "global_average_pool": ([nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())], (3, 5, 7)),
    "instance_norm": ([nn.InstanceNorm2d(3), nn.InstanceNorm2d(3, eps=0.25)], (3, 3, 4)),
    "affine_instance_norm": ([nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm2d(3, eps=0.25, affine=True)], (3, 3, 4)),
    "group_norm": ([nn.GroupNorm(1, 6), nn.GroupNorm(2, 6, eps=0.25), nn.GroupNorm(6, 6)], (6, 3, 4)),
    "batch_norm": ([nn.BatchNorm2d(3), nn.BatchNorm2d(3, eps=0.25)], (3, 3, 4)),
    "leaky_relu": ([nn.LeakyReLU(), nn.LeakyReLU(0.3)], (3, 3, 4)),
    "upsample": ([nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=(1, 3))], (3, 3, 4)),
    "pad": ([lambda x: F.pad(x, (1, 2, 0, 3)), lambda x: F.pad(x, (-1, 1, -1, 1)), lambda x: F.pad(x, (2, -3, -2, 0))],
            (3, 3, 4)),
}


def main():
    text = "// Generated by feature_maps.py, which says what this is; do not edit.\n#pragma once\n\n// clang-format off\n"
    text += "namespace reference::feature_maps {\n\n"
    text += f"inline constexpr int samples = {SAMPLES}, streams = {STREAMS};\n\n"
    text += "/// Inner products with the streams.\n"
    text += "struct layer {\n  double out[streams]{}, in_gradient[streams]{}, weight[streams]{}, bias[streams]{};\n};\n\n"
    for name, (layers, extents) in CASES.items():
        text += f"inline constexpr layer {name}[{len(layers)}] = {{\n"
        for layer in layers:
            rows = [f"{{{', '.join(map(repr, row))}}}" for row in run(layer, *extents)]
            text += "    {" + ",\n     ".join(rows) + "},\n"
        text += "};\n\n"
    text += "/// Means, then variances.\n"
    for name, biased in (("averages", False), ("biased_averages", True)):
        text += f"inline constexpr double {name}[6] = {{{', '.join(map(repr, averages(biased)))}}};\n"
    text += "\n}  // namespace reference::feature_maps\n"
    (Path(__file__).parent / "feature_maps.hpp").write_text(text)


if __name__ == "__main__":
    main()
