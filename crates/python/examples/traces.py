"""A trace as columns of NumPy: which pages it touches, and a trace of its stores alone."""

import numpy as np

import perforate

trace = perforate.open_trace("hpcc")
counts: dict[int, int] = {}
for batch in trace.batches(["address", "kind"], instructions="2M"):
    pages, found = np.unique(batch.address[batch.kind != perforate.Kind.NONE] >> 12, return_counts=True)
    for page, count in zip(pages.tolist(), found.tolist()):
        counts[page] = counts.get(page, 0) + count
print(len(counts), "pages,", sum(counts.values()), "accesses")

rows = trace.read(["ip", "address", "size", "kind"], instructions="2M")
stores = rows.kind == perforate.Kind.WRITE
written = perforate.write_trace("stores.trace", {name: rows[name][stores] for name in rows.columns})
print(written)
print(perforate.compare("stores.trace", schemes=["4k", "thp"]).answer)
