"""The calls of bench/gpu_calls.hpp that torch has, on one GPU, each timed as a CUDA graph of many: microseconds."""

import statistics
import time

import torch
from torch.nn import functional as F

TOKENS, SAMPLES, WIDTH, HEADS, WORDS = 1024, 8, 768, 12, 50257
BF16, FLOAT = torch.bfloat16, torch.float32


def seconds(call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    times = max(1, min(200, int(5e-3 / (time.perf_counter() - begin))))
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(times):
            call()
    graph.replay()
    took = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) / times)
    return statistics.median(took)


def report(name, call):
    try:
        print(f"result {name} {1e6 * seconds(call)} us", flush=True)
    except RuntimeError as failure:
        print(f"{name}: {failure}", flush=True)


def both_ways(name, call, inputs, names=("forward", "backward")):
    """A call, and its gradients with respect to the inputs, without the call."""
    with torch.no_grad():
        report(f"{name}.{names[0]}", lambda: call(*inputs))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        out = call(*inputs)
        gradient = torch.rand_like(out)
    torch.cuda.synchronize()
    report(f"{name}.{names[1]}", lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True))


def numbers(*shape, dtype=BF16):
    return (2 * torch.rand(*shape, device="cuda") - 1).to(dtype).requires_grad_()


if torch.cuda.is_available():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    for prefix, dtype in (("attention", BF16), ("attention.float", FLOAT)):
        heads = [numbers(SAMPLES, TOKENS, HEADS, WIDTH // HEADS, dtype=dtype) for _ in range(3)]
        both_ways(prefix, lambda q, k, v: F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True), heads)
    x = numbers(SAMPLES * TOKENS, WIDTH)
    scale, shift = numbers(WIDTH), numbers(WIDTH)
    report("columns", lambda: x.detach().sum(0))
    both_ways("layer_norm", lambda x, s, t: F.layer_norm(x, (WIDTH,), s, t), [x, scale, shift])
    both_ways("rms_norm", lambda x, s: F.rms_norm(x, (WIDTH,), s), [x, scale])
    both_ways("pointwise", lambda x: F.gelu(x, approximate="tanh"), [x])
    table, words = numbers(WORDS, WIDTH), torch.randint(WORDS, (SAMPLES * TOKENS,), device="cuda")
    both_ways("embedding", lambda t: F.embedding(words, t), [table])
    labels = torch.zeros(SAMPLES * TOKENS, dtype=torch.int64, device="cuda")
    for name, width, dtype in (("softmax", WORDS, BF16), ("softmax_32000", 32000, BF16), ("softmax_float", WORDS, FLOAT)):
        both_ways(name, lambda x: F.cross_entropy(x, labels), [numbers(SAMPLES * TOKENS, width, dtype=dtype)])
    for prefix, dtype in (("conv", BF16), ("conv.float", FLOAT)):
        for name, c, size, k, (kh, kw), stride, pad in (
                ("3x3_64_56", 64, 56, 64, (3, 3), 1, (1, 1)), ("3x3_stride2_64_56", 64, 56, 64, (3, 3), 2, (1, 1)),
                ("1x1_256_28", 256, 28, 256, (1, 1), 1, 0), ("1x1_64_256_56", 64, 56, 256, (1, 1), 1, 0),
                ("1x7_64_28", 64, 28, 64, (1, 7), 1, (0, 3)), ("7x1_64_28", 64, 28, 64, (7, 1), 1, (3, 0)),
                ("1x1_52_28", 52, 28, 52, (1, 1), 1, 0), ("3x3_32_14", 32, 14, 32, (3, 3), 1, (1, 1))):
            x = numbers(8, c, size, size, dtype=dtype).to(memory_format=torch.channels_last).detach().requires_grad_()
            w = numbers(k, c, kh, kw, dtype=dtype).to(memory_format=torch.channels_last).detach().requires_grad_()
            call = lambda x, w: F.conv2d(x, w, stride=stride, padding=pad)
            both_ways(f"{prefix}.{name}", lambda x: call(x, w.detach()), [x], ("forward", "input"))
            both_ways(f"{prefix}.{name}", lambda w: call(x.detach(), w), [w], ("again", "weight"))
