"""Convolutions of torch, forward and both gradients, on two threads, in both orders of memory."""

import sys

import torch
from torch.nn.functional import conv2d

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/torch")
from networks import answer

torch.set_num_threads(2)

# channels, side, outputs, kernel, stride, padding: the layers of conv.cpp
LAYERS = [(64, 56, 64, (3, 3), 1, (1, 1)), (64, 56, 64, (3, 3), 2, (1, 1)), (256, 28, 256, (1, 1), 1, (0, 0)),
          (64, 56, 256, (1, 1), 1, (0, 0)), (64, 28, 64, (1, 7), 1, (0, 3)), (64, 28, 64, (7, 1), 1, (3, 0)),
          (52, 28, 52, (1, 1), 1, (0, 0)), (13, 28, 13, (3, 3), 1, (1, 1)), (3, 224, 64, (3, 3), 2, (1, 1)),
          (16, 28, 16, (3, 3), 1, (1, 1)), (32, 14, 32, (3, 3), 1, (1, 1))]


def training(layer, order):
    channels, side, outputs, kernel, stride, padding = layer
    torch.manual_seed(0)
    x = torch.rand(int(sys.argv[1]), channels, side, side).sub_(0.5).contiguous(memory_format=order)
    weight = torch.rand(outputs, channels, *kernel).sub_(0.5).contiguous(memory_format=order).requires_grad_()
    x.requires_grad_(channels != 3)  # the first layer's input is data
    gradient = torch.rand_like(conv2d(x, weight, stride=stride, padding=padding)).sub_(0.5)

    def run():
        x.grad = weight.grad = None
        conv2d(x, weight, stride=stride, padding=padding).backward(gradient)

    return run


ORDERS = {"last": torch.channels_last, "first": torch.contiguous_format}
answer({f"{i}.{name}": training(layer, order) for i, layer in enumerate(LAYERS) for name, order in ORDERS.items()})
