# SPDX-License-Identifier: GPL-2.0-only
"""The lists of docs/adding.md of what to change for a new policy or measurement: nothing is missing there, and nothing is stale."""
import re

import pytest

from lab import paths
from lab.bench import choice

TEXT = (paths.REPO / "docs/adding.md").read_text(encoding="utf-8")
POLICIES = re.findall(r'^\t\{ "(\w+)", HYDRA_\w+_SETTINGS \},$', (paths.REPO / "kernel/arch/x86/mm/hydra/settings.c").read_text(encoding="utf-8"), re.M)
# These name some policies only: the values, advice, limits, what a scope has to do with it.
SOME = {"kernel/arch/x86/mm/hydra/settings.h", "tools/hydractl/advice.c", "tools/hydractl/cmd_explain.c", "lab/measure/limits.py",
        "kernel/tools/testing/selftests/hydra/scopes.c"}
# These use a policy as an example, or as one that lacks something.
# suites.py names the policy whose variant a short run leaves out; those on papers name a paper.
EXAMPLES = {"lab/test/suites.py", "lab/papers/rows.py", "lab/verbs/papers.py", "kernel/arch/x86/mm/hydra/tests/settings-kunit.h", "kernel/tools/testing/selftests/hydra/vm_interface.c"}


def listed(heading):
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, f"no section {heading}"
    return {name for name in re.findall(r"`([\w./-]+)`", section) if (paths.REPO / name).is_file()}


def names(path, policy):
    return re.search(rf"(?<![\w-]){policy}(?![\w-])", (paths.REPO / path).read_text(encoding="utf-8"))


def test_the_kernel_has_policies():
    assert {"linux", "hydra"} < set(POLICIES) and len(POLICIES) >= 5


@pytest.mark.parametrize("path", sorted(listed("A policy") - SOME - EXAMPLES - {"tests/documents/test_checklists.py"}))
def test_a_listed_file_names_every_policy(path):
    assert [policy for policy in POLICIES if not names(path, policy)] == []


def test_every_file_that_names_a_policy_is_listed():
    """Those with a word which means a policy and nothing else."""
    here = [path for top in ("kernel/arch", "kernel/include", "kernel/tools", "kernel/Documentation/admin-guide", "tools", "lab")
            for path in sorted((paths.REPO / top).rglob("*")) if path.is_file() and path.suffix in (".c", ".h", ".py", ".sh", ".bash", ".rst")]
    found = {str(path.relative_to(paths.REPO)) for path in here if names(path, "radixvm")}
    assert {path for path in found if not path.startswith("lab/bench/")} - EXAMPLES - listed("A policy") == set()


@pytest.mark.parametrize("name", sorted(choice.BENCHES))
@pytest.mark.parametrize("path", sorted(path for path in listed("A measurement") if path.startswith("docs/")))
def test_every_measurement_is_in_the_documents(path, name):
    assert f"`{name}`" in (paths.REPO / path).read_text(encoding="utf-8")


def test_every_file_of_a_measurement_is_listed():
    """In each listed file of the lab and the tests stands the name of some measurement."""
    files = [path for path in listed("A measurement") if path.endswith(".py")]
    assert len(files) == 10 and all(any(re.search(rf"\b{name}\b", (paths.REPO / path).read_text(encoding="utf-8")) for name in choice.BENCHES) for path in files)
