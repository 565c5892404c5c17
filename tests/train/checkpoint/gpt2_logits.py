"""A small GPT-2 of transformers, with random weights, beside the library.

gpt2_logits.py prepare FOLDER: writes the model and some texts.
gpt2_logits.py check FOLDER:   compares the logits, the texts that both write on, and the model that came back.
"""

import os
import sys

import numpy
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

SAMPLES, TOKENS, PROMPT, WRITTEN = 3, 32, 8, 20


def prepare(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    config = GPT2Config(n_layer=2, n_embd=48, n_head=3, n_positions=TOKENS, vocab_size=97, initializer_range=0.2,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    for name, values in model.named_parameters():  # biases begin at 0, gains at 1: give all of them work
        if values.dim() == 1:
            values.data += 0.1 * torch.randn_like(values)
    model.save_pretrained(folder)
    numpy.random.default_rng(1).integers(0, 97, (SAMPLES, TOKENS), dtype=numpy.int32).tofile(folder + "/tokens.i32")


def check(folder):
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.from_numpy(numpy.fromfile(folder + "/tokens.i32", dtype=numpy.int32).reshape(SAMPLES, TOKENS)).long()
    ours = torch.from_numpy(numpy.fromfile(folder + "/logits.f32", dtype=numpy.float32).reshape(SAMPLES, TOKENS, 97))
    with torch.no_grad():
        theirs = model(tokens).logits
    off = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print("logits differ by at most", off, "of the largest")
    assert off < 1e-4, off
    assert theirs.std() > 0.1

    written = numpy.fromfile(folder + "/written.i32", dtype=numpy.int32).reshape(SAMPLES, WRITTEN).tolist()
    for i in range(SAMPLES):
        text = tokens[i, :PROMPT].tolist()
        for token in written[i]:
            with torch.no_grad():
                expected = model(torch.tensor([text])).logits[0, -1].argmax().item()
            assert token == expected, (i, text, token, expected)
            text.append(token)

    back = load_file(folder + "/ours.safetensors")
    model.load_state_dict(back, strict="lm_head.weight" in back)
    before = load_file(folder + "/model.safetensors")
    for name, values in before.items():
        assert torch.equal(values, back[name]), name
    print("all", len(before), "tensors came back")


{"prepare": prepare, "check": check}[sys.argv[1]](sys.argv[2])
