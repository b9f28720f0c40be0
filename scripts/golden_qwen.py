#!/usr/bin/env python3
"""Makes tests/golden/qwen: the vocabulary of Qwen, and lines with their ids.

    VENV/bin/python scripts/golden_qwen.py [--out DIR] [--lines N] [--seed N]

The ids are those of Hugging Face's tokenizers.  The vocabulary comes from the PyPI package
dashscope (resources/qwen.tiktoken, Apache-2.0), whose ranks are the ids of Qwen 2 and 3.  Needs tokenizers,
dashscope, numpy, safetensors and the program zstd.
"""

import argparse
import base64
import importlib.util
import json
import random
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
ADDED = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Portez ce vieux whisky au juge blond qui fume.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "דג סקרן שט בים מאוכזב",
    "نص حكيم له سر قاطع وذو شأن عظيم",
    "ऋषियों को सताने वाले दुष्ट राक्षसों",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。",
    "いろはにほへと　ちりぬるを",
    "다람쥐 헌 쳇바퀴에 타고파",
    "ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ",
    "მოგესალმებით თბილისში",
    "Բարեւ աշխարհ",
    "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ",
    "ગુજરાતી લખાણ",
    "தமிழ் எழுத்து",
    "ᚠᛇᚻ᛫ᛒᛦᚦ",
    "🏳️‍🌈 👩🏽‍🚀 👨‍👩‍👧‍👦 1️⃣ 🇩🇪",
    "I'm sure they're won't we'll she'd he's I've DON'T IT'S y'all'd've",
    'print(f"{x:>10.3f}")  # tail',
    "\tif (a[i] != NULL && *p++ == '\\0') {\n\t\treturn -1;\n\t}",
    "SELECT * FROM jobs WHERE id = $1;",
    "https://example.org/a?b=c&d=%20#e",
    "3.14159e-10 0xDEADBEEF 1,000,000 1/2 ½ ² Ⅷ ٣٤ ४५",
    "C:\\Users\\x\\y.txt",
    "a_b__c --flag=value ...!!!???",
    "ﬁ ﬂ ſ K Å Ω ℵ ㎏ ｆｕｌｌ　ｗｉｄｔｈ",
    "e\u0301 o\u0308\u0323 \u1112\u1161\u11ab a\u0328\u0301 \u0344 q\u0307\u0323 \u2126",
    "\u200bzero\u200dwidth\ufeff\u00adsoft",
    "<|im_end|>\n<|im_start|>user\n",
    "<think>\n\n</think>",
    "<|im_ end|> <|endoftext|><|endoftext|>x <|im_end",
    "\r\n\r\n  \n",
    "   \u00a0\u3000 \u2003x",
    "\u0085\u180e\u2028\u2029 \u1680\x0b\x0c\x1c\x1f",
]
SPACE = list(" \t\n\r\x0b\x0c\u00a0\u2003\u3000\u200b\u180e\u0085\u2028\u202f") + [
    "\r\n",
    "  ",
    "    ",
]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list(
    "\u0591\u05bc\u064b\u0651\u0670\u093c\u094d\u0e34\u0f71\u0f72\u3099\u20d0\u20e3"
)


def read_ranks():
    # Found without importing the package, which wants a network configuration.
    root = Path(importlib.util.find_spec("dashscope").origin).parent
    lines = (root / "resources/qwen.tiktoken").read_bytes().splitlines()
    return [base64.b64decode(line.split()[0]) for line in lines]


def derive_merges(ranks):
    """A token was made by the last merge of its own bytes, when only lower ranks may be used."""
    rank_of = {token: i for i, token in enumerate(ranks)}
    merges = []
    for limit, token in enumerate(ranks):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(
                range(len(parts) - 1),
                key=lambda i: rank_of.get(parts[i] + parts[i + 1], len(ranks)),
            )
            assert rank_of.get(parts[best] + parts[best + 1], limit) < limit
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append((rank_of[parts[0]], rank_of[parts[1]]))
    return merges


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in printable}
    for byte in range(256):
        table.setdefault(byte, chr(0x100 + len(table) - len(printable)))
    return table


def reference(ranks, merges):
    table = byte_characters()
    names = ["".join(table[b] for b in token) for token in ranks]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={n: i for i, n in enumerate(names)},
            merges=[(names[a], names[b]) for a, b in merges],
        )
    )
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ADDED])
    return tokenizer


