"""A sweep over the size of the second-level TLB and over memory, in a folder that keeps its points."""

import perforate

found = perforate.sweep(
    {"tlb.l2.entries": [768, 1536, 3072], "fragmentation": ["none", "portion=50%,holes=25%,clustered"]},
    workload="hpcc",
    schemes=["4k", "thp", "perforated"],
    instructions="500k",
    out="sweep",
)
print(found)
speeds = found.to_pandas().pivot_table(index="tlb.l2.entries", columns="scheme", values="ipc")
print(speeds)
