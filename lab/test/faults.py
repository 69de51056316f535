# SPDX-License-Identifier: GPL-2.0-only
"""Injected faults: for each rule that the kernel of the configuration 'debug' can break, does a test notice?"""
import json

from rich.console import Console
from rich.table import Table

from lab import paths, progress
from lab.kernel import build
from lab.machine import console, programs, vm
from lab.machine.ktap import Outcome
from lab.test.stages import share

LIMIT = 240                  # seconds for one run of a program
RUNS = 3                     # at most, of a test that did not notice: on a busy host a test may miss an injected fault once
SPOILT = 6                   # machines that the emulator may spoil
# The parameters: see suites.selftests().
# kasan_multi_shot: KASAN reports only the first bug of a boot otherwise, and one boot tries many rules.
MACHINE = vm.Machine(nodes=4, cpus_per_node=2, memory="2G", config="debug",
                     append=["numa_balancing=disable", "nopku", "kasan_multi_shot"])

# By rule of arch/x86/mm/hydra/inject.h, the self tests that have to notice (programs, or one test of a program). Every
# program is named: a test that cannot fail shows nothing. Short runs try less: see tries().
CATCHERS = {
    "skip-set": ["coherence -t fork_and_copy_on_write", "reports -t breakpoint_is_met_by_all_nodes"],
    "skip-clear": ["coherence", "oracle --policy hydra", "pages -t memory_failure"],
    "copy-own": ["fill"],
    "forget-sharer": ["coherence", "interface -t no_replicas_allowed", "auto -t stays_split_while_two_nodes_run_it"],
    "forget-huge-sharer": ["huge"],
    "spare-domain": ["coherence"],
    "take-quietly": ["huge -t hugetlb_changes"],
    "forget-visits": ["bystanders -t drop_pages_while_another_gather_ends", "bystanders -t drop_pages_that_another_thread_drops"],
    "forget-taken": ["bystanders -t drop_huge_page_that_another_thread_drops",
                     "bystanders -t protect_pages_that_another_thread_drops"],
    "distrust-gathers": ["shootdown -t gathers_that_overlap_spare_other_nodes", "shootdown -t gathers_on_all_nodes_spare_each_other"],
    "pending-nowhere": ["shootdown -t drops_elsewhere_flush_no_more"],
    "pending-elsewhere": ["bystanders -t protect_pages_that_another_thread_drops_with_few"],
    "pending-unseen": ["bystanders -t drop_pages_that_another_thread_drops",
                       "bystanders -t drop_many_pages_of_which_another_thread_drops_some",
                       "bystanders -t protect_pages_that_another_thread_drops_with_few"],
    "pending-alone": ["bystanders -t drop_pages_that_another_thread_drops_with_many"],
    "skip-wait": ["bystanders -t drop_huge_page_that_another_thread_moves"],
    "filter-always": ["bystanders -t collapse_pages_that_other_nodes_read"],
    "skip-generation": ["coherence"],
    "charge-spared": ["shootdown -t spared_cpu_has_nothing_to_catch_up_with"],
    "write-clean": ["coherence", "pages -t madv_free_under_pressure"],
    "ignore-accessed": ["pages -t smaps_counts_accesses_of_each_node", "huge -t smaps_counts_accesses_of_huge_pages"],
    "drop-accessed": ["reclaim"],
    "keep-link": ["coherence"],
    "keep-charge": ["events"],
    "skip-atomic-fill": ["fill"],
    "skip-switch": ["bystanders -t punch_hole_while_another_thread_switches"],
    "degrade-quietly": ["degrade -t flush_reaches_domain_without_upper_table"],
    "stay-degraded": ["degrade -t domain_gets_its_tree_again"],
    "uncharge-early": ["memcg -t lower_limit_takes_replicas"],
    "forget-unflushed": ["reclaim"],
    "forget-used": ["forget -t domain_that_uses_a_table_stays"],
    "trust-age": ["forget -t flush_reaches_a_domain_that_has_not_walked_its_table"],
    "forget-birth": ["split -t stays_split_when_a_node_has_just_got_its_tree"],
    "return-two-domains": ["split -t stays_split_while_two_nodes_run_it", "auto -t stays_split_while_two_nodes_run_it"],
    "return-walked": ["split -t threads_run_while_many_tables_go"],
    "return-keeps": ["split -t threads_run_while_many_tables_go"],
    "return-solo": ["split -t threads_run_while_many_tables_go"],
    "return-whole": ["split -t threads_run_while_many_tables_go", "split -t threads_run_while_many_upper_tables_go"],
    "rehome-copied-first": ["rehome -t pages_written_meanwhile_are_dirty"],
    "rehome-without-rmap": ["rehome -t file_written_back_meanwhile_is_clean"],
    "rehome-locked": ["rehome -t tables_stay_while_memory_is_locked"],
    "rehome-present-alone": ["rehome -t memory_is_right_meanwhile"],
    "rehome-keeps-link": ["rehome -t tables_follow_their_last_user_while_split"],
    "guard-off": ["auto -t mprotect_of_a_page_is_a_barrier"],
    "auto-inherited": ["auto -t decisions_are_not_inherited"],
    "purse-ignored": ["auto -t split_waits_for_the_purse"],
    "loss-ignored": ["auto -t process_that_shares_returns"],
    "left-ignored": ["auto -t left_alone_locked"],
    "watch-leaks": ["auto -t process_that_ends_is_not_watched"],
    "isolated-disturbed": ["auto -t stays_split_while_an_isolated_cpu_runs_it"],
    "cgroup-ignored": ["memcg -t cgroup_gives_settings_at_execve"],
    "hoard-replicas": ["memcg -t replicas_make_room_for_data"],
    "mix-places": ["place -t nodes_share_no_leaf_table"],
    "split-single": ["split -t one_thread_is_plain_linux_wherever_it_goes"],
    "wait-on-resume": ["split -t thread_that_comes_does_not_wait_for_mmap_lock"],
    "wait-for-vmas": ["servers -t server_splits_mitosis"],
    "wait-for-cpus": ["servers -t cpu_goes_offline_while_server_splits"],
    "lodge-quietly": ["degrade -t flush_reaches_domain_without_root"],
    "forget-solo": ["coherence", "bystanders -t punch_hole_while_another_thread_switches"],
    "move-quietly": ["coherence -t mremap_tables"],
    "free-early": ["bystanders -t free_tables_while_other_nodes_walk_them"],
    "stray-accessed": ["filters -t pages_interrupt_their_last_users", "filters -t huge_page_dropped_after_its_accessed_bits_were_cleared"],
    "mark-lost-at-aging": ["filters -t page_dropped_after_its_accessed_bits_were_cleared"],
    "mark-lost-at-fill": ["filters -t page_filled_again_by_its_node_before_its_flush",
                          "filters -t page_replaced_by_another_node_before_its_flush"],
    "mark-lost-at-new-frame": ["filters -t page_that_replaces_another_is_seen"],
    "idle-too-early": ["filters -t pages_dropped_are_gone_for_their_last_users", "filters -t pages_interrupt_their_last_users"],
    "never-idle": ["filters -t pages_interrupt_no_cpu_that_ran_another_process_since",
                   "filters -t pages_interrupt_no_cpu_that_was_flushed_since"],
    "take-unpublished": ["filters -t pages_that_two_threads_drop_are_gone"],
    "fine-unpublished": ["filters -t pages_that_two_threads_drop_are_gone"],
    "push-keeps-copy": ["filters -t page_that_was_not_pushed_is_gone"],
    "batch-takes": ["filters -t page_copied_before_the_flush_of_its_reclaim"],
    "batch-for-all": ["filters -t reclaimed_page_of_one_node_interrupts_no_other_node"],
    "batch-uncounted": ["filters -t page_dropped_before_the_flush_of_its_move"],
    "linker-spared": ["filters -t linker_is_told_before_and_after_its_link_is_cut"],
    "cut-unflushed": ["filters -t linker_is_told_before_and_after_its_link_is_cut"],
    "scope-at-once": ["scopes -t thread_comes_to_a_core_while_cores_become_nodes"],
    "link-all": ["scopes -t core_that_drops_its_own_page_interrupts_no_cpu"],
    "look-abroad": ["scopes -t process_of_cores_reads_memory_of_a_process_of_nodes"],
    "skip-push": ["eager -t pages_that_one_node_touches_are_in_all_tables"],
    "join-alone": ["eager -t pages_that_one_node_populates_are_in_all_tables",
                   "eager -t pages_copied_by_a_child_are_in_all_its_tables"],
    "huge-unmarked": ["filters -t huge_page_dropped_after_its_accessed_bits_were_cleared"],
    "huge-alone": ["huge -t thp_prefetch"],
    "admit-anyone": ["permissions -t checked_for_each_pair_of_users"],
    "allow-anybody": ["count -t allowed_processes_choose_settings"],
    "count-set-uid": ["count -t set_uid_program_is_not_counted"],
    "lose-ended": ["count -t ended_processes_are_summed"],
    "count-idle": ["count -t and_interrupted_are_what_linux_interrupts"],
    "count-twice": ["count -t and_interrupted_are_what_linux_interrupts"],
    "spared-falls": ["count -t never_falls"],
    "whole-tables": ["scopes -t table_of_all_cores_changes_in_parts"],
    "keep-p4d": ["memcg -t ended_process_keeps_no_tables"],
    "madvise-drop-lock": ["bystanders -t drop_pages_of_a_mapping_that_another_thread_replaces"],
    "regroup-half": ["groups -t dropped_pages_are_gone_for_cpus_that_have_moved"],
    "switch-all": ["split -t switching_interrupts_no_other_process"],
    "vm-wrong-home": ["vm_fill -t each_domain_faults_once_for_each_page", "vm_fill -t memory_policy_of_the_vmm_places_no_table"],
    "vm-keep-cache": ["vm_move -t vcpu_takes_the_tree_of_its_new_node"],
    "vm-skip-move": ["vm_move -t vcpu_takes_the_tree_of_its_new_node"],
    "vm-keep-trees": ["vm_move -t other_settings_free_the_trees", "vm_degrade -t beyond_the_limit"],
    "vm-keep-root": ["vm_degrade -t prefault_after_new_settings"],
    "vm-degrade-deadly": ["vm_degrade -t beyond_the_limit"],
    "vm-keep-fallen": ["vm_degrade -t trees_that_come_back_do_not_add_up"],
    "vm-lose-all": ["vm_degrade -t other_trees_stay"],
    "vm-stay-away": ["vm_degrade -t tree_comes_back"],
    "vm-give-up-more": ["vm_degrade -t no_tree_is_given_up_once_there_is_one"],
    "vm-spend-all": ["vm_degrade -t eager_leaves_half_of_the_limit"],
    "vm-come-late": ["vm_move -t tree_is_dropped_at_the_earliest_time_asked_for"],
    "vm-limit-machine": ["vm_degrade -t beyond_its_own_limit", "vm_degrade -t beyond_the_limit_of_a_cgroup"],
    "vm-tell-by-count": ["vm_degrade -t tree_comes_back"],
    "vm-inherit-trees": ["vm_interface -t vm_takes_over_what_is_for_vms_alone"],
    "vm-go-at-once": ["vm_degrade -t refuge_copies_from_the_tree_that_goes"],
    "vm-take-all": ["vm_interface -t bad_input_changes_nothing"],
    "vm-copy-invalidated": ["vm_copy -t neighbours_dropped_during_a_fault", "vm_copy -t huge_neighbours_dropped_during_a_fault"],
    "vm-copy-writable": ["vm_copy -t copies_in_logged_memory_are_not_writable", "vm_copy -t writable_pages_are_in_the_log"],
    "vm-copy-beyond": ["vm_copy -t copies_end_with_the_memslot", "vm_copy -t huge_copies_end_with_the_memslot",
                       "vm_copy -t memslot_that_goes_beside_a_fault"],
    "vm-copy-more": ["vm_copy -t copies_permit_no_more_than_their_source"],
    "vm-copy-small": ["vm_copy -t huge_pages_fault_once_for_a_gigabyte"],
    "vm-skip-push": ["vm_copy -t pages_that_one_node_writes_are_in_all_trees"],
    "vm-spare-tree": ["vm_bystanders -t no_write_is_missing_from_the_log"],
    "vm-flush-all": ["vm_bystanders -t page_used_by_one_node"],
    "vm-drop-used": ["vm_move -t tree_with_a_vcpu_stays"],
    "vm-drop-logged": ["vm_move -t idle_tree_stays_while_pages_are_logged"],
    "vm-ask-all": ["vm_move -t idle_tree_that_is_dropped_interrupts_no_vcpu"],
    "vm-split-all": ["vm_degrade -t log_of_huge_pages_needs_tables_for_one_tree"],
    "vm-want-home": ["vm_fill -t tables_stay_in_the_cpuset"],
    "vm-keep-idle": ["vm_move -t tree_without_vcpus_is_dropped"],
    "vm-one-tree": ["vm_age -t access_of_any_node_is_seen", "vm_dirty -v bitmap",
                    "vm_coherence -t pages_copied_on_write"],
    "vm-spare-nested": ["vm_nested -t flushes_spare_no_vcpu"],
    "vm-place-anywhere": ["vm_hypercall -t memory_that_is_bound_stays", "vm_hypercall -t memory_stays_in_the_cpuset",
                          "vm_hypercall -t pages_of_others_stay"],
    "vm-answer-all": ["vm_hypercall -t guest_that_may_not_ask"],
    "vm-lose-ad": ["vm_follow -t accessed_bits_move_along"],
    "vm-forget-ptep": ["vm_follow -t tables_follow_their_data"],
    "vm-lose-table": ["vm_move -t vcpus_that_go_round"],
}
# Break no rule, but make a rare order frequent: the tests must pass.
HARMLESS = {"slow-flush": ["bystanders -t drop_huge_page_that_another_thread_moves"],
            "regroup-always": ["bystanders -t drop_pages_while_another_gather_ends", "coherence", "oracle --policy hydra"],
            "look-often": ["oracle --policy hydra,filter=auto --wander --operations 200"],
            "vm-wander": ["vm_move -t vcpus_that_go_round"],
            "vm-slowly": ["vm_copy -t neighbours_dropped_during_a_fault", "vm_copy -t huge_neighbours_dropped_during_a_fault",
                          "vm_copy -t copies_of_huge_pages_are_logged", "vm_copy -t copies_in_logged_memory_are_not_writable"]}
