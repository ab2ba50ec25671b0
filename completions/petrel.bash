# bash completion for petrel: asks petrel itself (src/cli/complete/complete.c). Needs bash 4.3.

_petrel() {
    local rest=${COMP_LINE:0:COMP_POINT} program=${1/#\~/$HOME} words=() piece= prefix line i
    # bash cuts words at ":" and "=" too; what no blank parts belongs together.
    rest=${rest#*"${COMP_WORDS[0]}"}
    for ((i = 1; i <= COMP_CWORD; i++)); do
        [[ $rest != [[:blank:]]* && ${#words[@]} -gt 0 ]] || words+=("")
        rest=${rest#"${rest%%[![:blank:]]*}"}
        piece=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || piece=$rest
        words[-1]+=$piece
        rest=${rest#"$piece"}
    done
    # Only what follows the last cut is replaced.
    [[ $piece != [:=]* ]] || piece=
    prefix=${words[-1]%"$piece"}
    COMPREPLY=()
    while IFS= read -r line; do
        [[ $line != "$prefix"* ]] || COMPREPLY+=("${line#"$prefix"}")
    done < <("$program" --complete bash "${words[@]}" 2>/dev/null)
    [[ ${COMPREPLY[0]-} != *[/:=] ]] || compopt -o nospace
} 2>/dev/null

complete -o default -o bashdefault -F _petrel petrel
