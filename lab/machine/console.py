# SPDX-License-Identifier: GPL-2.0-only
"""Reads a kernel's console log: did the kernel crash, hang or complain?"""
import re

_TIME = r"^(?:\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? )?"

# Messages that a healthy kernel never prints, by the name in the report. lab/test/races.py judges data races.
TROUBLE = [(name, re.compile(f"{_TIME}(?:{pattern})")) for name, pattern in (
    ("kernel panic", r"Kernel panic - not syncing"),
    ("kernel crash", r".*\bOops(?:: |\b.*\[#\d+\])|.*general protection fault[,:]|BUG: kernel NULL pointer|"
                     r".*unable to handle (?:kernel|page fault)|kernel BUG at |.*double fault"),
    ("kernel hang", r".*soft lockup|.*hard LOCKUP|INFO: task .* blocked for more than|"
                    r".*rcu.*(?:self-)?detected (?:expedited )?stalls?"),
    ("locking error", r"WARNING: .*(?:locking|lock |deadlock|irq-safe|nested lock|inversion)|"
                      r"WARNING: suspicious RCU usage|BUG: sleeping function|BUG: scheduling while atomic|"
                      r"WARNING: inconsistent lock state"),
    ("memory error", r"BUG: Bad (?:page|rss)|BUG: (?:KASAN|KFENCE)|BUG \w|UBSAN:|"
                     r"BUG: non-zero pgtables_bytes|page_table_check"),
    ("Hydra invariant violated", r"hydra: .*\bviolations?\b"),
    ("kernel warning", r"WARNING: CPU: |WARNING: .* at |BUG: (?!KCSAN: )|WARNING: bad unlock|refcount_t: |list_(?:add|del) corruption"),
)]

BREAKPOINT = re.compile(r"Oops: int3: .*\n(?:.*\n){0,4}?.*Code:.* ([0-9a-f]{2}) <[0-9a-f]{2}>")
PANIC = re.compile(dict(TROUBLE)["kernel panic"].pattern, re.M)      # anywhere in a log
END = re.compile(r"---\[ end |Kernel Offset|Rebooting in")
LONGEST = 70                # lines of one report


def trouble(log, most=3):
    """The first reports in a log, each as (name, lines)."""
    lines = log.replace("\r", "").splitlines()
    found, at = [], 0
    while at < len(lines) and len(found) < most:
        name = next((name for name, pattern in TROUBLE if pattern.match(lines[at])), None)
        if name is None:
            at += 1
            continue
        stop = next((n + 1 for n in range(at, min(at + LONGEST, len(lines))) if END.search(lines[n])),
                    min(at + LONGEST // 2, len(lines)))
        found.append((name, lines[at:stop]))
        at = stop
    return found


def stale_breakpoint(log):
    """Whether the emulator executed a breakpoint that is not in the kernel's text.

    To change text, Linux writes a breakpoint (int3), waits for all CPUs, and removes the breakpoint. QEMU translates code
    ahead, and now and then executes a translated breakpoint which Linux has already removed. Then the byte before the byte
    in brackets, where the processor stopped, is no int3.
    """
    found = BREAKPOINT.search(log.replace("\r", ""))
    return bool(found) and found[1] != "cc"


def before_breakpoint(log):
    """What the kernel said before the emulator executed a breakpoint."""
    return re.split(r"^.*Oops: int3: ", log.replace("\r", ""), maxsplit=1, flags=re.M)[0]


def early_interrupt(log):
    """Whether KASAN mistook an address because of an interrupt during the identification of the first CPU.

    identify_cpu() clears the features of the CPU, then detects the features again, itself and by functions that it calls. For an interrupt in between, the CPU has
    four levels of page tables. With five levels, KASAN reports a wild access, and after the first report KASAN reports no
    more.
    """
    return bool(re.search(r"BUG: KASAN: wild-memory-access .*\n(?:.*\n){0,40}?(?:.*RIP: 0010:|\[[ .\d]+\]  )identify_cpu\+", log.replace("\r", "")))


def impossible_flags(log):
    """Whether the kernel failed with flags that no processor has in 64-bit mode: that of virtual 8086 mode, or bits which are always 0.

    Seen once, in a double fault behind a cmpxchg16b of the kernel's allocator: the flags held the low bits of a pointer from another register.
    """
    found = re.search(r"^\[[ .\d]+\] RIP: 0010:.*\n(?:.*\n){0,2}?.*\bEFLAGS: ([0-9a-f]{8})", log.replace("\r", ""), re.M)
    return bool(found) and bool(int(found[1], 16) & 0xffc28028)


def spoilt(log):
    """The reason to discard a machine's results and to run the machine once more; empty: the results are valid."""
    if stale_breakpoint(log):
        return "the emulator ran a breakpoint that was gone from the kernel's text"
    if impossible_flags(log):
        return "the emulator mistook another number for the flags of the processor"
    if early_interrupt(log):
        return "an interrupt came while Linux had forgotten the features of its first CPU, and KASAN reported a wild access"
    return ""


def report(log):
    """The reports as text for people; empty if the kernel was content."""
    return "\n".join(f"{name}:\n    " + "\n    ".join(lines) for name, lines in trouble(log))


def tail(log, lines=25):
    return "\n    ".join(log.replace("\r", "").splitlines()[-lines:])
