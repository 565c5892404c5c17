#!/usr/bin/env python3
"""An independent reference of training: a small residual network in NumPy, float64, with its backward by hand.

    input 6 -> linear 8 -> 2 x (layer norm, linear 12, GELU, linear 8, + residual) -> layer norm -> linear 3
            -> softmax cross-entropy, weighted by sample

The backward is checked against finite differences before anything is written; all numbers were compared with
PyTorch 1.13 once: within 3e-16, clipping within 2e-7 (there the norm gets 1e-6 added). Each optimizer then takes three
steps on one batch from the same start; a loss is sum_i w_i loss_i / sum_i w_i, a gradient its derivative.

    python3 tests/support/reference/residual_mlp.py     # needs numpy; writes residual_mlp.txt beside this file

residual_mlp.hpp reads that file, and repeats the sizes.
"""

from pathlib import Path

import numpy as np

SAMPLES, FEATURES, WIDTH, HIDDEN, CLASSES, BLOCKS = 10, 6, 8, 12, 3, 2
STEPS = 3
EPSILON = 1e-5  # of layer norm


# The network: a list of layers, each with its parameters; `layerN` counts them in model order -------------------------

def layers():
    block = [("layer_norm", WIDTH), ("linear", WIDTH, HIDDEN), ("gelu",), ("linear", HIDDEN, WIDTH)]
    return [("linear", FEATURES, WIDTH)] + block * BLOCKS + [("layer_norm", WIDTH), ("linear", WIDTH, CLASSES)]


OPENS = {1 + 4 * b for b in range(BLOCKS)}   # layers before which a residual keeps its input
CLOSES = {4 + 4 * b for b in range(BLOCKS)}  # layers after which it adds it


def dyadic(x):
    """Rounded to multiples of 1/1024, which float32 holds exactly: both sides start from the same numbers."""
    return np.round(x * 1024) / 1024


def initial(random):
    parameters = {}
    for n, (kind, *sizes) in enumerate(layers()):
        if kind == "linear":  # weight [out, in], y = x W^T + b
            parameters[f"layer{n}_weight"] = dyadic(random.normal(size=sizes[::-1]) * sizes[0] ** -0.5)
            parameters[f"layer{n}_bias"] = dyadic(random.normal(size=sizes[1]) * 0.1)
        elif kind == "layer_norm":
            parameters[f"layer{n}_gamma"] = dyadic(1 + random.normal(size=sizes[0]) * 0.1)
            parameters[f"layer{n}_beta"] = dyadic(random.normal(size=sizes[0]) * 0.1)
    return parameters


GELU_C = np.sqrt(2 / np.pi)


def forward(parameters, x):
    kept, residual = [], []
    for n, (kind, *_) in enumerate(layers()):
        if n in OPENS:
            residual.append(x)
        if kind == "linear":
            kept.append(x)
            x = x @ parameters[f"layer{n}_weight"].T + parameters[f"layer{n}_bias"]
        elif kind == "layer_norm":
            centred = x - x.mean(axis=1, keepdims=True)
            rstd = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
            kept.append((centred * rstd, rstd))
            x = centred * rstd * parameters[f"layer{n}_gamma"] + parameters[f"layer{n}_beta"]
        else:
            kept.append(x)
            x = 0.5 * x * (1 + np.tanh(GELU_C * (x + 0.044715 * x**3)))
        if n in CLOSES:
            x = x + residual.pop()
    return x, kept


