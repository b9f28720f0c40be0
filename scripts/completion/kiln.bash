# kiln.bash - completion of the command kiln for bash; source it, or install it as
# /usr/share/bash-completion/completions/kiln.  Verbs, options, settings and what they may be are
# asked of `kiln help`, so this file never falls behind.

_kiln_verbs() { COLUMNS=1000 kiln help 2>/dev/null | sed -n 's/^  \([a-z]\{1,9\}\)  .*/\1/p'; }

_kiln_options()
{
    local words=''
    case $1 in # kiln-worker and kiln-bench know their options
    quality | coarse | teleport | engine) words="bench $1" ;;
    render | tokenize) words=$1 ;;
    esac
    if [ -n "$words" ]; then
        # shellcheck disable=SC2086
        kiln $words --help 2>/dev/null | grep '^  --' | grep -o -e '--[a-z-]*'
        return
    fi
    COLUMNS=1000 kiln help "$1" 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
    COLUMNS=1000 kiln help config 2>/dev/null | sed -n 's/^  \([a-z][a-z0-9_]*\)  *.*/--\1/p' | tr _ -
    printf '%s\n' --json --quiet --config --help
}

# cpu, a GPU or all: bash ends a word at the colon, so what follows it is completed alone
_kiln_devices() { if [ "$1" = : ]; then echo 0 all; else echo cpu cuda:0 cuda:all; fi; }

