#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the virtual machine: guest_steps.sh CPU BYSTANDERS PROGRAM HYDRACTL STEP...
# Each STEP is words for PROGRAM, after one word that says how it is to be run: plainly; under a policy of hydractl, or
# POLICY/FILTER; or beside:POLICY, while another process is split. Prints "### " and the step ahead of each.
set -e
cpu=$1
bystanders=$2
# Programs on the host's file system are read anew at every start; a copy in memory is not.
home=$(mktemp -d /dev/shm/steps-XXXXXX)
cp "$3" "$home/steps"
cp "$4" "$home/hydractl"
shift 4

for step; do
	echo "### $step"
	how=${step%% *}
	words=${step#* }
	bystander=
	case $how in
	plainly)
		under= ;;
	beside:*)
		mkfifo "$home/fifo"
		"$home/hydractl" run --policy hydra -- "$home/steps" --bystander --cpus "$bystanders" >"$home/fifo" &
		bystander=$!
		read -r ready <"$home/fifo"
		rm "$home/fifo"
		under="$home/hydractl run --policy ${how#*:} --" ;;
	*/*)
		under="$home/hydractl run --policy ${how%/*} --filter ${how#*/} --" ;;
	*)
		under="$home/hydractl run --policy $how --" ;;
	esac
	# It is to be on its CPU before it begins, so that all of its memory is on that node. The words are to be split.
	# shellcheck disable=SC2086
	taskset -c "$cpu" $under "$home/steps" $words
	if [ "$bystander" ]; then
		kill "$bystander"
		wait "$bystander" 2>/dev/null || :
	fi
done
