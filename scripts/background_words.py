#!/usr/bin/env python3
"""background_words.py FREQUENCIES - writes scheduler/router/background.txt: how rare the common
words of English are, for the idf of the router.

FREQUENCIES is the word list of symspellpy (MIT; frequency_dictionary_en_82_765.txt, made from
Google Books' n-grams, CC BY 3.0): a word and its count in each line.  The first WORDS words are
kept.  The number of a line is -10 ln(share of texts of LENGTH words that have the word), rounded.
"""
import math
import sys

WORDS = 16000
LENGTH = 25

rows = []
with open(sys.argv[1], encoding="utf-8-sig") as file:
    for line in file:
        word, count = line.split()
        rows.append((int(count), word))
total = sum(count for count, _ in rows)
levels = {}
for count, word in sorted(rows, reverse=True)[:WORDS]:
    share = 1 - (1 - count / total) ** LENGTH
    levels.setdefault(round(-10 * math.log(share)), []).append(word)
print("# Common words of English and how rare they are; made by scripts/background_words.py from")
print("# the frequency list of symspellpy (MIT), counts of Google Books' n-grams (CC BY 3.0).")
for level in sorted(levels):
    words, line = sorted(levels[level]), ""
    for word in words + [""]:
        if line and (not word or len(line) + len(word) > 98):
            print(line)
            line = ""
        line = line + " " + word if line else "%d %s" % (level, word)
