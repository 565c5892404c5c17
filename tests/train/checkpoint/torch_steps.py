"""Five steps of training in PyTorch, for support/torch_steps.cpp:

    torch_steps.py prepare FOLDER   writes models, the losses of their steps, and the trained models
    torch_steps.py check FOLDER     compares with PyTorch what the library has written there

The cases are folders such as gpt2-float64-adam.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

steps = 5
tolerances = {"float32": 1e-5, "float64": 1e-11}


class Conv1D(nn.Module):
    """A linear layer as GPT-2 has it: the weight is {inputs, outputs}."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.2)
        self.bias = nn.Parameter(torch.randn(outputs) * 0.2)

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_2 = nn.LayerNorm(12)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(24, 12), "c_proj": Conv1D(12, 24)})

    def forward(self, x):
        hidden = nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)


class GPT2(nn.Module):
    """GPT-2 without attention, on vectors."""

    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {"wte": nn.Linear(8, 12), "h": nn.ModuleList([Block(), Block()]), "ln_f": nn.LayerNorm(12)}
        )
        self.lm_head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.transformer["wte"](x)
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


def sequential():
    return nn.Sequential(
        nn.Linear(8, 12), nn.LayerNorm(12), nn.GELU(approximate="tanh"), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 5)
    )


models = {"sequential": sequential, "gpt2": GPT2}
optimizers = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


def train(model, optimizer, dtype):
    x = torch.tensor([(i * 7 % 13) / 5 - 1 for i in range(128)], dtype=dtype).reshape(16, 8)
    y = torch.tensor([i * 3 % 5 for i in range(16)])
    rule = optimizers[optimizer](model.parameters())
    losses = []
    for _ in range(steps):
        rule.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return losses


def require_close(what, mine, theirs, tolerance):
    largest = max(abs(a - b) for a, b in zip(mine, theirs, strict=True))
    assert largest <= tolerance, f"{what} differs by {largest}, more than {tolerance}"


def main(command, folder):
    compared = 0
    for kind, make in models.items():
        for precision, tolerance in tolerances.items():
            for optimizer in optimizers:
                case = Path(folder) / f"{kind}-{precision}-{optimizer}"
                dtype = getattr(torch, precision)
                torch.manual_seed(1)
                model = make().to(dtype)
                if command == "prepare":
                    case.mkdir(parents=True)
                    save_file(model.state_dict(), case / "first.safetensors", {"format": "pt"})
                    losses = train(model, optimizer, dtype)
                    save_file(model.state_dict(), case / "last.safetensors", {"format": "pt"})
                    (case / "losses").write_text("".join(f"{loss!r}\n" for loss in losses))
                    continue
                again = (case / "again.safetensors").read_bytes()
                assert again == (case / "first.safetensors").read_bytes(), f"{case}: another file"
                model.load_state_dict(load_file(case / "ours_first.safetensors"))
                losses = train(model, optimizer, dtype)
                ours = [float(line) for line in (case / "ours_losses").read_text().split()]
                require_close(f"{case}: the loss", ours, losses, tolerance)
                last = load_file(case / "ours_last.safetensors")
                assert set(last) == set(model.state_dict()), f"{case}: other names"
                for name, values in model.state_dict().items():
                    require_close(f"{case}: {name}", last[name].flatten().tolist(), values.flatten().tolist(), tolerance)
                compared += len(last)
    if command == "check":
        print(f"torch {torch.__version__} computes the same losses and {compared} equal tensors")


main(*sys.argv[1:])
