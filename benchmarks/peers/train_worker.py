"""Measure the training step of a PyTorch library, in a worker process of train_step.py.

    train_worker.py {x_transformers|marian|nn_transformer} SHAPE

The worker reads lines from its standard input. Each line is a number of steps. For each line, the
worker prints a JSON list with the seconds of each step. train_step.py runs the worker with the
Python of an environment in which requirements.txt is installed.

Each library is used with its fastest settings. `torch.compile` compiles all models except MarianMT,
whose graph breaks. The optimizer is the fused Adam. If the dtype is bfloat16, autocast is used.
x-transformers and nn.Transformer repeat one layer. MarianMT has as many layers as the other models
have steps.
"""

import json
import os
import sys
import time

KIND, SHAPE = sys.argv[1], json.loads(sys.argv[2])
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn

torch.manual_seed(1)
HIDDEN, VOCAB, STEPS = SHAPE["hidden"], SHAPE["vocab"], SHAPE["steps"]
INPUTS, TARGETS = (
    torch.randint(2, VOCAB, (SHAPE["batch"], SHAPE[side])) for side in ("source", "target")
)


def smoothed_loss(logits):
    return nn.functional.cross_entropy(
        logits.reshape(-1, VOCAB).float(), TARGETS.reshape(-1), label_smoothing=0.1
    )


def shifted(ids):
    return nn.functional.pad(ids[:, :-1], (1, 0))


def x_transformers():
    from x_transformers import Decoder, Encoder, TransformerWrapper

    common = {
        "dim": HIDDEN,
        "depth": STEPS,
        "heads": SHAPE["heads"],
        "attn_dim_head": HIDDEN // SHAPE["heads"],
        "ff_mult": SHAPE["filter"] // HIDDEN,
        "weight_tie_layers": True,
        "attn_flash": True,
        "attn_dropout": SHAPE["dropout"],
        "ff_dropout": SHAPE["dropout"],
        "layer_dropout": 0.0,
    }
    length = max(SHAPE["source"], SHAPE["target"])
    wrapper = {"num_tokens": VOCAB, "max_seq_len": length, "emb_dropout": SHAPE["dropout"]}
    encoder = TransformerWrapper(attn_layers=Encoder(**common), **wrapper)
    decoder = TransformerWrapper(
        attn_layers=Decoder(cross_attend=True, **common), tie_embedding=True, **wrapper
    )
    decoder.token_emb = encoder.token_emb
    both = nn.ModuleList([encoder, decoder])

    def loss():
        context = encoder(INPUTS, return_embeddings=True)
        return smoothed_loss(decoder(shifted(TARGETS), context=context))

    return both, torch.compile(loss)


def nn_transformer():
    arguments = (HIDDEN, SHAPE["heads"], SHAPE["filter"], SHAPE["dropout"])
    options = {"batch_first": True, "norm_first": True}
    embedding = nn.Embedding(VOCAB, HIDDEN)
    encoder = nn.TransformerEncoderLayer(*arguments, **options)
    decoder = nn.TransformerDecoderLayer(*arguments, **options)
    norms = nn.ModuleList([nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)])
    drop = nn.Dropout(SHAPE["dropout"])
    mask = nn.Transformer.generate_square_subsequent_mask(SHAPE["target"])

    def loss():
        x = drop(embedding(INPUTS) * HIDDEN**0.5)
        for _ in range(STEPS):
            x = encoder(x)
        memory = norms[0](x)
        y = drop(embedding(shifted(TARGETS)) * HIDDEN**0.5)
        for _ in range(STEPS):
            y = decoder(y, memory, tgt_mask=mask, tgt_is_causal=True)
        return smoothed_loss(norms[1](y) @ embedding.weight.T)

    return nn.ModuleList([embedding, encoder, decoder, norms]), torch.compile(loss)


def marian():
    from transformers import MarianConfig, MarianMTModel

    model = MarianMTModel(
        MarianConfig(
            vocab_size=VOCAB,
            d_model=HIDDEN,
            encoder_layers=STEPS,
            decoder_layers=STEPS,
            encoder_attention_heads=SHAPE["heads"],
            decoder_attention_heads=SHAPE["heads"],
            encoder_ffn_dim=SHAPE["filter"],
            decoder_ffn_dim=SHAPE["filter"],
            dropout=SHAPE["dropout"],
            attention_dropout=SHAPE["dropout"],
            activation_dropout=SHAPE["dropout"],
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=1,
            decoder_start_token_id=0,
            forced_eos_token_id=None,
        )
    )
    return model, lambda: smoothed_loss(
        model(input_ids=INPUTS, decoder_input_ids=shifted(TARGETS)).logits
    )


makers = {"x_transformers": x_transformers, "nn_transformer": nn_transformer, "marian": marian}
module, loss = makers[KIND]()
module.train()
optimizer = torch.optim.Adam(module.parameters(), 1e-4, (0.9, 0.997), 1e-9, fused=True)


def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=SHAPE["dtype"] == "bfloat16"):
        value = loss()
    value.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return value.item()


for line in sys.stdin:
    seconds = []
    for _ in range(int(line)):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print("RESULT " + json.dumps(seconds), flush=True)
