#compdef mcpvisor
# Completion of mcpvisor in zsh. In ~/.zshrc, after compinit: source <(mcpvisor completion zsh)
_mcpvisor() {
	local line value about
	local -a spaced joined
	for line in "${(@f)$("$words[1]" __complete words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -z $line ]] && continue
		if [[ $line == :files ]]; then
			_files
			return
		fi
		value=${line%%$'\t'*}
		about=${line#*$'\t'}
		if [[ $value == *= ]]; then
			joined+=("${value//:/\\:}:$about")
		else
			spaced+=("${value//:/\\:}:$about")
		fi
	done
	(( $#spaced )) && _describe -t values 'mcpvisor' spaced
	(( $#joined )) && _describe -t arguments 'argument' joined -S ''
	return 0
}
if [[ ${funcstack[1]} == _mcpvisor ]]; then # loaded from a file by its first completion
	_mcpvisor "$@"
else
	compdef _mcpvisor mcpvisor
fi
