#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in a Debian of its own (hydra-test.service): tests the installed packages, with results in the
# Test Anything Protocol, then powers the system off. RELEASE is the kernel that has to run.
number=0

check()		# NAME COMMAND…: a test that passes if the command does
{
	name=$1
	shift
	number=$((number + 1))
	if said=$("$@" 2>&1); then
		echo "ok $number - $name"
	else
		printf '%s\n' "$said"
		echo "not ok $number - $name"
	fi
}

is()		# EXPECTED COMMAND…: whether the command prints the expected text
{
	expected=$1
	shift
	found=$("$@" 2>&1)
	[ "$found" = "$expected" ] || { echo "'$*' printed '$found' instead of '$expected'"; return 1; }
}

policy()	# UNIT: the policy of the unit's main process
{
	sed -n 's/^policy //p' "/proc/$(systemctl show --property MainPID --value "$1")/hydra"
}

no_failed_unit()
{
	failed=$(systemctl list-units --failed --plain --no-legend)
	[ -z "$failed" ] || { echo "$failed"; systemctl status --failed --no-pager; return 1; }
}

modules()	# whether the initramfs loaded the driver of the disk
{
	grep -q '^virtio_blk ' /proc/modules || { echo "the driver of the disk is not a loaded module"; return 1; }
}

run_under_hydra()
{
	is hydra hydractl run -- sed -n 's/^policy //p' /proc/self/hydra
}

script_of_bpftrace()	# whether the documented script adds up the flushes of a self test
{
	cd /opt/hydra-test || return 1
	bpftrace ./flushes.bt -c "$PWD/shootdown" >/run/flushes 2>&1
	grep -q '^@spared\[shootdown, ' /run/flushes && grep -q '^@fills\[shootdown, ' /run/flushes && return 0
	tail -n 40 /run/flushes
	return 1
}

echo "### begin packages"
check "the packaged kernel runs" is "$RELEASE" uname -r
check "its initramfs brought modules" modules
check "no unit failed" no_failed_unit
check "hydractl finds Hydra" hydractl status
check "hydractl run" run_under_hydra
check "hydra.service has set the default of /etc/default/hydra" is mitosis cat /sys/kernel/mm/hydra/default
check "a service has the default" is mitosis policy hydra-test-plain.service
check "a service with a drop-in is under Hydra" is hydra policy hydra-test-dropin.service
check "hydractl switches the service back" hydractl set --policy linux "$(systemctl show --property MainPID --value hydra-test-dropin.service)"
check "the service is under Linux's policy" is linux policy hydra-test-dropin.service
check "hydra.service can be stopped" systemctl stop hydra.service
check "the default is the kernel's again" is linux cat /sys/kernel/mm/hydra/default
check "the script of bpftrace" script_of_bpftrace
check "no invariant is violated" is 0 cat /sys/kernel/mm/hydra/violations
echo "### end packages 0"

# As a service of its own: this one, and what it starts, has the default that hydra.service had set.
systemctl start hydra-test-programs.service
