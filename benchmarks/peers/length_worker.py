"""Measure a training step of x-transformers, in a worker process of length.py.

    length_worker.py CASE

CASE is a JSON object with the model ("lm" or "encdec"), the shape, the rate of attention dropout
and the dtype. The worker takes one training step for each line of its standard input. It prints
the CPU seconds of the step, the peak memory of the process, the memory before the first step, and
the loss.

The model uses PyTorch's fused attention (`attn_flash=True`) and repeats one layer. If the key
"compile" is true, `torch.compile` compiles the forward pass and its gradient.
"""

import json
import os
import resource
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn
from x_transformers import Decoder, Encoder, TransformerWrapper


def make(case):
    """Return the modules, and a function that computes the loss."""
    length, vocab = case["length"], case["vocab"]
    torch.manual_seed(1)
    inputs, targets = torch.randint(2, vocab, (2, 1, length))
    shifted = nn.functional.pad(targets[:, :-1], (1, 0))
    layers = {
        "dim": case["hidden_size"],
        "depth": case["num_rec_steps"],
        "heads": case["num_heads"],
        "attn_dim_head": case["hidden_size"] // case["num_heads"],
        "ff_mult": case["filter_size"] // case["hidden_size"],
        "weight_tie_layers": True,
        "attn_flash": True,
        "attn_dropout": case["rate"],
        "ff_dropout": 0.0,
        "layer_dropout": 0.0,
    }
    is_lm = case["model"] == "lm"
    wrapper = {"num_tokens": vocab, "max_seq_len": length}
    decoder = TransformerWrapper(
        attn_layers=Decoder(cross_attend=not is_lm, **layers), tie_embedding=True, **wrapper
    )
    modules = nn.ModuleList([decoder])
    if not is_lm:
        encoder = TransformerWrapper(attn_layers=Encoder(**layers), **wrapper)
        decoder.token_emb = encoder.token_emb
        modules.append(encoder)

    def loss():
        context = {} if is_lm else {"context": encoder(inputs, return_embeddings=True)}
        logits = decoder(shifted, **context)[0].float()
        return nn.functional.cross_entropy(logits, targets[0], label_smoothing=0.1)

    return modules, torch.compile(loss) if case["compile"] else loss


def peak_memory():
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    case = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    modules, loss = make(case)
    modules.train()
    optimizer = torch.optim.Adam(modules.parameters(), 1e-4, (0.9, 0.997), 1e-9, fused=True)
    rest = peak_memory()
    for _ in sys.stdin:
        started = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=case["dtype"] == "bfloat16"):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        cpu = time.process_time() - started
        result = {"cpu": cpu, "peak": peak_memory(), "rest": rest, "loss": value.item()}
        print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
