# SPDX-License-Identifier: GPL-2.0-only
"""Documents: names in literal markup (tests, functions, files, commands, options) exist in the tree.

A name of Linux counts as existing if a hook or one of our files uses the name outside of a comment, or if LINUX lists the
name.
"""
import contextlib
import io
import pathlib
import re
import shlex
import subprocess

import pytest

from lab import cli, paths
from lab.test import faults

REPO = paths.REPO
DOCUMENTS = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted(REPO.glob("docs/*.md")),
             *sorted((REPO / "kernel/Documentation").rglob("*.rst")), REPO / "tests/model/README.md"]
SELFTESTS = REPO / "kernel/tools/testing/selftests/hydra"
# Names of Linux that no hook and none of our files mentions.
LINUX = set("""
    CLONE_VM DEBUG_ATOMIC_SLEEP DEBUG_LIST DEBUG_OBJECTS DEBUG_VM_PGTABLE REG_ERR __collapse_huge_page_isolate
    __discard_anon_folio_pmd_locked __pte_alloc __split_huge_pud access_error arch_tlbbatch_flush change_pmd_range check_mm
    copy_pte_range cpus_read_lock dev_pagemap_mapping_shift do_fault do_wp_page early_cpu_init fixup_user_fault
    choose_new_asid flush_tlb_page folio_referenced folio_referenced_one follow_pfnmap_start free_pgtables free_pte_range get_user_pages
    host_pfn_mapping_level move_huge_pmd move_pages_huge_pmd move_pgt_entry nested_vmx_check_vmentry_hw p4d_addr_end
    map_pte move_pages_pte folio_mkclean page_table_lock page_vma_mapped_walk tlb_remove_table_sync_one pagemap_scan_pmd_entry pmd_clear ptdump_walk_pgd_level_debugfs pte_clear
    page_mkclean ptep_clear_flush tlb_flush_mmu wp_clean_pre_vma write_protect_page zap_page_range_single
    pte_free_defer pte_free_now pte_free_tlb read_ldt si_code tlb_finish_mmu tlb_gather_mmu truncate_inode_partial_folio
    tlb_flush_batched unmap_vmas unuse_vma vma_start_write hugetlb_unshare_all_pmds wp_clean_post_vma wp_page_reuse zap_huge_pmd
    fast_page_fault is_page_fault_stale kvm_arch_vcpu_load kvm_mmu_hugepage_adjust kvm_make_all_cpus_request kvm_mmu_load kvm_mmu_new_pgd
    kvm_arch_flush_remote_tlbs kvm_flush_remote_tlbs_memslot kvm_make_vcpus_request_mask kvm_mmu_notifier_invalidate_range_start
    kvm_mmu_slot_apply_flags make_spte tdp_mmu_map_handle_target_level
    kvm_mmu_topup_memory_cache kvm_swap_active_memslots kvm_vcpu_flush_tlb_all
    kvm_tdp_map_page kvm_tdp_mmu_invalidate_all_roots kvm_tdp_mmu_put_root kvm_tdp_mmu_zap_invalidated_roots
    KVM_GET_STATS_FD KVM_GET_SUPPORTED_CPUID KVM_SEV_ES_INIT KVM_SEV_INIT KVM_SEV_INIT2 KVM_SET_NR_MMU_PAGES pages_1g pages_2m pages_4k
    do_page_mkwrite do_read_fault finish_mkwrite_fault mmap_write_downgrade pte_same try_to_unmap
    kvm_destroy_vm kvm_vcpu_exit_request put_page smp_mb__after_srcu_read_unlock tdp_mmu_iter_cond_resched vcpu_enter_guest
    Documentation/memory-barriers.txt mm/pgtable-generic.c scripts/checkpatch.pl scripts/config tools/testing/selftests/kvm
""".split())
# Placeholders, names of other projects and of tools.
OTHERS = set("""
    ARGUMENT a b CMD COMMAND CONFIG D DIR F FILE NAME P PID POLICY PROGRAM S SETTINGS VERB REP mb
    FlushProcessWriteBuffers Signed-off-by UseMembar asymmetricHeavyBarrier ci server strict debian-*.pristine pan.c trail REACH
    prometheus-node-exporter my.config node-accessed
""".split())

