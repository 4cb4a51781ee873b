"""Writes reads.fa: pieces of a random genome from both of its strands, with 1 % of wrong bases.

python3 reads.py GENOME_LENGTH COVERAGE READ_LENGTH FOLDER
"""

import random
import sys

ERRORS = 0.01
COMPLEMENTS = bytes.maketrans(b"ACGT", b"TGCA")


def main():
    genome_length, coverage, read_length = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    source = random.Random(1)
    letters = bytes.maketrans(bytes(range(256)), b"ACGT" * 64)
    genome = source.randbytes(genome_length).translate(letters)
    with open(f"{sys.argv[4]}/reads.fa", "wb") as file:
        for number in range(int(genome_length * coverage / read_length)):
            start = source.randrange(genome_length - read_length)
            read = bytearray(genome[start : start + read_length])
            for _ in range(int(read_length * ERRORS)):
                read[source.randrange(read_length)] = source.choice(b"ACGT")
            if source.random() < 0.5:
                read = read.translate(COMPLEMENTS)[::-1]
            file.write(b">r%d\n%s\n" % (number, read))


main()
