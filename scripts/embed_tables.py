"""Writes pipeline/embed/tokens/character_tables.c: the character classes of Hugging Face's
tokenizers, found by asking that library about every code point.

    VENV/bin/python scripts/embed_tables.py > pipeline/embed/tokens/character_tables.c

Its tables are those of Unicode 8 or 9, whatever the text libraries of this machine know.
"""

import tokenizers
from tokenizers import normalizers, pre_tokenizers


def bert(**on):
    options = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**(options | on))


CLEAN, STRIP, CJK = bert(clean_text=True), bert(strip_accents=True), bert(handle_chinese_chars=True)
SPLIT = pre_tokenizers.BertPreTokenizer()


def split(char):
    return [piece for piece, _ in SPLIT.pre_tokenize_str("a" + char + "a")]


TABLES = {
    "dropped": lambda c: CLEAN.normalize_str("a" + c + "a") == "aa",
    "mark": lambda c: STRIP.normalize_str(c) == "",
    "ideograph": lambda c: CJK.normalize_str(c) != c,
    "punctuation": lambda c: split(c) == ["a", c, "a"],
    "space": lambda c: split(c) == ["a", "a"],
}


def ranges(test):
    found = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or not test(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def main():
    print(f"/* character_tables.c - made by scripts/embed_tables.py with tokenizers {tokenizers.__version__}. */")
    print('#include "pipeline/embed/tokens/character_tables.h"')
    for name, test in TABLES.items():
        found = ranges(test)
        print(f"\nconst struct kiln_char_range kiln_chars_{name}[] = {{")
        for at in range(0, len(found), 4):
            print("    " + " ".join(f"{{0x{a:04x}, 0x{b:04x}}}," for a, b in found[at : at + 4]))
        print(f"}};\nconst size_t kiln_chars_{name}_count = {len(found)};")


main()
