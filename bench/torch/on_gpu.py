"""The network of bench/gpu in torch, on one GPU: seconds per step, in float32 (no TF32), and with parameters in float32
and products in bf16."""

import sys
import time

import torch
from torch import nn

from networks import layers

BLOCKS, WIDTH, SAMPLES, INPUTS, CLASSES = (int(word) for word in sys.argv[1:6])


if torch.cuda.is_available():
    torch.manual_seed(1)
    net = nn.Sequential(*layers(BLOCKS, WIDTH, INPUTS, CLASSES)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    images, labels = torch.rand(SAMPLES, INPUTS).cuda(), torch.arange(SAMPLES).cuda() % CLASSES
    for name, half in (("float32", False), ("bf16", True)):
        best = float("inf")
        for _ in range(10):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
                loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        print(f"result {name} {best} s")
