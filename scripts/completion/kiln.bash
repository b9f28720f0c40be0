# kiln.bash - completion of the command kiln for bash; source it, or install it as
# /usr/share/bash-completion/completions/kiln.  Verbs, options and settings are asked of
# `kiln help`, so this file never falls behind.

_kiln_verbs() { kiln help 2>/dev/null | sed -n 's/^  \([a-z]\{1,9\}\)  .*/\1/p'; }

_kiln_options()
{
    local words=''
    case $1 in # their options are kiln-worker's
    quality | engine) words="bench $1" ;;
    render | tokenize) words=$1 ;;
    esac
    if [ -n "$words" ]; then
        # shellcheck disable=SC2086
        kiln $words --help 2>/dev/null | grep '^  --' | grep -o -e '--[a-z-]*'
        return
    fi
    kiln help "$1" 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
    kiln help config 2>/dev/null | sed -n 's/^  \([a-z][a-z0-9_]*\)  *.*/--\1/p' | tr _ -
    printf '%s\n' --json --quiet --config --help
}

_kiln_orders() { kiln backfill ls 2>/dev/null | sed 's/ .*//'; }

_kiln()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in -*) ;; *) verb=${COMP_WORDS[i]}; break ;; esac
    done
    if [[ $verb = bench && i+1 -lt COMP_CWORD ]]; then
        case ${COMP_WORDS[i + 1]} in quality | engine) verb=${COMP_WORDS[i + 1]} ;; esac
    fi
    case $before in
    --state) mapfile -t COMPREPLY < <(compgen -W 'queued assigned done failed cancelled' -- "$word"); return ;;
    --seed-policy) mapfile -t COMPREPLY < <(compgen -W 'fresh fixed' -- "$word"); return ;;
    --by) mapfile -t COMPREPLY < <(compgen -W 'tenant day tenant,day' -- "$word"); return ;;
    --device) mapfile -t COMPREPLY < <(compgen -W 'cpu cuda:0' -- "$word"); return ;;
    --engine) mapfile -t COMPREPLY < <(compgen -W 'pipeline testcard' -- "$word"); return ;;
    --policy) mapfile -t COMPREPLY < <(compgen -W 'kiln fifo affinity' -- "$word"); return ;;
    --dtype) mapfile -t COMPREPLY < <(compgen -W 'fp32 bf16 fp8' -- "$word"); return ;;
    --format) mapfile -t COMPREPLY < <(compgen -W 'jsonl text csv' -- "$word"); return ;;
    --dir | --out | --model | --lora-dir | --judge | --failures) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    --config | --trace | --schedule | --sheet | --prompts | --lora) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_kiln_options "$verb")" -- "$word")
    elif [[ -z $verb ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_kiln_verbs)" -- "$word")
    else
        case $verb in
        help) mapfile -t COMPREPLY < <(compgen -W "config $(_kiln_verbs)" -- "$word") ;;
        bench) mapfile -t COMPREPLY < <(compgen -W 'enqueue queue restart recovery policy quality engine' -- "$word") ;;
        worker) mapfile -t COMPREPLY < <(compgen -W 'start stop ls logs' -- "$word") ;;
        favourite) mapfile -t COMPREPLY < <(compgen -W 'add rm ls' -- "$word") ;;
        backfill)
            case $before in
            show | pause | resume | rm) mapfile -t COMPREPLY < <(compgen -W "$(_kiln_orders)" -- "$word") ;;
            backfill) mapfile -t COMPREPLY < <(compgen -W 'add ls show pause resume rm' -- "$word") ;;
            esac ;;
        quota) mapfile -t COMPREPLY < <(compgen -W 'set ls rm' -- "$word") ;;
        cache) mapfile -t COMPREPLY < <(compgen -W 'build stat' -- "$word") ;;
        batch) mapfile -t COMPREPLY < <(compgen -W 'show rename rm' -- "$word") ;;
        run | enqueue) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        esac
    fi
}
complete -o filenames -F _kiln kiln
