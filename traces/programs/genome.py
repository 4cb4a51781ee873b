"""Writes reference.fa and query.fa: a random genome with repeats, and a mutated part of it.

python3 genome.py REFERENCE_LENGTH QUERY_LENGTH FOLDER [READS]

READS: also reads.fa, that many pieces of the genome as a sequencer reads them, one record each.
"""

import random
import sys

REPEAT_LENGTH = 300  # as long as the commonest repeat of the human genome
REPEAT_SHARE = 0.02
MUTATIONS = 0.01
READ_LENGTH = 5000


def mutated(bases, source):
    """A copy with single-base changes."""
    copy = bytearray(bases)
    for _ in range(int(len(copy) * MUTATIONS)):
        copy[source.randrange(len(copy))] = source.choice(b"ACGT")
    return bytes(copy)


def main():
    reference_length, query_length, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    source = random.Random(1)
    letters = bytes.maketrans(bytes(range(256)), b"ACGT" * 64)
    repeats = [source.randbytes(REPEAT_LENGTH).translate(letters) for _ in range(100)]
    parts, length = [], 0
    while length < reference_length:
        if source.random() < REPEAT_SHARE:
            part = mutated(source.choice(repeats), source)
        else:
            part = source.randbytes(REPEAT_LENGTH).translate(letters)
        parts.append(part)
        length += len(part)
    reference = b"".join(parts)[:reference_length]
    pieces = []
    for _ in range(query_length // 1000):
        start = source.randrange(reference_length - 1000)
        pieces.append(mutated(reference[start : start + 1000], source))
    for name, bases in (("reference", reference), ("query", b"".join(pieces))):
        with open(f"{folder}/{name}.fa", "wb") as file:
            file.write(b">" + name.encode() + b"\n")
            for start in range(0, len(bases), 70):
                file.write(bases[start : start + 70] + b"\n")
    if len(sys.argv) > 4:
        with open(f"{folder}/reads.fa", "wb") as file:
            for read in range(int(sys.argv[4])):
                start = source.randrange(reference_length - READ_LENGTH)
                piece = mutated(reference[start : start + READ_LENGTH], source)
                file.write(b">%d\n%s\n" % (read, piece))


main()
