#!/usr/bin/env python3
"""An independent reference of batch normalization in micro-batches: NumPy, float64, with its backward by hand.

    input 4 -> linear 6 -> batch norm (6 channels) -> GELU -> batch norm (3 channels of 2 elements) -> linear 3
            -> softmax cross-entropy, weighted by sample

Each micro-batch of `size` samples is normalized by its own statistics; the gradient is that of the sum of their losses,
divided by the sum of the weights. Moving averages take, after each step, a share of the statistics of all samples'
activations together (variance: unbiased), computed here at one go. Stochastic gradient descent takes three steps on one
batch; the loss after them is that of an evaluation, by the moving averages.

    python3 tests/support/reference/batch_norm.py     # needs numpy; writes batch_norm.hpp beside this file
"""

from pathlib import Path

import numpy as np

from residual_mlp import GELU_C, dyadic, flat, loss, sgd, unflat

SAMPLES, FEATURES, WIDTH, CHANNELS, CLASSES, STEPS = 11, 4, 6, 3, 3, 3
EPSILON, SHARE = 1e-5, 0.2
SIZES = (11, 4, 1)  # of micro-batches: all samples, 4 + 4 + 3, and single samples


def initial(random):
    def near(middle, spread, *sizes):
        return dyadic(middle + random.normal(size=sizes) * spread)

    return {
        "weight0": near(0, 0.5, WIDTH, FEATURES), "bias0": near(0, 0.1, WIDTH),
        "weight1": near(1, 0.1, WIDTH), "bias1": near(0, 0.1, WIDTH),
        "weight2": near(1, 0.1, CHANNELS), "bias2": near(0, 0.1, CHANNELS),
        "weight3": near(0, 0.5, CLASSES, WIDTH), "bias3": near(0, 0.1, CLASSES),
    }


def normalize(x, weight, bias, averages):
    """x: [samples][channels][elements]; by `averages` (mean, variance), or by its own statistics."""
    mean, variance = averages or (x.mean(axis=(0, 2)), x.var(axis=(0, 2)))
    rstd = 1 / np.sqrt(variance + EPSILON)
    normal = (x - mean[:, None]) * rstd[:, None]
    return normal * weight[:, None] + bias[:, None], (normal, rstd)


def normalize_back(kept, weight, dy):
    normal, rstd = kept
    dn = dy * weight[:, None]
    count = dy.shape[0] * dy.shape[2]
    dx = dn - (dn.sum(axis=(0, 2)) / count)[:, None] - normal * ((dn * normal).sum(axis=(0, 2)) / count)[:, None]
    return dx * rstd[:, None], (dy * normal).sum(axis=(0, 2)), dy.sum(axis=(0, 2))


def forward(p, x, averages=(None, None)):
    first = (x @ p["weight0"].T + p["bias0"])[:, :, None]
    y, kept1 = normalize(first, p["weight1"], p["bias1"], averages[0])
    second = (0.5 * y * (1 + np.tanh(GELU_C * (y + 0.044715 * y**3)))).reshape(len(x), CHANNELS, -1)
    z, kept2 = normalize(second, p["weight2"], p["bias2"], averages[1])
    z = z.reshape(len(x), WIDTH)
    return z @ p["weight3"].T + p["bias3"], (x, y, z, kept1, kept2, first, second)


def backward(p, kept, d):
    x, y, z, kept1, kept2, *_ = kept
    g = {"weight3": d.T @ z, "bias3": d.sum(axis=0)}
    d = (d @ p["weight3"]).reshape(len(x), CHANNELS, -1)
    d, g["weight2"], g["bias2"] = normalize_back(kept2, p["weight2"], d)
    t = np.tanh(GELU_C * (y + 0.044715 * y**3))
    d = d.reshape(y.shape) * (0.5 * (1 + t) + 0.5 * y * (1 - t**2) * GELU_C * (1 + 3 * 0.044715 * y**2))
    d, g["weight1"], g["bias1"] = normalize_back(kept1, p["weight1"], d)
    d = d[:, :, 0]
    g["weight0"], g["bias0"] = d.T @ x, d.sum(axis=0)
    return {name: g[name] for name in p}