WORD = re.compile(r"(?<!\w)[A-Za-z_]\w*(?:-\w+)*")
FILE = re.compile(r"(?<![\w.-])\w[\w.-]*\.(?:c|h|py|rst|md|pml|sh|patch|config|txt)\b")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def code():
    """The text of all files that define names: our files without comments, and the hooks without messages."""
    for top in ("kernel", "lab", "tools", "workloads", "tests", "debian", "hydra", ".ci"):
        root = REPO / top
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if not path.is_file() or path.suffix in (".md", ".rst", ".pyc") or path.name == "test_documents.py":
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix in (".c", ".h", ".pml"):
                text = COMMENT.sub(" ", text)
            yield path, text.partition("\n---\n")[2] if path.suffix == ".patch" and "hooks" in path.parts else text


def all_names():
    names = set()
    for path, text in code():
        names |= {path.name, path.stem, *path.relative_to(REPO).parts}
        names |= {pathlib.PurePath(hooked).name for hooked in re.findall(r"^\+\+\+ b/(.*)$", text, re.M)}
        for word in WORD.findall(text):
            names |= {word, *word.split("-")}
    return names


NAMES = all_names()
HOOKED = {name for path in (REPO / "kernel/hooks").glob("*.patch") for name in re.findall(r"^\+\+\+ b/(.*)$", path.read_text(encoding="utf-8"), re.M)}


def literals(text, rst):
    """(literal, whether a block) of a document."""
    if rst:
        lines, blocks, indent = [], [], None
        for line in text.split("\n"):
            depth = len(line) - len(line.lstrip())
            if indent is not None and (not line.strip() or depth > indent):
                blocks.append(line)
                continue
            indent = depth if line.endswith("::") and not line.lstrip().startswith("..") else None
            lines.append(line)
        inline = re.findall(r"``([^`]+)``", "\n".join(lines))
    else:
        fences = re.compile(r"^```.*?^```$", re.S | re.M)
        indented = re.compile(r"^ {4}.*$", re.M)
        blocks = [line for fence in fences.findall(text) for line in fence.split("\n")[1:-1]] + indented.findall(text)
        inline = re.findall(r"`([^`]+)`", indented.sub("", fences.sub("", text)))
    return [(" ".join(found.split()), False) for found in inline] + [(block.strip(), True) for block in blocks if block.strip()]


def command_lines(literal):
    found = re.search(r"(?:^|[\s(])(\./hydra|hydractl)(?: |$)(.*)", literal)
    return [(found[1], found[2])] if found else []


def wrong_command(program, arguments):
    """Why ./hydra or hydractl would refuse the arguments; empty if accepted, or if the reader has to fill in arguments."""
    if "[" in arguments:
        return []
    words = [word.strip("…") for word in shlex.split(arguments.split(" # ")[0].split("  ")[0])]
    words = [word for word in words if word and word not in "&|"]
    if not words or words[0] in OTHERS:
        return []
    if program == "hydractl":
        return wrong_hydractl(words)
    wrong = wrong_hydractl(words[words.index("hydractl") + 1:]) if "hydractl" in words else []
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.parser().parse_args(words)
        except SystemExit as end:
            if end.code:
                wrong.append(f"./hydra {' '.join(words)}: {said.getvalue().splitlines()[-1]}")
    return wrong


def wrong_hydractl(words):
    text = "".join(path.read_text(encoding="utf-8") for path in (REPO / "tools/hydractl").glob("*.c"))
    commands = set(re.findall(r'\{ "(\w+)", "[^"]*", command_', text))
    options = {f"--{name}" for name in re.findall(r'\{ "([\w-]+)", ', text)} | {"--help", "--version"}     # argp's own
    words = words[:words.index("--")] if "--" in words else words
    wrong = [] if not words or words[0] in commands | OTHERS or words[0].startswith("-") else [f"hydractl {words[0]}"]
    return wrong + [f"hydractl {word}" for word in words if word.startswith("--") and word not in options]


def known(word):
    return bool({word, word.removeprefix("CONFIG_")} & (NAMES | LINUX | OTHERS))


def wrong_file(name, document):
    """The name of a file that does not exist beside the document, in the repository, or among our files of Linux.

    For a file elsewhere (in the cache, in the kernel's file systems), only the words must be known.
    """
    places = [document.parent, REPO, REPO / "kernel", REPO / "kernel/include", SELFTESTS]
    name = name.removeprefix("./").rstrip("/")
    if any(list(place.glob(f"{name}{suffix}")) for place in places for suffix in ("", ".c")) or name in LINUX | HOOKED | OTHERS:
        return []
    if "/" not in name and name in NAMES | {path.name for path in DOCUMENTS}:
        return []
    ours = FILE.fullmatch(name.split("/")[-1]) or any((place / name.split("/")[0]).exists() for place in places)
    return [name] if ours or not all(known(word) for word in re.findall(r"[A-Za-z]\w*", name)) else []


