"""The networks of bench/images.hpp in torch. A layer takes and gives one tensor, or two
between AmoebaNet's cells."""

import torch
from torch import nn
from torch.nn.functional import pad

SIDE, CLASSES = 64, 10


class Chain(nn.Sequential):
    """Layers one after the other, which may pass on several tensors."""

    def forward(self, *x):
        for layer in self:
            x = layer(*x) if isinstance(x, tuple) else layer(x)
        return x


class Reordered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, order, back):
        ctx.back = back
        return x.contiguous(memory_format=order)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous(memory_format=ctx.back), None, None


class Reorder(nn.Module):
    """Tensors in another order of memory, and their gradients in the former one."""

    def __init__(self, order, back):
        super().__init__()
        self.orders = order, back

    def forward(self, *x):
        y = tuple(Reordered.apply(one, *self.orders) for one in x)
        return y if len(y) > 1 else y[0]


def in_channels_last(stage, rank):
    """One of two stages, which computes in channels-last order: gloo sends only what is contiguous."""
    last, sent = torch.channels_last, torch.contiguous_format
    stage = stage.to(memory_format=last)
    return Chain(stage, Reorder(sent, last)) if rank == 0 else Chain(Reorder(last, sent), stage)


def conv(inputs, outputs, kernel=1, stride=1, padding=0):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)


# ResNet ---------------------------------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.inside = nn.Sequential(conv(inputs, width), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                    conv(width, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                    conv(width, outputs), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(conv(inputs, outputs, 1, stride),
                                                                             nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.inside(x) + self.shortcut(x))


def resnet():
    layers = [nn.Sequential(conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))]
    inputs = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Bottleneck(inputs, width, stride), Bottleneck(4 * width, width, 1)]
        inputs = 4 * width
    return layers + [nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))]


# AmoebaNet-D ----------------------------------------------------------------------------------------------------------


def relu_conv(inputs, outputs, kernel=1, stride=1, padding=0):
    return nn.Sequential(nn.ReLU(), conv(inputs, outputs, kernel, stride, padding), nn.BatchNorm2d(outputs))


class FactorizedReduce(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.even, self.odd = conv(inputs, outputs // 2, 1, 2), conv(inputs, outputs // 2, 1, 2)
        self.relu, self.norm = nn.ReLU(), nn.BatchNorm2d(outputs)

    def forward(self, x):
        x = self.relu(x)
        return self.norm(torch.cat([self.even(x), self.odd(pad(x, (-1, 1, -1, 1)))], 1))


OPERATIONS = {
    "none": lambda c, s: nn.Identity(),
    "1x1": lambda c, s: relu_conv(c, c, 1, s),
    "3x3": lambda c, s: nn.Sequential(relu_conv(c, c // 4), relu_conv(c // 4, c // 4, 3, s, 1), relu_conv(c // 4, c)),
    "1x7": lambda c, s: nn.Sequential(relu_conv(c, c // 4), relu_conv(c // 4, c // 4, (1, 7), (1, s), (0, 3)),
                                      relu_conv(c // 4, c // 4, (7, 1), (s, 1), (3, 0)), relu_conv(c // 4, c)),
    "avg": lambda c, s: nn.AvgPool2d(3, s, 1, count_include_pad=False),
    "max": lambda c, s: nn.MaxPool2d(3, s, 1),
    "max2": lambda c, s: nn.MaxPool2d(2, s),
}
# State 2 and on: two operations with the state that each reads, and its stride.
NORMAL = ((("1x1", 1, 1), ("max", 1, 1)), (("none", 1, 1), ("1x7", 0, 1)), (("1x1", 0, 1), ("1x7", 0, 1)),
          (("max", 2, 1), ("none", 2, 1)), (("avg", 1, 1), ("1x1", 5, 1)))
REDUCTION = ((("max2", 0, 2), ("max", 0, 2)), (("none", 2, 1), ("3x3", 1, 2)), (("1x7", 2, 1), ("max", 2, 1)),
             (("none", 3, 1), ("max2", 1, 2)), (("avg", 2, 1), ("1x1", 3, 1)))


class Cell(nn.Module):
    def __init__(self, inputs, before, channels, reduces, after_reduction):
        super().__init__()
        self.first = relu_conv(inputs, channels)
        self.second = (FactorizedReduce if after_reduction else relu_conv)(before, channels)
        self.table, self.joined = (REDUCTION, (4, 5, 6)) if reduces else (NORMAL, (0, 3, 4, 6))
        self.operations = nn.ModuleList(OPERATIONS[name](channels, stride)
                                        for line in self.table for name, _, stride in line)

    def forward(self, x, before):
        states, operations = [self.first(x), self.second(before)], iter(self.operations)
        for (_, a, _), (_, b, _) in self.table:
            states.append(next(operations)(states[a]) + next(operations)(states[b]))
        return torch.cat([states[i] for i in self.joined], 1), x


class Twice(nn.Module):
    def forward(self, x):
        return x, x


class Classify(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.inside = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))

    def forward(self, x, _):
        return self.inside(x)


def amoebanet(cells, filters):
    kinds = [(filters // 2, True), (filters, True)]
    for group in (1, 2, 4):
        kinds += [(group * filters, False)] * (cells // 3) + ([(2 * group * filters, True)] if group < 4 else [])
    layers = [nn.Sequential(relu_conv(3, filters // 4, 3, 2, 1), Twice())]
    inputs = before = filters // 4
    after_reduction = False
    for channels, reduces in kinds:
        layers.append(Cell(inputs, before, channels, reduces, after_reduction))
        inputs, before, after_reduction = (3 if reduces else 4) * channels, inputs, reduces
    return layers + [Classify(inputs)]


class Images:
    """A network of images, cut before layer `half` where it has two stages."""

    def __init__(self, layers, half, micro_batches, samples):
        self.layers, self.half = layers, half
        self.micro_batches, self.samples = micro_batches, micro_batches * samples

    def data(self):
        return torch.rand(self.samples, 3, SIDE, SIDE).mul_(2).sub_(1), torch.randint(0, CLASSES, (self.samples,))

    loss = nn.CrossEntropyLoss()
