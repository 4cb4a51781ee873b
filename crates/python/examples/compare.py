"""A comparison, its figures, and a page of it."""

import perforate

found = perforate.compare("hpcc", schemes=["4k", "thp", "perforated"], instructions="2M")
print(found.answer)
for scheme in found:
    print(scheme.name, scheme.ipc, scheme["walks"], scheme.translation_share)
frame = found.to_pandas().set_index("scheme")
print(frame[["ipc", "walks"]])
found.report("report.html")
