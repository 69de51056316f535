# SPDX-License-Identifier: GPL-2.0-only
# bash completion of hydractl. Commands and options come from the program's own --help, so a new command needs no change
# here; a new option with a list of values may have a line at the end.

_hydractl_commands()
{
	"$1" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# Whether the option $3 of the command $2 takes a value.
_hydractl_takes_value()
{
	"$1" "$2" --help 2>/dev/null | grep -qE -- "^ +(-., )?$3=|^ +$3, --[a-z-]+="
}

_hydractl()
{
	local cur prev words cword split command='' at program
	_init_completion -s || return

	for ((at = 1; at < cword; at++)); do
		if [[ ${words[at]} != -* ]]; then
			command=${words[at]}
			break
		fi
	done

	if [[ -z $command ]]; then
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W '$("$1" --help 2>/dev/null | _parse_help -)' -- "$cur"))
		else
			COMPREPLY=($(compgen -W '$(_hydractl_commands "$1")' -- "$cur"))
		fi
		return
	fi

	# The program that hydractl runs has a completion of its own, and so have its arguments.
	if "$1" "$command" --help 2>/dev/null | grep -q '^Usage:.*PROGRAM'; then
		for ((program = at + 1; program < cword; program++)); do
			case ${words[program]} in
			--) ((program++)); break ;;
			-*=*) ;;
			-*) _hydractl_takes_value "$1" "$command" "${words[program]}" && ((program++)) ;;
			*) break ;;
			esac
		done
		if ((program < cword)) || [[ $program == "$cword" && $cur != -* ]]; then
			_command_offset "$program"
			return
		fi
	fi

	if [[ $command == allow && $cur != -* ]]; then
		COMPREPLY=($(compgen -W 'anybody cap_sys_nice nobody' -- "$cur"))
		return
	fi

	case $prev in
	-p|--policy) COMPREPLY=($(compgen -W 'linux hydra mitosis radixvm abis hydra-nofilter' -- "$cur")) ;;
	-D|--domains) COMPREPLY=($(compgen -W 'node llc core' -- "$cur")) ;;
	-r|--replication) COMPREPLY=($(compgen -W 'lazy eager' -- "$cur")) ;;
	-d|--prefetch) COMPREPLY=($(compgen -W '0 1 2 3 4 5 6 7 8 9' -- "$cur")) ;;
	-f|--filter) COMPREPLY=($(compgen -W 'none table entry accessed' -- "$cur")) ;;
	*)
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W '$("$1" "$command" --help 2>/dev/null | _parse_help -)' -- "$cur"))
			[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
		elif "$1" "$command" --help 2>/dev/null | grep -q '^Usage:.*PID'; then
			_pids
		fi
		;;
	esac
} &&
complete -F _hydractl hydractl
