# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by bash inside the virtual machine: runs Linux's own tests and marks in the output where each begins and ends.
#
# run_vmtests.sh of tools/testing/selftests/mm prepares each test (huge pages, limits, arguments), but has no
# time limit and mixes the outputs. The lab runs run_vmtests.sh with BASH_ENV=guest_linux_suites.sh, which
# replaces run_test: bash keeps a readonly function.
unset BASH_ENV
HERE=/run/linux-suites

# prepare DIRECTORY: the tests in a directory they can write to (nothing of it is kept), on a disk, so that its files have
# readahead and writeback; huge pages; something to swap to.
prepare() {
	local disk
	mkdir -p "$HERE/disk" "$HERE/tests"
	echo 512M >/sys/block/zram0/disksize
	mkswap -q /dev/zram0 && swapon /dev/zram0
	read -r disk </sys/class/zram-control/hot_add
	echo 256M >"/sys/block/zram$disk/disksize"
	mkfs.ext4 -q "/dev/zram$disk" && mount "/dev/zram$disk" "$HERE/disk"
	mkdir -p "$HERE/disk/upper" "$HERE/disk/work" "$HERE/disk/tmp"
	chmod 1777 "$HERE/disk/tmp"
	mount -t tmpfs tmpfs /mnt     # some tests mount what they need there
	mount -t overlay -o "lowerdir=$1,upperdir=$HERE/disk/upper,workdir=$HERE/disk/work" overlay "$HERE/tests"
	echo 16 >/proc/sys/vm/nr_hugepages
}

# one NAME SECONDS COMMAND…: until every process has ended; protection_keys continues in a child's child.
one() {
	local name=$1 limit=$2 start=$EPOCHREALTIME end=$((SECONDS + $2)) group status
	shift 2
	printf '\n### begin %s\n' "$name"
	sh -c 'echo $$ >"$0"; exec timeout "$@"' "$HERE/group" -k 5 "$limit" "$@" 2>&1 </dev/null
	status=$?
	read -r group <"$HERE/group"     # timeout leads it
	while kill -0 -- "-$group" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do
		sleep 0.2
	done
	kill -KILL -- "-$group" 2>/dev/null
	printf '\n# took %s ms\n### end %s %d\n' $(((${EPOCHREALTIME/./} - ${start/./}) / 1000)) "$name" "$status"
}

# selftest NAME SECONDS PROGRAM…: NAME begins with the suite.
selftest() {
	cd "$HERE/tests/${1%%:*}" && one "$@"
}

# Called by run_vmtests.sh for each test. VMTESTS_ONLY, VMTESTS_SKIP: patterns of names; VMTESTS_LIMIT:
# seconds.
run_test() {
	local name="$*" pattern chosen=
	name=mm:${name#bash }
	name=${name//.\//}
	name=${name// /_}
	set -f
	for pattern in $VMTESTS_ONLY; do
		[[ $name == $pattern ]] && chosen=1
	done
	for pattern in $VMTESTS_SKIP; do
		[[ $name == $pattern ]] && chosen=
	done
	set +f
	[ "$chosen" ] || return 0
	case $CATEGORY in
	thp | hugetlb | gup_test | cow | mkdirty)     # they need unfragmented memory
		echo 3 >/proc/sys/vm/drop_caches
		echo 1 >/proc/sys/vm/compact_memory
		;;
	esac
	one "$name" "$VMTESTS_LIMIT" "$@"
}
readonly -f run_test

# vmtests ARGUMENT…: run_vmtests.sh; some tests map more than a small machine has, others need huge pages that
# run_vmtests.sh does not reserve.
vmtests() {
	cd "$HERE/tests/mm" || return
	echo 1 >/proc/sys/vm/overcommit_memory
	BASH_ENV=${BASH_SOURCE[0]} bash ./run_vmtests.sh "$@"
	echo 0 >/proc/sys/vm/overcommit_memory
}
