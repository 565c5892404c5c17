"""The convolutional network of examples/images.cpp in torch, trained alike: the same images, border, shifts, rates,
decay and number of epochs. convnet.py FOLDER SEED [EPOCHS] prints `result accuracy VALUE share`."""

import math
import sys

import numpy
import torch
from torch import nn

SIDE, BATCH, RATE, DECAY = 32, 64, 2e-3, 0.01
folder, seed = sys.argv[1], int(sys.argv[2])
epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 15


def idx(name):
    raw = open(f"{folder}/{name}.idx", "rb").read()
    extents = numpy.frombuffer(raw, ">u4", raw[3], 4)
    return numpy.frombuffer(raw, numpy.uint8 if raw[2] == 8 else ">i4", offset=4 + 4 * raw[3]).reshape(extents)


def read(part):
    images, labels = idx(part + "-images"), idx(part + "-labels")
    times = SIDE // max(images.shape[1:])
    images = images.repeat(times, 1).repeat(times, 2).astype(numpy.float32) / 127.5 - 1
    whole = numpy.full((len(images), 1, SIDE, SIDE), -1, numpy.float32)
    top, left = (SIDE - images.shape[1]) // 2, (SIDE - images.shape[2]) // 2
    whole[:, 0, top:top + images.shape[1], left:left + images.shape[2]] = images
    return torch.from_numpy(whole), torch.from_numpy(labels.astype(numpy.int64))


def block(before, channels):
    return nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()


def moved(x):
    """Each image by up to two pixels in both directions."""
    wide = nn.functional.pad(x, (2, 2, 2, 2), value=-1.0)
    at = torch.randint(0, 5, (len(x), 2))
    return torch.stack([w[:, a:a + SIDE, b:b + SIDE] for w, (a, b) in zip(wide, at.tolist())])


torch.set_num_threads(2)
torch.manual_seed(seed)
net = nn.Sequential(*block(1, 32), *block(32, 32), nn.MaxPool2d(2), *block(32, 64), *block(64, 64), nn.MaxPool2d(2),
                    *block(64, 128), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.4), nn.Linear(128 * 16, 128), nn.ReLU(),
                    nn.Dropout(0.4), nn.Linear(128, 10))
(x, y), (test_x, test_y) = read("train"), read("test")
per_epoch = math.ceil(len(x) / BATCH)
steps = per_epoch * epochs
warm = steps // 20 + 1
rule = torch.optim.AdamW([{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": DECAY},
                          {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}], lr=RATE)
after = steps - steps // 20
rate = torch.optim.lr_scheduler.LambdaLR(
    rule, lambda t: (t + 1) / warm if t < warm else 0.5 * (1 + math.cos(math.pi * min(1, (t - warm) / after))))
for epoch in range(epochs):
    for some in torch.randperm(len(x)).split(BATCH):
        rule.zero_grad()
        nn.functional.cross_entropy(net(moved(x[some])), y[some]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        rule.step()
        rate.step()
net.eval()
with torch.no_grad():
    right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(256), test_y.split(256)))
print(f"result accuracy {right / len(test_y):.4f} share")