def wrong_names(literal, block, document):
    """The names in a literal without a definition."""
    wrong = [entry for program, arguments in command_lines(literal) for entry in wrong_command(program, arguments)]
    test = re.fullmatch(r"(\w+): (\w+)", literal)
    if test and (SELFTESTS / f"{test[1]}.c").exists():
        text = (SELFTESTS / f"{test[1]}.c").read_text(encoding="utf-8")
        return [] if re.search(rf"^TEST\w*\(\w+, {test[2]}\b", text, re.M) else [literal]
    for name in re.findall(r"(?<![\w/$~*.…-])(?:[\w.*-]+/)+[\w.*-]*(?![\w/…])", literal):
        if name.split("/")[0] not in OTHERS:
            wrong += wrong_file(name, document)
        literal = literal.replace(name, " ")
    for name in FILE.findall(literal):
        wrong += wrong_file(name, document)
    literal = FILE.sub(" ", literal)
    if block:
        words = re.findall(r"\b\w+(?=\(\))|\b_*(?:hydra|HYDRA|CONFIG)_\w+|(?<=/)hydra_\w+", literal)
    else:
        literal = re.sub(r"(?<![\w-])(?:-D(?=[A-Z])|-[mw]\d+|\d\w*)", " ", literal)      # -D, -m and -w: of spin and its searches
        words = WORD.findall(literal)
    return wrong + [word for word in words if not known(word)]


def wrong_links(text, document):
    """Links of Markdown and files named in plain words."""
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([\w-]*)\)", text):
        path = document.parent / target if target else document
        slugs = [re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")
                 for title in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)] if anchor and path.exists() else [anchor]
        if not target.startswith("http") and (not path.exists() or anchor not in slugs):
            wrong.append(f"{target}#{anchor}")
    plain = re.findall(r"(?<![\w/.(-])(?:Documentation/[\w/.-]+|[a-z]+\.(?:rst|md))\b", re.sub(r"`[^`]*`|\([^)]*\)", "", text))
    return wrong + [name for found in plain for name in wrong_file(found, document)]


def wrong_in(text, document):
    found = [name for literal, block in literals(text, document.suffix == ".rst") for name in wrong_names(literal, block, document)]
    return found + wrong_links(text, document)


def wrong_functions(path):
    """The unknown functions in comments of a file of C or of the model; _x() stands for any function with the suffix _x."""
    comments = COMMENT.findall(path.read_text(encoding="utf-8"))
    return [name for comment in comments for name in re.findall(r"\b(\w+)\(\)", comment) if not known(name)
            and not (re.match("_[a-z]", name) and any(whole.endswith(name) for whole in NAMES))]


def linux_tree():
    """A kernel tree with our files, or None."""
    trees = [path for path in (paths.cache() / "trees").glob("*") if (path / "mm/memory.c").exists() and path.suffix != ".pristine"]
    return max(trees, key=lambda path: path.stat().st_mtime, default=None)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_what_a_document_names_exists(document):
    assert wrong_in(document.read_text(encoding="utf-8"), document) == []


def test_functions_that_comments_name_exist():
    files = [path for top in ("kernel", "tests/model") for path in sorted((REPO / top).rglob("*")) if path.suffix in (".c", ".h", ".pml")]
    wrong = {path.name: found for path in files if (found := wrong_functions(path))}
    assert len(files) > 80 and wrong == {}


def test_a_wrong_function_in_a_comment_is_noticed(tmp_path):
    path = tmp_path / "some.c"
    path.write_text("/* hydra_fill(), then hydra_fill_everything() */\nint x; /* as\n * reclaim_pmds() does */\nhydra_code();\n", encoding="utf-8")
    assert wrong_functions(path) == ["hydra_fill_everything", "reclaim_pmds"]


