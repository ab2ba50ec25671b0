# fish completion for petrel: asks petrel itself (src/cli/complete/complete.c).

function __petrel_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l plain (string unescape -- $word)
    or set plain $word
    command $words[1] --complete plain $words[2..-1] "$plain" 2>/dev/null
end

complete -c petrel -f -a '(__petrel_complete)'
