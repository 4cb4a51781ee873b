"""Writes LENGTH bytes of words from a vocabulary of 200,000: python3 words.py LENGTH."""

import random
import sys


def main():
    length = int(sys.argv[1])
    source = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(source.choices(letters, k=source.randint(4, 12))) for _ in range(200_000)]
    written = 0
    while written < length:
        text = " ".join(source.choices(words, k=10_000)) + "\n"
        sys.stdout.write(text)
        written += len(text)


main()
