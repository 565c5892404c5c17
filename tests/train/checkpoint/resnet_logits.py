"""A ResNet-18 of torchvision, with random weights, beside the library.

resnet_logits.py prepare FOLDER: writes the model and some images.
resnet_logits.py check FOLDER:   compares the logits, and the model that came back.
"""

import os
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file
from torchvision.models import resnet18

SAMPLES, SIDE = 4, 64


def prepare(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    model = resnet18(num_classes=10)
    for name, values in model.state_dict().items():  # averages begin at 0 and 1, gains at 1: give all of them work
        if values.dim() == 1 and values.is_floating_point():
            values += 0.1 * torch.rand_like(values)
    save_file({name: values.contiguous() for name, values in model.state_dict().items()}, folder + "/model.safetensors")
    images = numpy.random.default_rng(1).standard_normal((SAMPLES, 3, SIDE, SIDE)).astype(numpy.float32)
    numpy.ascontiguousarray(images.transpose(0, 2, 3, 1)).tofile(folder + "/images.f32")


def check(folder):
    model = resnet18(num_classes=10).eval()
    before = load_file(folder + "/model.safetensors")
    model.load_state_dict(before)
    images = numpy.fromfile(folder + "/images.f32", dtype=numpy.float32).reshape(SAMPLES, SIDE, SIDE, 3)
    ours = torch.from_numpy(numpy.fromfile(folder + "/logits.f32", dtype=numpy.float32).reshape(SAMPLES, 10))
    with torch.no_grad():
        theirs = model(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
    off = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print("logits differ by at most", off, "of the largest")
    assert off < 1e-4, off
    assert theirs.std() > 0.1

    back = load_file(folder + "/ours.safetensors")
    model.load_state_dict(back)
    counted = [name for name in before if name.endswith("num_batches_tracked")]
    for name in set(before) - set(counted):
        assert torch.equal(before[name], back[name]), name
    print("all", len(back), "tensors came back")


{"prepare": prepare, "check": check}[sys.argv[1]](sys.argv[2])
