# Completion of mcpvisor in bash. In ~/.bashrc: source <(mcpvisor completion bash)
_mcpvisor() {
	local IFS=$'\n'
	COMPREPLY=($("$1" __complete bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
	if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && type compopt >/dev/null 2>&1; then
		compopt -o nospace
	fi
}
complete -o default -F _mcpvisor mcpvisor