def piece(rng, ranks):
    """One random part of a line."""
    kind = rng.randrange(11)
    if kind == 0:
        return rng.choice(TEXTS)
    if kind == 1:
        text = rng.choice(TEXTS)
        cut = rng.randrange(len(text))
        return text[cut : cut + rng.randint(1, 12)]
    if kind == 2:
        return "".join(rng.choices(SPACE, k=rng.randint(1, 6)))
    if kind == 3:
        return "".join(
            chr(
                rng.choice(
                    (
                        rng.randrange(0x20, 0x250),
                        rng.randrange(0x370, 0x3000),
                        rng.randrange(0x3000, 0xD800),
                        rng.randrange(0xE000, 0x20000),
                    )
                )
            )
            for _ in range(rng.randint(1, 6))
        )
    if kind == 4:
        return rng.choice("aeoAqΩあ한ה") + "".join(rng.choices(MARKS, k=rng.randint(1, 4)))
    if kind == 5:
        return str(rng.randrange(10 ** rng.randint(1, 12)))
    if kind == 6:
        return "'" + rng.choice(
            ["s", "S", "t", "re", "RE", "ve", "m", "ll", "Ll", "d", "ſ", "x", "’s"]
        )
    if kind == 7:
        return rng.choice(SPECIAL + ADDED)[: rng.randint(4, 20)]
    if kind == 8:
        return rng.choice("!?.,;:-_=+*/\\|@#$%^&()[]{}<>~`\"'…—“”、。") * rng.randint(1, 5)
    return b"".join(rng.choices(ranks, k=rng.randint(1, 8))).decode("utf-8", "ignore")


def make_lines(ranks, count, seed):
    """Lines of code points that Unicode 14 assigns: newer libraries know more letters."""
    rng = random.Random(seed)
    lines = ["", *TEXTS]
    while len(lines) < count:
        line = "".join(piece(rng, ranks) for _ in range(rng.randint(1, 5)))
        if all(unicodedata.category(c) not in ("Cn", "Cs") for c in line):
            lines.append(line)
    return lines


def fnv1a(ids):
    value = 0x811C9DC5
    for byte in np.asarray(ids, "<i4").tobytes():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def pack(path, tensors):
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.safetensors"
        save_file(tensors, plain)
        subprocess.run(["zstd", "-q", "-f", "-19", str(plain), "-o", str(path)], check=True)


def line_tensors(lines, encoded):
    """Lines and a hash of each one's ids, as tests/golden/qwen/README.md describes them."""
    texts = [line.encode() for line in lines]
    return {
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "lengths": np.array([len(t) for t in texts], np.int32),
        "counts": np.array([len(ids) for ids in encoded], np.int32),
        "hashes": np.array([fnv1a(ids) for ids in encoded], np.uint32).view(np.int32),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent.parent / "tests/golden/qwen"
    )
    parser.add_argument("--lines", type=int, default=24000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    assert unicodedata.unidata_version.startswith(
        "14."
    ), "lines are chosen by Unicode 14: use Python 3.11"
    args.out.mkdir(parents=True, exist_ok=True)
    ranks = read_ranks()
    merges = np.array(derive_merges(ranks), np.uint32)
    assert all(len(t) == 1 for t in ranks[:256]) and len(merges) == len(ranks) - 256
    # Each number as three planes of bytes, which pack better than the numbers.
    planes = np.stack(
        [
            (merges[:, side] >> shift & 255).astype(np.uint8)
            for side in (0, 1)
            for shift in (0, 8, 16)
        ]
    )
    pack(
        args.out / "vocabulary.safetensors.zst",
        {"bytes": np.frombuffer(b"".join(ranks[:256]), np.uint8), "merges": planes},
    )
    tokenizer = reference(ranks, merges.tolist())
    lines = make_lines(ranks, args.lines, args.seed)
    encoded = [e.ids[:512] for e in tokenizer.encode_batch(lines)]
    pack(args.out / "lines.safetensors.zst", line_tensors(lines, encoded))
    for path in args.out.glob("*.zst"):
        path.chmod(0o644)
    (args.out / "added.json").write_text(
        json.dumps(
            [
                {
                    "id": len(ranks) + i,
                    "content": t,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": t in SPECIAL,
                }
                for i, t in enumerate(SPECIAL + ADDED)
            ],
            indent=0,
        )
        + "\n"
    )
    print(len(lines), "lines,", sum(map(len, encoded)), "ids,", len("".join(lines).encode()), "bytes")


if __name__ == "__main__":
    main()
