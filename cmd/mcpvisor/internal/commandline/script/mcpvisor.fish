# Completion of mcpvisor in fish. In ~/.config/fish/config.fish: mcpvisor completion fish | source
function __mcpvisor_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    for line in ($program __complete words $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c mcpvisor -f -a '(__mcpvisor_complete)'
