"""Measure decoding with PyTorch libraries, in a worker process of decode.py.

    decode_worker.py {marian|x_transformers} SHAPE

The worker reads lines from its standard input. Each line is a number of beams. For each line, the
worker prints a JSON object with the seconds and the number of written positions. decode.py runs the
worker with the Python of an environment in which requirements.txt is installed.

Both libraries write `source + decode_length` tokens, which is the maximum of T2T's search. In
Marian, EOS gets a bias of minus infinity. In x-transformers, no EOS is defined.
"""

import json
import os
import sys
import time

KIND, SHAPE = sys.argv[1], json.loads(sys.argv[2])
os.environ["HF_HUB_OFFLINE"] = "1"

import torch

torch.set_num_threads(SHAPE["threads"])
torch.set_num_interop_threads(1)
torch.manual_seed(1)
LENGTH = SHAPE["source"] + SHAPE["decode_length"]
INPUTS = torch.randint(3, SHAPE["vocab"], (SHAPE["batch"], SHAPE["source"]))


def marian():
    """Make MarianMT of HF transformers, with as many layers as the other models have steps."""
    from transformers import MarianConfig, MarianMTModel

    end, pad = 1, 0
    model = MarianMTModel(
        MarianConfig(
            vocab_size=SHAPE["vocab"],
            d_model=SHAPE["hidden"],
            encoder_layers=SHAPE["steps"],
            decoder_layers=SHAPE["steps"],
            encoder_attention_heads=SHAPE["heads"],
            decoder_attention_heads=SHAPE["heads"],
            encoder_ffn_dim=SHAPE["filter"],
            decoder_ffn_dim=SHAPE["filter"],
            max_position_embeddings=max(1024, 2 * LENGTH),
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=pad,
            eos_token_id=end,
            bos_token_id=2,
            decoder_start_token_id=pad,
            forced_eos_token_id=None,
        )
    ).eval()
    model.final_logits_bias[0, [end, pad]] = -float("inf")
    mask = torch.ones_like(INPUTS)

    def decode(beams):
        written = model.generate(
            INPUTS,
            attention_mask=mask,
            num_beams=beams,
            do_sample=False,
            max_new_tokens=LENGTH,
            use_cache=True,
            **({"length_penalty": SHAPE["alpha"]} if beams > 1 else {}),
        )
        return written[:, 1:]  # the start token is removed

    return decode


def x_transformers():
    """Make an encoder and a decoder of x-transformers, each with one repeated layer."""
    from x_transformers import XTransformer

    side = {
        "num_tokens": SHAPE["vocab"],
        "depth": SHAPE["steps"],
        "heads": SHAPE["heads"],
        "attn_dim_head": SHAPE["hidden"] // SHAPE["heads"],
        "ff_mult": SHAPE["filter"] // SHAPE["hidden"],
        "max_seq_len": max(1024, 2 * LENGTH),
        "weight_tie_layers": True,
        "attn_flash": True,
    }
    model = XTransformer(
        dim=SHAPE["hidden"],
        tie_token_emb=True,
        **{f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()},
    ).eval()
    start = torch.zeros((SHAPE["batch"], 1), dtype=torch.long)

    def decode(beams):
        if beams == 1:
            return model.generate(INPUTS, start, LENGTH, temperature=0.0, cache_kv=True)
        encoded = model.encoder(INPUTS, return_embeddings=True)
        return model.decoder.beam_search(start, LENGTH, beams=beams, context=encoded)

    return decode


decode = {"marian": marian, "x_transformers": x_transformers}[KIND]()
for line in sys.stdin:
    start_time = time.perf_counter()
    try:
        with torch.inference_mode():
            written = decode(int(line))
        result = {"seconds": time.perf_counter() - start_time, "written": written.shape[1]}
    except (RuntimeError, AssertionError) as error:
        result = {"error": f"not supported: {str(error).splitlines()[0]}"}
    print("RESULT " + json.dumps(result), flush=True)
