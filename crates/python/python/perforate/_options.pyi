"""Keywords of comparisons and runs. Written by `python -m perforate._stubs`; do not change it."""

import os
from collections.abc import Mapping
from typing import Optional, TypedDict, Union

Text = Optional[Union[str, int, float, os.PathLike[str], Mapping[str, object]]]

class Options(TypedDict, total=False):
    """Options of a run. Values are written as on the command line."""

    machine: Text
    seed: Text
    skip: Text
    instructions: Text
    beside: Text
    threads: Text
    madvise: Text
    cores: Text
    threads_per_core: Text
    side_by_side: Text
    memory: Text
    memory_from: Text
    swap: Text
    fragmentation: Text
    age: Text
    faulty: Text
    zones: Text
    compaction: Text
    defrag: Text
    mthp: Text
    khugepaged: Text
    ksm: Text
    contents: Text
    hard_faults: Text
    io_gap: Text
    hot_add: Text
    self_balloon: Text
    perforation: Text
    segment: Text
    superpages: Text
    policy: Text
    layout: Text
    modes: Text
    host_memory: Text
    host_memory_from: Text
    host_swap: Text
    host_fragmentation: Text
    host_age: Text
    host_faulty: Text
    host_zones: Text
    host_compaction: Text
    host_defrag: Text
    host_mthp: Text
    host_khugepaged: Text
    host_ksm: Text
    host_contents: Text
    host_hard_faults: Text
    host_io_gap: Text
    host_hot_add: Text
    host_perforation: Text
    host_segment: Text
    host_superpages: Text
    host_policy: Text
    warmup: Text
    timing: Text
    precision: Text
    window_warmup: Text
    functional: bool
    check: bool