def loss(logits, labels, weights):
    """The weighted mean of -log softmax(logits)[label], and its derivative by the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(log_softmax)
    gradient[rows, labels] -= 1
    return (-weights * log_softmax[rows, labels]).sum() / weights.sum(), gradient * weights[:, None] / weights.sum()


def backward(parameters, kept, dy):
    gradients, residual = {}, []
    for n, (kind, *_) in reversed(list(enumerate(layers()))):
        if n in CLOSES:
            residual.append(dy)
        if kind == "linear":
            gradients[f"layer{n}_weight"] = dy.T @ kept[n]
            gradients[f"layer{n}_bias"] = dy.sum(axis=0)
            dy = dy @ parameters[f"layer{n}_weight"]
        elif kind == "layer_norm":
            normal, rstd = kept[n]
            gradients[f"layer{n}_gamma"] = (dy * normal).sum(axis=0)
            gradients[f"layer{n}_beta"] = dy.sum(axis=0)
            dn = dy * parameters[f"layer{n}_gamma"]
            dy = rstd * (dn - dn.mean(axis=1, keepdims=True) - normal * (dn * normal).mean(axis=1, keepdims=True))
        else:
            x = kept[n]
            t = np.tanh(GELU_C * (x + 0.044715 * x**3))
            dy = dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * GELU_C * (1 + 3 * 0.044715 * x**2))
        if n in OPENS:
            dy = dy + residual.pop()
    return {name: gradients[name] for name in parameters}


def check_backward(parameters, gradients, batch):
    worst, h = 0.0, 1e-5
    for name, value in parameters.items():
        for i in np.ndindex(value.shape):
            def at(change):
                moved = dict(parameters, **{name: value.copy()})
                moved[name][i] += change
                return loss(forward(moved, batch[0])[0], *batch[1:])[0]

            worst = max(worst, abs((at(h) - at(-h)) / (2 * h) - gradients[name][i]))
    assert worst < 1e-9, worst
    return worst


# Optimizers, by PyTorch's formulas, on the flat arrays ----------------------------------------------------------------

def sgd(rate=0.1, momentum=0.9):
    velocity = 0

    def update(p, g, _):
        nonlocal velocity
        velocity = momentum * velocity + g
        return p - rate * velocity

    return update


def adam(rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0):
    """AdamW if `decay` is not 0: the decay does not enter the moments."""
    m = v = 0

    def update(p, g, step):
        nonlocal m, v
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        denominator = np.sqrt(v / (1 - beta2**step)) + epsilon
        return p * (1 - rate * decay) - rate * (m / (1 - beta1**step)) / denominator

    return update


def flat(named):
    return np.concatenate([value.ravel() for value in named.values()])


def unflat(values, like):
    named, at = {}, 0
    for name, value in like.items():
        named[name] = values[at:at + value.size].reshape(value.shape)
        at += value.size
    return named


def train(start, batch, update, clip=np.inf):
    """Losses before each step, gradient norms before clipping, and the parameters in the end."""
    parameters, losses, norms = start, [], []
    for step in range(1, STEPS + 1):
        logits, kept = forward(parameters, batch[0])
        value, dy = loss(logits, *batch[1:])
        g = flat(backward(parameters, kept, dy))
        losses.append(value)
        norms.append(np.sqrt((g**2).sum()))
        parameters = unflat(update(flat(parameters), g * min(1.0, clip / norms[-1]), step), start)
    return losses, norms, flat(parameters)


# The file -------------------------------------------------------------------------------------------------------------

def wrapped(values):
    """The numbers as lines of at most 120 characters; `repr` loses no bit."""
    lines, line = [], ""
    for number in (repr(v.item()) for v in np.ravel(values)):
        if line and len(line) + 1 + len(number) > 120:
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{number}"
    return "\n".join(lines + [line])


def array(name, values, comment):
    return f"\n{name} {np.size(values)}  # {comment}\n{wrapped(values)}\n"


def main():
    random = np.random.Generator(np.random.PCG64(2019))
    start = initial(random)
    inputs = dyadic(random.normal(size=(SAMPLES, FEATURES)))
    labels = random.integers(0, CLASSES, size=SAMPLES)
    weights = np.array([1, 1, 0.5, 2, 1, 0, 1, 0.25, 1, 1.5])  # one sample does not count at all
    batch = (inputs, labels, weights)

    logits, kept = forward(start, inputs)
    gradients = backward(start, kept, loss(logits, labels, weights)[1])
    worst = check_backward(start, gradients, batch)
    smallest = np.abs(flat(gradients)).min()
    assert smallest > 1e-6, smallest  # Adam's first step is a sign: no gradient may be rounding only
    print(f"backward is within {worst:.1e} of finite differences; smallest gradient {smallest:.1e}")

    runs = {
        "sgd": ("momentum 0.9, rate 0.1", train(start, batch, sgd())),
        "sgd_clipped": ("the same, its gradient scaled by min(1, 0.5 / norm)", train(start, batch, sgd(), clip=0.5)),
        "adam": ("rate 0.01, betas 0.9 and 0.999, epsilon 1e-8", train(start, batch, adam())),
        "adamw": ("the same with a decay of 0.01", train(start, batch, adam(decay=0.01))),
    }
    assert all(norm > 0.5 for norm in runs["sgd_clipped"][1][1]), "the clip must bite"

    out = ["# Generated by residual_mlp.py, which says what this is; do not edit.\n"
           "# An array is its name, its size and what it is; then its numbers.\n",
           array("inputs", inputs, "[samples][features]"),
           array("labels", labels, "[samples]"),
           array("weights", weights, "[samples], of the loss"),
           array("initial", flat(start), "parameters, flat in model order"),
           array("logits", logits, "[samples][classes], in step 1"),
           array("gradients", flat(gradients), "in step 1, before clipping, flat in model order")]
    for name, (comment, (losses, norms, parameters)) in runs.items():
        out += [f"\n# {name}: {comment}\n", array(f"{name}.losses", losses, "before each step"),
                array(f"{name}.norms", norms, "of the gradient, before clipping, in each step"),
                array(f"{name}.parameters", parameters, f"after {STEPS} steps, flat in model order")]
        print(f"{name}: losses", *(f"{value:.6f}" for value in losses), "norms", *(f"{value:.4f}" for value in norms))
    Path(__file__).with_suffix(".txt").write_text("".join(out))


if __name__ == "__main__":
    main()
