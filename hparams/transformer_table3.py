"""T2T's sets for the variations of the Transformer in table 3 of Vaswani et al. 2017."""

from hparams.registry import derived, register_derived
from hparams.transformer import transformer_base

# --- Table 3, row A: heads ------------------------------------------------------------------------

transformer_h1 = derived(transformer_base, num_heads=1)
transformer_h4 = derived(transformer_base, num_heads=4)
transformer_h16 = derived(transformer_base, num_heads=16)
transformer_h32 = derived(transformer_base, num_heads=32)

# --- Table 3, row B: size of the keys -------------------------------------------------------------

transformer_k128 = derived(transformer_base, attention_key_channels=128)
transformer_k256 = derived(transformer_base, attention_key_channels=256)

# --- Table 3, row C: layers, width, filter --------------------------------------------------------

transformer_l2 = derived(transformer_base, num_hidden_layers=2)
transformer_l4 = derived(transformer_base, num_hidden_layers=4)
transformer_l8 = derived(transformer_base, num_hidden_layers=8)
transformer_l10 = derived(transformer_base, num_hidden_layers=10)
transformer_hs256 = derived(transformer_base, hidden_size=256)
transformer_hs1024 = derived(transformer_base, hidden_size=1024)
transformer_ff1024 = derived(transformer_base, filter_size=1024)
transformer_ff4096 = derived(transformer_base, filter_size=4096)

# --- Table 3, row D: dropout, label smoothing -----------------------------------------------------

transformer_dr0 = derived(transformer_base, layer_prepostprocess_dropout=0.0)
transformer_dr2 = derived(transformer_base, layer_prepostprocess_dropout=0.2)
transformer_ls0 = derived(transformer_base, label_smoothing=0.0)
transformer_ls2 = derived(transformer_base, label_smoothing=0.2)

register_derived(globals())
