# SPDX-License-Identifier: GPL-2.0-only
# bash completion of hydractl. Commands and options come from the program's own --help, and the values of options from its
# hidden option --complete, so none of them is named here.

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
	local cur prev words cword split command='' at program option values
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

	option=${prev#-}
	# The argument of 'hydractl default' is that of --policy.
	[[ $command == default && $prev == default && $cur != -* ]] && prev=--policy option=policy
	if [[ $prev == -* ]] && values=$("$1" "$command" --complete="${option#-}" 2>/dev/null) && [[ $values ]]; then
		COMPREPLY=($(compgen -W '$values' -- "$cur"))
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W '$("$1" "$command" --help 2>/dev/null | _parse_help -)' -- "$cur"))
		[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
	elif "$1" "$command" --help 2>/dev/null | grep -q '^Usage:.*PID'; then
		_pids
	elif "$1" "$command" --help 2>/dev/null | grep -q '^Usage:.*FILE'; then
		_filedir
	fi
} &&
complete -F _hydractl hydractl
