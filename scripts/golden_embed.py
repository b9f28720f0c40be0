#!/usr/bin/env python3
"""Makes tests/golden/embed/tokenizers.safetensors.zst: tokenizers of text embedders, and lines with
their ids.

    VENV/bin/python scripts/golden_embed.py [--lines N] [--seed N]

The tokenizers are trained here, on sentences of the words below: no pretrained vocabulary is
needed.  The character map of the Unigram ones is the real nmt_nfkc, which the PyPI package
sentencepiece carries.  Ids are those of Hugging Face's tokenizers.  golden_embed_models.py makes
the checkpoints beside it.  Needs tokenizers, sentencepiece,
protobuf, numpy, safetensors and the program zstd.
"""

import argparse
import io
import json
import random
import string
import unicodedata
from pathlib import Path

import numpy as np
import sentencepiece
from golden_qwen import MARKS, SPACE, TEXTS, fnv1a, pack
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_proto
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

OUT = Path(__file__).resolve().parent.parent / "tests/golden/embed"
BLOCK = 16  # lines whose ids are hashed together

WORDS = """
a an the of in on with and or not without under over beside between red blue green yellow crimson
disc ring star triangle square hexagon circle photograph portrait painting watercolor cinematic
lighting beautiful highly detailed sharp focus volumetric embedding unaffordable tokenization
mountains river sunset night ocean grass sand stripes checks neon pixel clay sticker hatched anime
state-of-the-art 1024x768 don't I'm they're 35mm f/1.8 --no text, (masterpiece:1.2) 8k HDR #1 @home
ein eine der die das und mit ohne über unter zwischen roter Fuchs schläft Straße Übergrößen Äpfel
Donaudampfschifffahrtsgesellschaft Öl Gemälde weiß groß Mädchen Fußgänger Brücke Nebel Größe
le la les une été forêt château garçon œuvre cœur naïve façade déjà où Noël élève crème brûlée
el la niño corazón mañana pingüino ¿qué? ¡sí! año canción montaña acción
zażółć gęślą jaźń łódź święto źdźbło İstanbul ışık çiçek gözlük Iğdır ağaç ŞİMŞEK
nghiêng đường phở Việt Nam tiếng người được không thế giới ắ ồ ữ
красный круг над синим квадратом ночью снег река лес тёплый Ёжик в тумане объектив портрет девушка
червоний коло їжак ґанок синьо-жовтий στον κόκκινος κύκλος θάλασσα Ὀδυσσεὺς ἀρχῇ ΣΊΣΥΦΟΣ
שלום עולם אדום עיגול בְּרֵאשִׁית مرحبا بالعالم دائرة حمراء اَلسَّلَامُ کتاب خانه
लाल वृत्त नमस्ते दुनिया क्षत्रिय สวัสดี ชาวโลก วงกลม สีแดง வணக்கம் உலகம் გამარჯობა Բարեւ
红色 圆圈 在 蓝色 方块 上面 夜晚 星空 雪山 女孩 肖像 水彩画 電影 燈光 龍 龘 𠀀𠮷 〇 々
赤い 丸 青い 四角 夜空 の 下 で 猫 が 寝ている カタカナ ひらがな 浮世絵 ﾊﾝｶｸ ヴァイオリン が゙
빨간 원 파란 사각형 밤하늘 고양이 한국어 한글 각
😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ 1️⃣ ☆ ★ → ∑ √2 ½ Ⅷ ① ㎏ ™ ﬁnance ﬂ ｆｕｌｌ Å Ω ℵ K
naïve café résumé Ångström coöperate jalapeño smörgåsbord Dvořák Łukasz Đorđe Þór
"quoted" 'single' “curly” ‘nested’ «guillemets» „unten“ … — – • · § © ® ° € £ ¥ ₹
[CLS] [SEP] [UNK] [MASK] <s> </s> <mask> <unk> ## ##ing _ __ ▁ ▁the \\ / | ~ ` ^ { } < >
""".split()

PUNCTUATION = string.punctuation


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))


def character(rng):
    return chr(
        rng.choice(
            (
                rng.randrange(0x20, 0x250),
                rng.randrange(0x250, 0x3000),
                rng.randrange(0x3000, 0xD800),
                rng.randrange(0xE000, 0x20000),
                rng.randrange(0x20000, 0x30000),
                rng.randrange(0xE0000, 0xE0200),
            )
        )
    )