@pytest.mark.parametrize("markdown, wrong", [
    ("`hydra_fill_everything()`", "hydra_fill_everything"),
    ("`struct hydra_tables_of_all`", "hydra_tables_of_all"),
    ("`kernel/arch/x86/mm/hydra/filler.c`", "kernel/arch/x86/mm/hydra/filler.c"),
    ("`kernel/mm/hydra/`", "kernel/mm/hydra"),
    ("`mm/hydra/fill.c`", "mm/hydra/fill.c"),
    ("`filler.c`", "filler.c"),
    ("`CONFIG_HYDRA_MM_CHECKER`", "CONFIG_HYDRA_MM_CHECKER"),
    ("`coherance`", "coherance"),
    ("`shootdown: munmap_tables`", "shootdown: munmap_tables"),
    ("`skip-everything`", "skip-everything"),
    ("`--forever`", "forever"),
    ("`/sys/kernel/mm/hydra/defaults_of_all`", "defaults_of_all"),
    ("`hydractl start PID`", "hydractl start"),
    ("`hydractl set --politics hydra PID`", "hydractl --politics"),
    ("[x](docs/nowhere.md)", "docs/nowhere.md#"),
    ("[x](docs/lab.md#the-metre)", "docs/lab.md#the-metre"),
    ("see nowhere.rst", "nowhere.rst"),
    ("    call hydra_fill_everything()\n", "hydra_fill_everything"),
    ("    hydractl start PID\n", "hydractl start"),
])
def test_a_wrong_name_is_noticed(markdown, wrong):
    assert wrong in wrong_in(markdown, REPO / "README.md")


@pytest.mark.parametrize("rst, wrong", [
    ("``fill: stack_grows``", "fill: stack_grows"),
    ("a line\n  ``fill:\n  stack_grows``", "fill: stack_grows"),
    ("An order::\n\n    CPU 0: hydra_no_such()\n\nends.", "hydra_no_such"),
    ("Documentation/mm/hydra.rst", "Documentation/mm/hydra.rst"),
])
def test_a_wrong_name_is_noticed_in_the_kernels_documents(rst, wrong):
    assert wrong_in(rst, REPO / "kernel/Documentation/mm/hydra/how.rst") == [wrong]


def test_a_wrong_command_is_noticed():
    found = wrong_in("`./hydra test --stage nothing`", REPO / "README.md")
    assert len(found) == 1 and "--stage" in found[0]
    assert wrong_in("`./hydra test --stage injected --only skip`", REPO / "README.md") == []


def test_documents_that_code_names_exist():
    """Documentation/… in comments of ours and in the hooks; what is not ours is Linux's."""
    named = {(found, path.name) for top in ("kernel", "tests/model") for path in (REPO / top).rglob("*")
             if path.is_file() and path.suffix not in (".rst", ".md")
             for found in re.findall(r"Documentation/[\w/-]*hydra[\w/-]*(?:\.rst)?", path.read_text(encoding="utf-8"))}
    assert len(named) > 3 and [entry for entry in named if not (REPO / "kernel" / entry[0]).exists()] == []


def test_much_is_looked_at():
    """Each document has names, so the test above does look at something."""
    assert all(len(literals(path.read_text(encoding="utf-8"), path.suffix == ".rst")) > 20 for path in DOCUMENTS)


def test_each_file_of_the_mechanism_is_in_the_table():
    table = (REPO / "kernel/Documentation/mm/hydra/how.rst").read_text(encoding="utf-8")
    files = [path.name for path in (REPO / "kernel/arch/x86/mm/hydra").glob("*.c") if "test" not in path.name and path.name != "inject.c"]
    assert len(files) > 5 and [name for name in files if f"``arch/x86/mm/hydra/{name}``" not in table] == []


def test_each_rule_that_can_be_broken_is_in_the_list():
    text = (REPO / "docs/verification.md").read_text(encoding="utf-8")
    assert [rule for rule in {*faults.CATCHERS, *faults.ELSEWHERE} if f"`{rule}`" not in text] == []


def test_a_fault_beside_a_test_is_one_that_the_test_has_to_notice():
    text = " ".join((REPO / "docs/verification.md").read_text(encoding="utf-8").split())
    beside = re.findall(r"`([^`]+: \w+)` \(`([\w-]+)`\)", text)
    assert len(beside) > 4
    assert [(test, rule) for test, rule in beside if test.replace(": ", " -t ") not in
            [*faults.CATCHERS.get(rule, []), faults.ELSEWHERE.get(rule)]] == []


def test_the_names_of_linux_are_linuxs():
    tree = linux_tree()
    if not tree:
        pytest.skip("the lab has made no kernel tree yet")
    files = {name for name in LINUX if "/" in name}
    assert [name for name in files if not (tree / name).exists()] == []
    where = [str(tree / top) for top in ("arch/x86", "fs/proc", "include", "kernel", "mm", "virt/kvm", "lib/Kconfig.debug")]
    found = subprocess.run(["grep", "-rhowF", *(f"-e{name}" for name in LINUX - files), *where], capture_output=True, text=True,
                           check=False).stdout
    assert LINUX - files - set(found.split()) == set()
