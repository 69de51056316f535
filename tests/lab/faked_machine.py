# SPDX-License-Identifier: GPL-2.0-only
"""A faked machine with Hydra for ./hydra here: its files in /sys and /proc, and what our programs print there."""
import json
import pathlib

from lab.bench import choice
from lab.here import here_plan, this_machine

FILES = {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon <b>X</b> & Co\nstepping\t: 6\n"
                    "microcode\t: 0xd0003d1\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: another\n",
    "proc/cmdline": 'root=/dev/sda1 hydra=hydra x="<script>alert(1)</script>"\n', "proc/loadavg": "0.00 0.01 0.05 1/234 567\n",
    "proc/sys/kernel/osrelease": "6.12.57-hydra\n", "proc/sys/kernel/version": "#1 SMP\n", "proc/sys/kernel/numa_balancing": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n", "sys/devices/system/cpu/smt/active": "0\n",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
    "sys/kernel/mm/hydra/default": "linux\n", "sys/kernel/mm/hydra/supported": "yes\n", "sys/kernel/mm/hydra/allow": "anybody\n",
    "sys/kernel/mm/hydra/domains": "0 node 0 cpus 0-3\n1 node 1 cpus 4-7\n", "sys/kernel/mm/hydra/replica_limit_kib": "max\n",
    "sys/kernel/mm/hydra/violations": "0\n",
}


def machine(root, nodes=2, per_node=4, **changed):
    """A Place; changed: the text of a file of /sys/kernel/mm/hydra, or None for no such file."""
    files = {**FILES, **{f"sys/kernel/mm/hydra/{name}": text for name, text in changed.items()}}
    for node in range(nodes):
        files[f"sys/devices/system/node/node{node}/cpulist"] = f"{node * per_node}-{(node + 1) * per_node - 1}\n"
        files[f"sys/devices/system/node/node{node}/distance"] = " ".join("10" if other == node else "21" for other in range(nodes))
        files[f"sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal:       4194304 kB\n"
    for name, text in files.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return this_machine.Place(root)


class Programs:
    """Instead of here.execute: answers as the programs would, and keeps the commands."""

    def __init__(self, said, events=(), fail=None):
        self.said, self.events, self.fail, self.commands, self.tasks = said, events, fail or (lambda *_: None), [], []

    def __call__(self, command, limit=None, directory=None):
        self.commands.append(command)
        words = list(map(str, command))
        if "--plan" in words:
            (step,) = json.loads(words[words.index("--plan") + 1])
            answer = self.bench(step)
            words = step["command"]
        elif "--rows" in words:
            answer = self.demo(words[words.index("--rows") + 1], words[words.index("--policies") + 1])
        else:
            policy = words[words.index("--policy") + 1]
            self.note(here_plan.WORKLOAD, "", policy)
            answer = [{"seconds": 2.0 if policy == "linux" else 1.0, "cpu_seconds": 4.0, "machine_tlb_interrupts": 10}]
        if "-o" in words:
            pathlib.Path(words[words.index("-o") + 1]).write_text("# started\n" + "".join(f"{1000 + number},,{name},5,100.00,,\n"
                                                                  for number, name in enumerate(self.events)), encoding="ascii")
        return "".join(json.dumps(entry) + "\n" for entry in answer)

    def note(self, *task):
        self.tasks.append(task)
        self.fail(*task, len(self.tasks))

    def bench(self, step):
        one, real = next((one, real) for one in (one.real or one for one in choice.BENCHES.values()) for real in one.steps
                         if list(real.settings) == list(step["settings"]) and step["command"][-len(real.command):] == list(real.command))
        self.note(one.name, real.case, real.policy)
        return [{"doing": step["doing"]}, {"step": 0, "said": self.said[one.name](real)}]

    def demo(self, row, policy):
        self.note(row, "", policy)
        return [{"doing": row}, *({"row": row, "case": case, "policy": policy, "metric": metric, "value": value, "unit": unit}
                                  for case, metric, value, unit in (("remote-spinners", "interrupts_per_op", 14.0, "interrupts"), ("remote-spinners", "us_per_op", 3.5, "us")))]