# Rules whose break does not show on the debug kernel in QEMU, by the stage that tries them.
ELSEWHERE = {"skip-idle-generation": "pcid", "count-plainly": "races"}


def runs(rule):
    """The largest number of runs of a test that does not notice a broken rule."""
    return 1 if rule in HARMLESS else RUNS


def tries(only="", long=False, seed=0):
    """(name, rule, test) of each try, or of those with a word in the name.

    In a short run: of the rules that the number seed draws the first test, and the first of each program that no rule's first test
    has to make notice.
    """
    rules = {**CATCHERS, **HARMLESS}
    tried = {tests[0].split()[0] for tests in CATCHERS.values()}
    named = []
    for rule, tests in rules.items() if long or only else share("injected", rules.items(), seed):
        for test in tests:
            program = test.split()[0]
            if long or only or test == tests[0] or program not in tried:
                named.append((f"{rule}: {test}", rule, test))
                tried.add(program)
    return [entry for entry in named if only in entry[0]]


def command(test, where):
    """The command that runs a test named in CATCHERS."""
    program, *arguments = test.split()
    return [where[program], *arguments]


def objects(text):
    """The JSON objects among the lines of a guest's output."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


def judge(seen, crash):
    """The results of one boot by name. A try during which the kernel crashed was noticed by the kernel."""
    results = {entry["name"]: entry for entry in seen if "name" in entry}
    last = unfinished(seen)
    if crash and last:
        results[last["begin"]] = {"name": last["begin"], "by": f"the kernel: {crash}", "run": last["run"], "seconds": None, "words": []}
    return results


def unfinished(seen):
    """The run of a try during which the machine ended, or None."""
    begun = [entry for entry in seen if "begin" in entry]
    return begun[-1] if begun and begun[-1]["begin"] not in {entry.get("name") for entry in seen} else None


def lost(name, trouble):
    """The result of a try during which two machines ended, and no kernel said why."""
    return {"name": name, "lost": trouble, "by": None, "run": 1, "seconds": None, "words": []}


def noticed_by(found):
    """What noticed a broken rule, and the run if not the first; empty if nothing noticed."""
    if not found["by"]:
        return ""
    return found["by"] + (f" (in run {found['run']})" if found["run"] > 1 else "")


def outcomes(results, due, known):
    """One outcome for each due try, and for each other rule of the kernel."""
    made = []
    for name, rule, test in due:
        found = results.get(name)
        if not found:
            result, why = "failed", "it was not tried: the machine ended before"
        elif "lost" in found:
            result, why = "failed", f"two machines ended during it: {found['lost']}"
        elif rule in HARMLESS:
            result, why = ("failed", "\n".join([noticed_by(found), *found["words"]])) if found["by"] else ("passed", "nothing is wrong")
        elif found["by"]:
            result, why = "passed", noticed_by(found)
        else:
            why = "\n".join([f"{test} did not notice it in {found['run']} runs; its last words:", *found["words"]])
            result = "failed"
        made.append(Outcome(f"injected fault {name}", result, why))
    for rule in known:
        if rule in ELSEWHERE:
            made.append(Outcome(f"injected fault {rule}", "skipped", f"shows only in the stage {ELSEWHERE[rule]}"))
        elif rule not in CATCHERS and rule not in HARMLESS:
            made.append(Outcome(f"injected fault {rule}", "failed", "no test is named for it: add it to CATCHERS in lab/test/faults.py"))
    return made


def show(results, due):
    grid = Table(title="Injected faults", title_justify="left", title_style="bold")
    for heading in ("rule broken: test", "noticed by", "after"):
        grid.add_column(heading)
    for name, rule, _ in due:
        if name in results:
            seconds = results[name]["seconds"]
            nothing = ("[bold red]two machines ended[/]" if "lost" in results[name] else
                       "nothing, as it has to be" if rule in HARMLESS else "[bold red]nothing[/]")
            grid.add_row(name, noticed_by(results[name]) or nothing, "" if seconds is None else f"{seconds:.1f} s")
    Console(highlight=False).print(grid)


def run(only="", long=False, seed=0):
    """Break every rule in turn, or the rules with a word in the name, or in a short run those that the number seed draws; a list of outcomes."""
    due = tries(only, long, seed)
    if not due:
        return [Outcome("injected faults", "failed", f"no rule and no test of one is called like '{only}'")]
    image = build.kernel("debug")
    where = {path.name: str(path) for path in programs.selftests(build.tree(), everything=True)}
    left, results, known, ended, spoilt = due, {}, [], set(), 0
    with progress.counting("injected faults", len(due)) as bar:
        while left and spoilt <= SPOILT:
            plan = [[name, rule, command(test, where), runs(rule)] for name, rule, test in left]

            def watch(text):
                for entry in objects(text):
                    if "begin" in entry:
                        bar.advance(entry["run"] == 1, entry["begin"])
            result, output = vm.collect_once(["python3", str(paths.REPO / "lab/guest/guest_faults.py"), str(LIMIT), json.dumps(plan)],
                                             MACHINE, vm.BOOT_LIMIT + LIMIT * RUNS * len(left), watch, image)
            seen = objects(output)
            known = next((entry["rules"] for entry in seen if "rules" in entry), known)
            why, last = console.spoilt(result.console), unfinished(seen)
            new = judge(seen, "it panicked" if not why and console.PANIC.search(result.console) else "")
            if why:                          # what was noticed before that stands, and the machine died of the rest
                progress.say(f"another machine: {why}")
                spoilt += 1
            elif last and last["begin"] in ended and last["begin"] not in new:
                new[last["begin"]] = lost(last["begin"], result.trouble)
            elif last:
                ended.add(last["begin"])     # once may be the emulator's fault, too
            results.update(new)
            left = [entry for entry in left if entry[0] not in results]
            if not new and not last and not why:
                progress.say(f"the machine ended without a result: {result.trouble}")
                break
    show(results, due)
    return outcomes(results, due, [] if only else known)
