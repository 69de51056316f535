# SPDX-License-Identifier: GPL-2.0-only
"""An example for ./hydra bench --workload: six threads compute, and one maps, writes and unmaps a page in a loop."""
import hashlib
import mmap
import threading

DATA = bytes(1 << 20)
over = threading.Event()


def compute():
    """hashlib releases Python's lock, so these threads run at the same time."""
    while not over.is_set():
        hashlib.sha256(DATA).digest()


threads = [threading.Thread(target=compute) for _ in range(6)]
for thread in threads:
    thread.start()
for _ in range(200):
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[0] = 1
over.set()
