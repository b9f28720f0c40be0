"""export_lora.py - publishes trained LoRAs beside the model, one key layout of the wild each.

    python export_lora.py --weights DIR [--out pipeline/models/sketch/loras] [--style NAME,...]

reads DIR/lora-NAME.safetensors and writes NAME.safetensors in bf16, alpha equal to the rank:

    diffusers    transformer.layers.0.attention.to_q.lora_A.weight
    ai-toolkit   diffusion_model.layers.0.attention.to_q.lora_A.weight
    kohya        lora_unet_layers_0_attention_to_q.lora_down.weight, .lora_up.weight, .alpha

and loras.json (scheduler/router/README.md): of every file the triggers, phrases that ask for it and phrases that do
not, a description and the recommended scale.  The header of each file says the same under kiln.*, and the triggers also where that trainer's own
files say them, so that a file that leaves the folder keeps its words.
"""
import argparse
import json
import os

import torch
from safetensors.torch import save_file

import lora
from config import MODEL
from styles import CARDS, PHRASES

BASE = "sketch"


def keyed(pairs, layout):
    """The tensors under the names of the layout."""
    tensors = {}
    for name, (a, b) in pairs.items():
        a, b = a.to(torch.bfloat16).contiguous(), b.to(torch.bfloat16).contiguous()
        if layout == "kohya":
            flat = "lora_unet_" + name.replace(".", "_")
            tensors[flat + ".lora_down.weight"], tensors[flat + ".lora_up.weight"] = a, b
            tensors[flat + ".alpha"] = torch.tensor(float(len(a)), dtype=torch.bfloat16)
        else:
            prefix = {"diffusers": "transformer.", "ai-toolkit": "diffusion_model."}[layout]
            tensors[f"{prefix}{name}.lora_A.weight"], tensors[f"{prefix}{name}.lora_B.weight"] = a, b
    return tensors


def header(style, card, rank):
    """__metadata__ of the file; the values are text."""
    said = {"format": "pt", "kiln.base_model": BASE, "kiln.triggers": json.dumps(list(card.triggers)),
            "kiln.positive": card.positive, "kiln.negative": card.negative, "kiln.scale": str(card.scale)}
    if card.layout == "kohya":
        counts = {"sketch": {words: 1 for words in card.triggers}}
        said.update({"ss_network_module": "networks.lora_zimage", "ss_network_dim": str(rank),
                     "ss_network_alpha": str(float(rank)), "ss_output_name": style,
                     "ss_tag_frequency": json.dumps(counts)})
    elif card.layout == "ai-toolkit":
        said.update({"software": json.dumps({"name": "ai-toolkit layout, written by Kiln"}), "name": style,
                     "trigger_word": card.triggers[0]})
    return said


def export(source, out, style):
    """Writes one file; returns its row of loras.json."""
    card, pairs = CARDS[style], lora.load(source)
    rank = len(next(iter(pairs.values()))[0])
    path = os.path.join(out, f"{style}.safetensors")
    save_file(keyed(pairs, card.layout), path, header(style, card, rank))
    os.chmod(path, 0o644)
    size = os.path.getsize(path)
    if size > 1_200_000:
        raise SystemExit(f"{path}: {size} bytes, 1,200,000 are the limit")
    print(f"{path}: {card.layout}, rank {rank}, {len(pairs)} modules, {size / 1e6:.3f} MB")
    positive, negative = PHRASES[style]
    return {"name": style, "file": f"{style}.safetensors", "base": BASE, "category": "style", "layout": card.layout,
            "rank": rank, "scale": card.scale, "triggers": list(card.triggers), "positive": list(positive),
            "negative": list(negative), "description": card.positive}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True, help="folder of lora-NAME.safetensors")
    parser.add_argument("--out", default=os.path.join(MODEL, "loras"))
    parser.add_argument("--style", default=",".join(CARDS))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    listing = os.path.join(args.out, "loras.json")
    rows = {row["name"]: row for row in json.load(open(listing))["loras"]} if os.path.exists(listing) else {}
    for style in args.style.split(","):
        rows[style] = export(os.path.join(args.weights, f"lora-{style}.safetensors"), args.out, style)
    with open(listing, "w") as f:
        json.dump({"loras": [rows[style] for style in CARDS if style in rows]}, f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()
