"""The GPT-2 of a file by transformers: FILE,N answers requests for the time of N greedy tokens on "1" or "2" threads;
FILE,TOKEN,TOKEN... prints how many of the given tokens it writes too."""

import os
import sys

import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/torch")
from networks import answer

os.environ["TOKENIZERS_PARALLELISM"] = "false"
path, *numbers = sys.argv[1].split(",")
numbers = [int(n) for n in numbers]
model = GPT2LMHeadModel(GPT2Config()).eval()
model.load_state_dict(load_file(path), strict=False)
model.tie_weights()
prompt = torch.tensor([[464, 2068, 7586, 21831]])


def write(count):
    with torch.no_grad():
        return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, min_new_tokens=count,
                              do_sample=False, use_cache=True, pad_token_id=50256)[0, prompt.shape[1]:].tolist()


def on(threads):
    def run():
        torch.set_num_threads(threads)
        write(numbers[0])

    return run


if len(numbers) == 1:
    answer({"1": on(1), "2": on(2)})
else:
    print("result same", sum(a == b for a, b in zip(numbers, write(len(numbers)))), "tokens")
