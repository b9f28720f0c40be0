"""config.py - the sizes of the sketch model, in one place.

The transformer has 240 channels so that every GEMM dimension is a multiple of 16 (FP8 needs it),
and six wide layers rather than eight narrow ones.  The text encoder's last layer is dead weight that the format asks
for: features are hidden_states[-2], so six of its seven layers read.
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.environ.get("SKETCH") or os.path.normpath(os.path.join(HERE, "../../pipeline/models/sketch"))
SHIFT = 3.0
STEPS = 8

TRANSFORMER = {
    "all_patch_size": [2], "all_f_patch_size": [1], "in_channels": 16, "dim": 240, "n_layers": 6,
    "n_refiner_layers": 1, "n_heads": 5, "n_kv_heads": 5, "norm_eps": 1e-5, "qk_norm": True,
    "cap_feat_dim": 192, "rope_theta": 256.0, "t_scale": 1000.0, "axes_dims": [16, 16, 16],
    "axes_lens": [512, 128, 128],
}
TEXT = {
    "vocab_size": 2048, "hidden_size": 192, "num_hidden_layers": 7, "num_attention_heads": 3,
    "num_key_value_heads": 1, "head_dim": 64, "intermediate_size": 288, "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 1024, "tie_word_embeddings": True,
    "attention_bias": False, "hidden_act": "silu",
}
VAE = {
    "in_channels": 3, "out_channels": 3, "block_out_channels": [32, 32, 64, 128],
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 1, "norm_num_groups": 8, "latent_channels": 16, "act_fn": "silu",
    "mid_block_add_attention": True, "use_quant_conv": False, "use_post_quant_conv": False,
    "sample_size": 512, "force_upcast": False,
}
