#!/usr/bin/env python3
"""PyTorch's numbers of whole networks of images: torch 2.15, float64.

Three steps of training by SGD with momentum, each on 2 micro-batches of 3 images: a ResNet of 18 layers with small
widths, and AmoebaNet-D (3, 16). A batch norm normalizes by its micro-batch; its averages are those of the 6 images,
with the unbiased variance. Images, labels and first values are formulas (`number` below; tests/support/torch_number.hpp
repeats it, and tests/support/trained_like_torch.hpp the others). Of each parameter there is, after each step, its inner
product with a stream of such numbers, in the order of gpipe's memory; of the averages those after the last step.

AmoebaNet-D is written as its tables say: a state of a cell is two operations, each on a state. A cell takes the outputs
of the two cells before.

    python3 tests/support/reference/vision_networks.py     # needs torch; writes vision_networks.hpp beside this file
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)

MICRO_BATCHES, SAMPLES, STEPS, CLASSES = 2, 3, 3, 5
MOMENTUM = 0.9


def number(stream, i):
    """Element i of a stream of numbers in [-1, 1)."""
    return (i * (i + stream) * 37 + stream * 11) % 8191 / 4096 - 1


def numbers(stream, shape):
    return torch.tensor([number(stream, i) for i in range(torch.Size(shape).numel())]).reshape(shape)


def weight_to_torch(w):
    return w.permute(3, 2, 0, 1).contiguous() if w.dim() == 4 else w


def weight_to_gpipe(w):
    return w.permute(2, 3, 1, 0).contiguous() if w.dim() == 4 else w


class BatchNorm(nn.BatchNorm2d):
    """Normalizes by the micro-batch. `update_state` ends a step: the averages move towards what all micro-batches had."""

    def __init__(self, channels):
        super().__init__(channels)
        self.seen = []

    def forward(self, x):
        self.seen.append(x.detach())
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)

    def update_state(self):
        F.batch_norm(torch.cat(self.seen), self.running_mean, self.running_var, training=True, momentum=self.momentum)
        self.seen = []


def conv(inside, outside, kernel=1, stride=1, padding=0):
    return nn.Conv2d(inside, outside, kernel, stride, padding, bias=False)


# ResNet ---------------------------------------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.first = nn.Sequential(conv(inside, width, 3, stride, 1), BatchNorm(width), nn.ReLU(),
                                   conv(width, width, 3, 1, 1), BatchNorm(width))
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(conv(inside, width, 1, stride), BatchNorm(width))

    def forward(self, x):
        return F.relu(self.first(x) + self.shortcut(x))


def resnet(widths=(6, 8, 10, 12)):
    layers = [conv(3, widths[0], 7, 2, 3), BatchNorm(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = widths[0]
    for group, width in enumerate(widths):
        layers += [Block(inside, width, 1 if group == 0 else 2), Block(width, width, 1)]
        inside = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES))


# AmoebaNet-D ----------------------------------------------------------------------------------------------------------

def relu_conv(inside, outside, kernel=1, stride=1, padding=0):
    return [nn.ReLU(), conv(inside, outside, kernel, stride, padding), BatchNorm(outside)]


OPERATIONS = {
    "none": lambda c, s: nn.Identity(),
    "conv 1x1": lambda c, s: nn.Sequential(*relu_conv(c, c, 1, s)),
    "conv 3x3": lambda c, s: nn.Sequential(*relu_conv(c, c // 4), *relu_conv(c // 4, c // 4, 3, s, 1),
                                           *relu_conv(c // 4, c)),
    "conv 1x7 7x1": lambda c, s: nn.Sequential(*relu_conv(c, c // 4),
                                               *relu_conv(c // 4, c // 4, (1, 7), (1, s), (0, 3)),
                                               *relu_conv(c // 4, c // 4, (7, 1), (s, 1), (3, 0)),
                                               *relu_conv(c // 4, c)),
    "average 3x3": lambda c, s: nn.AvgPool2d(3, s, 1, count_include_pad=False),
    "maximum 3x3": lambda c, s: nn.MaxPool2d(3, s, 1),
    "maximum 2x2": lambda c, s: nn.MaxPool2d(2, s),
}

# The states 2 ... 6, and those that are a cell's output.
NORMAL = ([((1, "conv 1x1"), (1, "maximum 3x3")),
           ((1, "none"), (0, "conv 1x7 7x1")),
           ((0, "conv 1x1"), (0, "conv 1x7 7x1")),
           ((2, "maximum 3x3"), (2, "none")),
           ((1, "average 3x3"), (5, "conv 1x1"))], (0, 3, 4, 6))
REDUCTION = ([((0, "maximum 2x2"), (0, "maximum 3x3")),
              ((2, "none"), (1, "conv 3x3")),
              ((2, "conv 1x7 7x1"), (2, "maximum 3x3")),
              ((3, "none"), (1, "maximum 2x2")),
              ((2, "average 3x3"), (3, "conv 1x1"))], (4, 5, 6))


class FactorizedReduce(nn.Module):
    """Half the image: channels of the even pixels beside channels of the odd ones."""

    def __init__(self, inside, outside):
        super().__init__()
        self.even, self.odd = conv(inside, outside // 2, 1, 2), conv(inside, outside // 2, 1, 2)
        self.norm = BatchNorm(outside)

    def forward(self, x):
        x = F.relu(x)
        return self.norm(torch.cat([self.even(x), self.odd(F.pad(x[:, :, 1:, 1:], (0, 1, 0, 1)))], 1))


class Cell(nn.Module):
    def __init__(self, table, channels, before, earlier, reduces, after_reduction):
        """`before` and `earlier`: the channels of the outputs of the two cells before."""
        super().__init__()
        self.table, self.outputs = table
        self.entry = nn.ModuleList([
            nn.Sequential(*relu_conv(before, channels)),
            FactorizedReduce(earlier, channels) if after_reduction else nn.Sequential(*relu_conv(earlier, channels))])
        self.operations = nn.ModuleList([
            nn.ModuleList([OPERATIONS[name](channels, 2 if reduces and state < 2 else 1) for state, name in row])
            for row in self.table])
        self.channels = channels * len(self.outputs)

    def forward(self, before, earlier):
        states = [self.entry[0](before), self.entry[1](earlier)]
        for row, (first, second) in zip(self.table, self.operations):
            states.append(first(states[row[0][0]]) + second(states[row[1][0]]))
        return torch.cat([states[i] for i in self.outputs], 1), before


class AmoebaNet(nn.Module):
    def __init__(self, normal, filters):
        super().__init__()
        self.stem = nn.Sequential(*relu_conv(3, filters // 4, 3, 2, 1))
        self.cells = nn.ModuleList()
        before = earlier = filters // 4
        reduced = False
        cells = [(REDUCTION, filters // 2), (REDUCTION, filters)]
        for factor in (1, 2, 4):
            cells += [(NORMAL, factor * filters)] * (normal // 3)
            cells += [(REDUCTION, 2 * factor * filters)] if factor < 4 else []
        for table, channels in cells:
            cell = Cell(table, channels, before, earlier, table is REDUCTION, reduced)
            self.cells.append(cell)
            before, earlier, reduced = cell.channels, before, table is REDUCTION
        self.classify = nn.Linear(before, CLASSES)

    def forward(self, x):
        before = earlier = self.stem(x)
        for cell in self.cells:
            before, earlier = cell(before, earlier)
        return self.classify(before.mean((2, 3)))


# Training -------------------------------------------------------------------------------------------------------------

def first_values(network):
    for k, p in enumerate(network.parameters()):
        shape = weight_to_gpipe(p).shape
        x = numbers(k + 1, shape)
        if p.dim() > 1:
            x *= (6 / p[0].numel()) ** 0.5
        elif any(p is norm.weight for norm in network.modules() if isinstance(norm, BatchNorm)):
            x = 1 + x / 4
        else:
            x /= 4
        with torch.no_grad():
            p.copy_(weight_to_torch(x))


def train(network, height, width, rate):
    first_values(network)
    optimizer = torch.optim.SGD(network.parameters(), rate, MOMENTUM)
    norms = [m for m in network.modules() if isinstance(m, BatchNorm)]
    count = MICRO_BATCHES * SAMPLES
    labels = torch.arange(count) * 3 % CLASSES
    losses, products = [], []
    for step in range(STEPS):
        images = numbers(1000 + step, (count, height, width, 3)).permute(0, 3, 1, 2).contiguous()
        optimizer.zero_grad()
        losses.append(0)
        for x, y in zip(images.split(SAMPLES), labels.split(SAMPLES)):
            loss = F.cross_entropy(network(x), y, reduction="sum") / count
            loss.backward()
            losses[-1] += loss.item()
        optimizer.step()
        for norm in norms:
            norm.update_state()
        products.append([torch.dot(weight_to_gpipe(p.detach()).flatten(), numbers(11, (p.numel(),))).item()
                         for p in network.parameters()])
    averages = [torch.dot(x, numbers(11, x.shape)).item() for n in norms for x in (n.running_mean, n.running_var)]
    return losses, products, averages


# Height, width, learning rate. Rounding grows: at a rate of 0.02 PyTorch's own float32 differs from float64 by 0.2 in
# parameters of AmoebaNet after three steps.
NETWORKS = {"resnet": (resnet(), 40, 34, 0.02), "amoebanet": (AmoebaNet(3, 16), 64, 64, 0.00005)}


def listed(values, indent="    "):
    lines, line = [], indent
    for v in values:
        text = f"{v:.15g}, "
        if len(line) + len(text) > 119:
            lines.append(line.rstrip())
            line = indent
        line += text
    return "\n".join(lines + [line.rstrip()])


def main():
    out = ["// Generated by vision_networks.py, which says what this is; do not edit.", "#pragma once", "",
           "// clang-format off", "namespace reference::vision_networks {", "",
           f"inline constexpr int micro_batches = {MICRO_BATCHES}, samples = {SAMPLES}, steps = {STEPS}, "
           f"classes = {CLASSES};",
           f"inline constexpr double momentum = {MOMENTUM};", "",
           "/// Losses of the steps; of each parameter, a step after the other; of each batch norm's mean and variance."]
    for name, (network, height, width, rate) in NETWORKS.items():
        losses, products, averages = train(network, height, width, rate)
        out += [f"namespace {name} {{", "",
                f"inline constexpr int height = {height}, width = {width}, parameters = {len(products[0])};",
                f"inline constexpr double rate = {rate};",
                f"inline constexpr double losses[steps] = {{{', '.join(repr(x) for x in losses)}}};",
                "inline constexpr double products[steps][parameters] = {"]
        for row in products:
            out += ["  {", listed(row), "  },"]
        out += ["};", f"inline constexpr double averages[{len(averages)}] = {{", listed(averages), "};", "",
                f"}}  // namespace {name}", ""]
        print(name, losses)
    out += ["}  // namespace reference::vision_networks", ""]
    Path(__file__).with_suffix(".hpp").write_text("\n".join(out))


if __name__ == "__main__":
    main()
