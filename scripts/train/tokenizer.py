"""tokenizer.py - trains the byte-level BPE on captions and writes it in the Qwen2 format.

    python tokenizer.py          writes pipeline/models/sketch/tokenizer/
"""
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from captions import FILLERS
from config import MODEL, TEXT
from speech import spoken
from world import sample_scene

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
STYLE_WORDS = ["neon style", "neon glow", "pixel art", "pixel style", "watercolor style", "watercolour painting",
               "hatched style", "ink hatching", "sticker style", "clay style", "plasticine", "user\n",
               "assistant\n"]


def wrap(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def lines(n=200000):
    rng = random.Random(7)
    for _ in range(n):
        yield spoken(sample_scene(rng), rng, 1.0)[0]
        if rng.random() < 0.05:
            yield rng.choice(STYLE_WORDS + FILLERS)


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=TEXT["vocab_size"] - len(SPECIAL), special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(lines(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    folder = os.path.join(MODEL, "tokenizer")
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    tokenizer.model.save(folder)
    ids = {t: tokenizer.token_to_id(t) for t in SPECIAL}
    config = {
        "tokenizer_class": "Qwen2Tokenizer", "model_max_length": 1024, "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False,
                                          "single_word": False, "special": True} for t, i in ids.items()},
        "additional_special_tokens": SPECIAL[1:], "bos_token": None, "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>", "unk_token": None, "errors": "replace", "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False, "split_special_tokens": False}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=1)
    lengths = sorted(len(tokenizer.encode(wrap(s)).ids) for s in lines(4000))
    print(f"{tokenizer.get_vocab_size()} entries; wrapped length median {lengths[len(lengths) // 2]}, "
          f"p99 {lengths[len(lengths) * 99 // 100]}, longest {lengths[-1]}")


if __name__ == "__main__":
    main()