def piece(rng):
    """One random part of a line."""
    kind = rng.randrange(12)
    if kind < 4:
        return sentence(rng)
    if kind == 4:
        return rng.choice(TEXTS)
    if kind == 5:
        return "".join(rng.choices(SPACE, k=rng.randint(1, 6)))
    if kind == 6:
        return "".join(character(rng) for _ in range(rng.randint(1, 6)))
    if kind == 7:
        return rng.choice("aeoAqΩあ한ה①é") + "".join(rng.choices(MARKS, k=rng.randint(1, 4)))
    if kind == 8:
        return rng.choice(WORDS).upper() + rng.choice(WORDS).title()
    if kind == 9:
        return rng.choice(PUNCTUATION) * rng.randint(1, 3) + rng.choice(WORDS)
    if kind == 10:
        word = rng.choice(WORDS)
        return word[: rng.randint(1, len(word))] + rng.choice(WORDS)
    return rng.choice("aéж漢") * rng.choice((1, 2, 99, 100, 101, 130))


def make_lines(count, seed):
    """Lines of code points that Unicode 14 assigns: newer libraries know more characters."""
    rng = random.Random(seed)
    lines = ["", " ", *TEXTS, *WORDS]
    while len(lines) < count:
        parts = [piece(rng) for _ in range(rng.randint(1, 4))]
        line = "".join(p + rng.choice((" ", "", "  ")) for p in parts)
        if all(unicodedata.category(c) not in ("Cn", "Cs") for c in line):
            lines.append(line)
    return lines


# --- tokenizers ----------------------------------------------------------------------------------


def corpus(seed=1):
    rng = random.Random(seed)
    return [sentence(rng) for _ in range(4000)] + TEXTS * 4


def wordpiece(normalizer, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), size=1200, sentences=None):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(special), continuing_subword_prefix="##", show_progress=False
    )
    t.train_from_iterator(sentences or corpus(), trainer)
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, t.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return t


def nmt_nfkc():
    """The precompiled character map, from a model of a few words."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["".join(c for c in s if c.isascii()) for s in corpus()[:400]]),
        model_writer=model,
        vocab_size=200,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return sentencepiece_proto.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def unigram(normalizer, pre_tokenizer, size=1200):
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    t = Tokenizer(models.Unigram())
    if normalizer is not None:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    t.train_from_iterator(corpus(), trainer)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return t


def tokenizers():
    """Layouts of published checkpoints: MiniLM and bge; a cased BERT; XLM-R; the older files of e5;
    what model2vec makes of a multilingual one."""
    charsmap = nmt_nfkc()
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    precompiled = normalizers.Precompiled(charsmap)
    yield "uncased", wordpiece(normalizers.BertNormalizer())
    cased = wordpiece(normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False))
    cased.add_tokens([AddedToken("Crimson Disc", normalized=True, rstrip=True), "é"])
    yield "cased", cased
    yield "xlmr", unigram(precompiled, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]))
    spaces = normalizers.Sequence([precompiled, normalizers.Replace(Regex(" {2,}"), " ")])
    yield "e5", unigram(spaces, metaspace)
    marks = [normalizers.Replace(c, f" {c} ") for c in PUNCTUATION]
    tidy = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    distilled = normalizers.Sequence([precompiled, normalizers.Lowercase(), *marks, *tidy])
    yield "distilled", unigram(distilled, pre_tokenizers.Metaspace(prepend_scheme="always", split=False))


def file_of(tokenizer, name):
    """What tokenizer.json holds, with the truncation and padding that embedders must ignore."""
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    root = json.loads(tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if name == "e5":  # keys of older releases
        root["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
        del root["model"]["type"]
    return json.dumps(root, ensure_ascii=False)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--lines", type=int, default=12000)
    arguments.add_argument("--seed", type=int, default=31)
    arguments.add_argument("--full", type=int, default=320, help="lines whose ids are kept")
    options = arguments.parse_args()
    lines = make_lines(options.lines, options.seed)
    text = [line.encode() for line in lines]
    tensors = {
        "lines": np.frombuffer(b"".join(text), np.uint8),
        "lengths": np.array([len(t) for t in text], np.int32),
    }
    for name, tokenizer in tokenizers():
        ids = [tokenizer.encode(line, add_special_tokens=True).ids for line in lines]
        blocks = [sum(ids[i : i + BLOCK], []) for i in range(0, len(ids), BLOCK)]
        full = ids[:: len(ids) // options.full]
        file = file_of(tokenizer, name).encode()
        tensors[f"{name}/tokenizer.json"] = np.frombuffer(file, np.uint8)
        tensors[f"{name}/hashes"] = np.array([fnv1a(b) for b in blocks], np.uint32).view(np.int32)
        tensors[f"{name}/ids"] = np.array(sum(full, []), np.int32)
        tensors[f"{name}/counts"] = np.array([len(i) for i in full], np.int32)
        unknown = tokenizer.token_to_id("[UNK]" if name in ("cased", "uncased") else "<unk>")
        share = sum(i.count(unknown) for i in ids) / sum(len(i) for i in ids)
        print(f"{name}: {tokenizer.get_vocab_size()} tokens, {sum(map(len, ids))} ids, {share:.1%} unknown")
    OUT.mkdir(exist_ok=True)
    pack(OUT / "tokenizers.safetensors.zst", tensors)


if __name__ == "__main__":
    main()