def step(p, batch, size):
    """Loss, gradient and the activations before each batch norm, by micro-batches of `size` samples."""
    value, gradient, seen = 0, 0, ([], [])
    for first in range(0, SAMPLES, size):
        x, labels, weights = (field[first:first + size] for field in batch)
        logits, kept = forward(p, x)
        part, dy = loss(logits, labels, weights)
        share = weights.sum() / batch[2].sum()
        value += part * share
        gradient = gradient + flat(backward(p, kept, dy * share))
        for activations, list_ in zip(kept[-2:], seen):
            list_.append(activations)
    return value, gradient, [np.concatenate(list_) for list_ in seen]


def check_backward(p, batch, size):
    worst, h, start, gradient = 0.0, 1e-5, flat(p), step(p, batch, size)[1]
    for i in range(start.size):
        def at(change):
            moved = start.copy()
            moved[i] += change
            return step(unflat(moved, p), batch, size)[0]

        worst = max(worst, abs((at(h) - at(-h)) / (2 * h) - gradient[i]))
    assert worst < 1e-8, worst
    return worst


def train(start, batch, size):
    p, update, losses, norms = start, sgd(), [], []
    averages = [(np.zeros(n), np.ones(n)) for n in (WIDTH, CHANNELS)]
    for n in range(1, STEPS + 1):
        value, gradient, seen = step(p, batch, size)
        losses.append(value)
        norms.append(np.sqrt((gradient**2).sum()))
        p = unflat(update(flat(p), gradient, n), start)
        averages = [(mean + SHARE * (x.mean(axis=(0, 2)) - mean),
                     variance + SHARE * (x.transpose(1, 0, 2).reshape(x.shape[1], -1).var(axis=1, ddof=1) - variance))
                    for x, (mean, variance) in zip(seen, averages)]
    evaluated, _ = loss(forward(p, batch[0], averages)[0], *batch[1:])
    return losses, norms, flat(p), np.concatenate([a for pair in averages for a in pair]), evaluated


def array(name, values, comment, kind="double"):
    values = np.ravel(values)
    text = [repr(v.item()) for v in values]
    lines, line = [], "   "
    for number in text:
        if len(line) + len(number) + 2 > 120:
            lines.append(line)
            line = "   "
        line += f" {number},"
    lines.append(line)
    return f"inline constexpr {kind} {name}[{len(values)}] = {{  // {comment}\n" + "\n".join(lines) + "\n};\n"


def main():
    random = np.random.Generator(np.random.PCG64(2015))
    start = initial(random)
    inputs = dyadic(random.normal(size=(SAMPLES, FEATURES)))
    labels = random.integers(0, CLASSES, size=SAMPLES)
    weights = np.array([1, 1, 0.5, 2, 1, 1, 1, 0.25, 1, 1.5, 0.75])
    batch = (inputs, labels, weights)

    out = ["// Generated by batch_norm.py, which says what this is; do not edit.\n"
           "#pragma once\n\n// clang-format off\nnamespace reference::batch_norm {\n\n"
           f"inline constexpr int samples = {SAMPLES}, features = {FEATURES}, width = {WIDTH}, channels = {CHANNELS}, "
           f"classes = {CLASSES}, steps = {STEPS};\n"
           f"inline constexpr int parameter_count = {flat(start).size};\n\n",
           array("inputs", inputs, "[samples][features]"), array("labels", labels, "[samples]", "int"),
           array("weights", weights, "[samples], of the loss"),
           array("initial", flat(start), "parameters, flat in model order")]
    for size in SIZES:
        worst = check_backward(start, batch, size)
        losses, norms, parameters, averages, evaluated = train(start, batch, size)
        out += [f"\nnamespace by_{size} {{  // samples a micro-batch\n", array("losses", losses, "before each step"),
                array("norms", norms, "of the gradient, in each step"),
                array("parameters", parameters, f"after {STEPS} steps, flat in model order"),
                array("averages", averages, "means, variances; of the first batch norm, of the second"),
                f"inline constexpr double evaluated = {evaluated.item()!r};  // the loss, by the averages\n",
                f"}}  // namespace by_{size}\n"]
        print(f"by {size}: within {worst:.1e} of finite differences; losses", *(f"{v:.6f}" for v in losses))
    out.append("\n}  // namespace reference::batch_norm\n// clang-format on\n")
    Path(__file__).with_suffix(".hpp").write_text("".join(out))


if __name__ == "__main__":
    main()