# the choices of a setting's flag
_kiln_choices()
{
    COLUMNS=1000 kiln help config 2>/dev/null |
        sed -n "s/^  $(tr - _ <<<"${1#--}") .*(\([a-z0-9|]*\))\$/\1/p" 2>/dev/null |
        tr '|' ' '
}

# what compgen makes of its options and the word at hand, which is _kiln's
_kiln_offer() { mapfile -t COMPREPLY < <(compgen "$@" -- "$word"); }

# A listing.  Tab must not hang on a server that does not answer; a slow machine may set more seconds.
_kiln_list() { timeout "${KILN_COMPLETION_S:-2}" kiln "$@" 2>/dev/null; }

_kiln_batches() { _kiln_list batches --limit 500 | sed 's/ .*//'; }
_kiln_fleet() { _kiln_list workers | sed -n 's/^\([^ ]\{1,\}\) .*/\1/p'; }
_kiln_loras() { _kiln_list loras | sed 's/ .*//'; }
_kiln_registry() { _kiln_list lora ls | sed 's/ .*//'; }
_kiln_keys() { COLUMNS=1000 kiln help job 2>/dev/null | sed -n 's/^  \([a-z_]\{1,\}\)$/\1=/p'; }
_kiln_workers() { _kiln_list worker ls | sed 's/ .*//'; }
_kiln_models() { _kiln_list models | sed 's/ .*//'; }
# the words that may follow a verb, from its usage: "build ... | stat", "show|rm NAME"
_kiln_second()
{
    COLUMNS=1000 kiln help "$1" 2>/dev/null | sed -n "s/^usage: kiln $1 //p" |
        sed 's/ | /\n/g' | sed 's/ .*//' | tr '|' '\n'
}
_kiln_tenants() { { _kiln_list usage --by tenant; _kiln_list quota ls; } | sed 's/ .*//' | sort -u; }
_kiln_groups() { _kiln_list status | sed -n '/^groups:/,$ s/^  \([^ ]\{1,\}\) .*/\1/p'; }
_kiln_orders() { _kiln_list backfill ls | sed 's/ .*//'; }

_kiln()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local verb='' colon='' words='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --json | -q | --quiet | -h | --help | --version) ;;
        -*) # its value is no verb
            [ "${COMP_WORDS[i + 1]}" = = ] && i=$((i + 1))
            i=$((i + 1)) ;;
        *) verb=${COMP_WORDS[i]}; break ;;
        esac
    done
    if [[ $word = : ]]; then
        colon=: word='' before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $before = : ]]; then
        colon=: before=${COMP_WORDS[COMP_CWORD - 3]}
    elif [[ $word = = ]]; then
        word=''
    elif [[ $before = = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $verb = bench ]] && ((i + 1 < COMP_CWORD)); then
        case ${COMP_WORDS[i + 1]} in quality | coarse | teleport | engine) verb=${COMP_WORDS[i + 1]} ;; esac
    fi
    case $before in
    --batch) [ "$verb" = enqueue ] || [ "$verb" = run ] || { _kiln_offer -W "$(_kiln_batches)"; return; } ;;
    --loras | loras)
        case $verb in
        lora) _kiln_offer -f ;;
        cache) _kiln_offer -W "none $(_kiln_loras)" ;; # which refuses auto
        *) _kiln_offer -W "none auto $(_kiln_loras)" ;;
        esac
        return ;;
    model) _kiln_offer -W "$(_kiln_models)"; return ;; # --set model=
    --style | style) _kiln_offer -W "$(_kiln_list styles | sed 's/ .*//')"; return ;;
    --set) compopt -o nospace 2>/dev/null; _kiln_offer -W "$(_kiln_keys)"; return ;;
    --tenant) _kiln_offer -W "$(_kiln_tenants)"; return ;;
    --group) _kiln_offer -W "$(_kiln_groups)"; return ;;
    --state) _kiln_offer -W 'queued assigned done failed cancelled'; return ;;
    --seed-policy) _kiln_offer -W 'fresh fixed'; return ;;
    --by) _kiln_offer -W 'tenant day tenant,day'; return ;;
    --device) _kiln_offer -W "$(_kiln_devices "$colon")"; return ;;
    --policy) _kiln_offer -W 'kiln fifo affinity'; return ;;
    --format)
        case $verb in
        export | gallery) _kiln_offer -W 'webp png jpeg openai' ;;
        *) _kiln_offer -W 'jsonl text csv' ;;
        esac
        return ;;
    --dir | --out | --model | --lora-dir | --judge | --failures) _kiln_offer -d; return ;;
    --config | --trace | --schedule | --sheet | --records | --prompts) _kiln_offer -f; return ;;
    --lora) _kiln_offer -f -W "$(_kiln_loras)"; return ;; # its name or its file
    --*)
        words=$(_kiln_choices "$before")
        [ -z "$words" ] || { _kiln_offer -W "$words"; return; } ;;
    esac
    if [[ $word == -* ]]; then
        _kiln_offer -W "$(_kiln_options "$verb")"
    elif [[ -z $verb ]]; then
        _kiln_offer -W "$(_kiln_verbs)"
    else
        case $verb in # their second verb, once
        bench | quota | cache | gallery | vote) [ "$before" = "$verb" ] || return ;;
        esac
        case $verb in
        help) _kiln_offer -W "config job $(_kiln_verbs)" ;;
        bench | quota | cache | gallery | vote) _kiln_offer -W "$(_kiln_second "$verb")" ;;
        worker)
            case $before in
            start | stop | logs) _kiln_offer -W "$(_kiln_workers)" ;;
            worker) _kiln_offer -W "$(_kiln_second worker)" ;;
            esac ;;
        jobs | cancel | retry | errors | events | show | wait | watch | why | export)
            _kiln_offer -W "$(_kiln_batches)" ;;
        drain) _kiln_offer -W "$(_kiln_fleet)" ;;
        favourite)
            case $before in
            add | rm | ls) _kiln_offer -W "$(_kiln_batches)" ;;
            favourite) _kiln_offer -W "$(_kiln_second favourite)" ;;
            esac ;;
        backfill)
            case $before in
            show | pause | resume | rm) _kiln_offer -W "$(_kiln_orders)" ;;
            backfill) _kiln_offer -W "$(_kiln_second backfill)" ;;
            esac ;;
        lora)
            case $before in
            show | edit | replace | rename | rm) _kiln_offer -W "$(_kiln_registry)" ;;
            lora) _kiln_offer -W "$(_kiln_second lora)" ;;
            *) _kiln_offer -f ;;
            esac ;;
        batch)
            case $before in
            show | rename | rm) _kiln_offer -W "$(_kiln_batches)" ;;
            batch) _kiln_offer -W "$(_kiln_second batch)" ;;
            esac ;;
        restore) _kiln_offer -d ;;
        run | enqueue) _kiln_offer -f ;;
        esac
    fi
}
complete -o filenames -F _kiln kiln
