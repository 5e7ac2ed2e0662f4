# SPDX-License-Identifier: Apache-2.0
"""Completions for bash, zsh and fish, made from the help: subcommands, options and their values.

The placeholder of a value in the help tells what kind of value it is. For subcommands that inspect
or break a lock, the names of the locks in use are offered. `holdfast list` prints them, and is
killed after one second.
"""
import re
import textwrap
from typing import Dict, List, Optional

from helptext import Help, Option, subcommands

FILES, FOLDERS, COMMANDS, SIGNALS, PROCESSES, STORES = (
    "files", "folders", "commands", "signals", "processes", "stores")
VALUES = {"URL": STORES, "FILE": FILES, "PATH": FILES, "DIR": FOLDERS, "DIRECTORY": FOLDERS,
          "CMD": COMMANDS, "COMMAND": COMMANDS, "STRING": COMMANDS, "SIGNAL": SIGNALS,
          "PID": PROCESSES}


def make(helps: List[Help]) -> Dict[str, str]:
    """File name → text, under the names that the shells look for."""
    return {"holdfast": bash(helps), "_holdfast": zsh(helps), "holdfast.fish": fish(helps)}


def stores(general: Help) -> List[str]:
    """The prefixes of URLs in the general help; two of them have no slashes."""
    return sorted(set(re.findall(r"(?<![\w+])(?:[a-z][a-z0-9+]*://|file:|memory:)", general.text)))


def value_of(option: Option) -> Optional[str]:
    """The kind of its value; "" if it cannot be completed, None if there is no value."""
    if not option.takes_next or not option.value:
        return None
    return VALUES.get(re.split(r"[^A-Z]", option.value)[0], "")


def spellings(option: Option) -> List[str]:
    return option.flags + option.aliases


def runs_a_command(page: Help) -> bool:
    return any(" COMMAND" in line for line in page.usage)


def takes_a_name(page: Help) -> bool:
    return any(re.search(r" NAME\b", line) for line in page.usage)


def takes_an_existing_name(page: Help) -> bool:
    """Its NAME most likely exists; run and acquire may create a new one."""
    return takes_a_name(page) and not runs_a_command(page) and not any("HANDLE" in line
                                                                       for line in page.usage)


def takes_a_handle(page: Help) -> bool:
    """Its argument is a file that acquire has created."""
    return any(line.endswith(" HANDLE") for line in page.usage)


def short(text: str) -> str:
    """The first clause, which fits into a menu."""
    return textwrap.shorten(re.split(r"[;:.](?= |$)| \(", text)[0], 64, placeholder=" ...")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---- bash ----------------------------------------------------------------------------------------

BASH = r"""# bash completion for holdfast; made from its help
_holdfast() {
    # Words as the user sees them: bash would split them at the colons of a URL.
    local line=${COMP_LINE:0:COMP_POINT} words cur word value at=0 skip='' name='' store=''
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    COMPREPLY=()
    if [ ${#words[@]} -le 2 ]; then
        mapfile -t COMPREPLY < <(compgen -W '@SUBCOMMANDS@' -- "$cur")
        return
    fi

    local sub=${words[1]} flags="" taking="" command="" argument=""
    case $sub in
@CASES@
    help) [ ${#words[@]} -eq 3 ] &&
        mapfile -t COMPREPLY < <(compgen -W '@HELPABLE@' -- "$cur")
        return ;;
    *) return ;;
    esac

    # What comes before the word at the cursor: options, their values, the lock's name, a command.
    for ((at = 2; at < ${#words[@]} - 1; at++)); do
        word=${words[at]}
        if [ -n "$skip" ]; then
            [[ $skip == -S || $skip == --store ]] && store=$word
            skip=''
        elif [[ -z $name && " $taking " == *" $word "* ]]; then skip=$word
        elif [[ -z $name && $word == --store=* ]]; then store=${word#*=}
        elif [[ -z $name && $word == -?* && $word != -- ]]; then :
        elif [[ -z $name && $word != -- ]]; then name=$word
        elif [[ -n $name && -n $command && $word != -- ]]; then
            compopt -o default # the command's own arguments
            return
        fi
    done

    value=$cur
    if [ -z "$skip" ] && [[ -z $name && $cur == --*=* ]]; then
        skip=${cur%%=*} value=${cur#*=}
    fi
    if [ -n "$skip" ]; then
        _holdfast_value "$sub" "$skip" "$value"
    elif [[ -z $name && $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    elif [[ -n $name && -n $command ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        compopt -o default
    elif [[ -z $name && $argument == handle ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames
    elif [[ -z $name && $argument == lock ]]; then
        _holdfast_locks "$cur" "$store"
    fi
    _holdfast_uncolon "$value"
}

# The names of locks in use, quoted where the shell would split them.
_holdfast_locks() {
    local lock
    while IFS=$'\t' read -r lock _; do
        printf -v lock %q "$lock"
        [[ $lock == "$1"* ]] && COMPREPLY+=("$lock")
    done < <(timeout 1 holdfast list ${2:+-S "$2"} 2>/dev/null)
}

# The values of an option, by the word that its help has for them.
_holdfast_value() {
    case $1:$2 in
@VALUES@
    esac
}

# bash replaces only the text after the last colon or equals sign.
_holdfast_uncolon() {
    [[ $COMP_WORDBREAKS == *:* && $1 == *:* ]] || return 0
    local i before=${1%"${1##*:}"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$before"}; done
}

complete -F _holdfast holdfast
"""


def bash(helps: List[Help]) -> str:
    general, pages = helps[0], helps[1:]
    names = [word for word, _ in subcommands(general)]
    top = [flag for o in general.options for flag in spellings(o)]
    cases, values = [], []
    for page in pages:
        flags = [flag for o in page.options for flag in spellings(o)]
        taking = [flag for o in page.options if o.takes_next for flag in spellings(o)]
        cases.append(f"    {page.name})\n        flags={quoted(' '.join(flags))}\n"
                     f"        taking={quoted(' '.join(taking))}\n"
                     f"        command={'yes' if runs_a_command(page) else ''}\n"
                     f"        argument={bash_argument(page)} ;;")
        values += bash_values(page, general)
    return (BASH.replace("@SUBCOMMANDS@", " ".join(names + top))
            .replace("@HELPABLE@", " ".join(page.name for page in pages))
            .replace("@CASES@", "\n".join(cases)).replace("@VALUES@", "\n".join(values)))


def bash_argument(page: Help) -> str:
    return "handle" if takes_a_handle(page) else "lock" if takes_an_existing_name(page) else ""


def bash_values(page: Help, general: Help) -> List[str]:
    words = {STORES: f"compgen -W {quoted(' '.join(stores(general)))}", FILES: "compgen -f",
             FOLDERS: "compgen -d", COMMANDS: "compgen -c", SIGNALS: "compgen -A signal",
             PROCESSES: "compgen -W \"$(cd /proc && echo [0-9]*)\""}
    out = []
    for o in page.options:
        kind = value_of(o)
        if not kind:
            continue
        patterns = " | ".join(f"{page.name}:{flag}" for flag in spellings(o))
        after = " compopt -o nospace;" if kind == STORES else ""
        out.append(f"    {patterns})\n"
                   f"        mapfile -t COMPREPLY < <({words[kind]} -- \"$3\");{after} ;;")
    return [line.replace("; ;;", " ;;").replace(";;;", ";;") for line in out]


# ---- zsh -----------------------------------------------------------------------------------------

def zsh(helps: List[Help]) -> str:
    general, pages = helps[0], helps[1:]
    listed = " ".join(quoted(f"{word}:{zsh_text(text)}") for word, text in subcommands(general))
    out = ["#compdef holdfast", "# zsh completion for holdfast; made from its help", "",
           "_holdfast_stores() {", f"  compadd -S '' -- {' '.join(stores(general))}", "}", "",
           "# A message would keep an option from being inserted.",
           "_holdfast_name() {", "  [[ $PREFIX == -* ]] || _message 'lock name'", "}", "",
           "_holdfast_locks() {", "  [[ $PREFIX == -* ]] && return",
           "  local store=${opt_args[-S]:-$opt_args[--store]} lines",
           "  lines=(${(f)\"$(timeout 1 holdfast list ${store:+-S} ${store:+$store} "
           "2>/dev/null)\"})",
           "  compadd -- ${lines%%$'\\t'*}", "}", "",
           "_holdfast() {", "  local context state state_descr line", "  typeset -A opt_args", "",
           "  _arguments -C " + " ".join(zsh_option(o) for o in general.options) + " \\",
           "    '1:subcommand:->subcommand' '*::argument:->argument'", "",
           "  case $state in", "  subcommand)", f"    local -a known=({listed})",
           "    _describe subcommand known", "    ;;", "  argument)", "    case $line[1] in"]
    for page in pages:
        out += [f"    {page.name})", "      _arguments -S -A '-*' \\",
                *(f"        {zsh_option(o)} \\" for o in page.options),
                *([f"        '1:lock name:{zsh_name(page)}' \\"] if takes_a_name(page) else []),
                *(["        '1:handle:_files' \\"] if takes_a_handle(page) else []),
                "        '*:::command:_normal'" if runs_a_command(page) else "        && return",
                "      ;;"]
    out += ["    help)", f"      _arguments '1:subcommand:({' '.join(p.name for p in pages)})'",
            "      ;;",
            "    esac", "    ;;", "  esac", "}", "", '_holdfast "$@"']
    return "\n".join(out) + "\n"


def zsh_name(page: Help) -> str:
    return "_holdfast_locks" if takes_an_existing_name(page) else "_holdfast_name"


def zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:])", r"\\\1", short(text))


def zsh_option(option: Option) -> str:
    actions = {STORES: "_holdfast_stores", FILES: "_files", FOLDERS: "_files -/",
               COMMANDS: "_cmdstring", SIGNALS: "_signals", PROCESSES: "_pids"}
    value = value_of(option)
    names = spellings(option)
    tail = f"[{zsh_text(option.text)}]"
    if value is not None:
        words = re.sub(r"[^A-Za-z]+", " ", option.value or "").strip()
        tail += f":{words}:{actions.get(value, ' ')}"
    if len(names) == 1:
        return quoted(names[0] + tail)
    return f"{quoted('(' + ' '.join(names) + ')')}{{{','.join(names)}}}{quoted(tail)}"


# ---- fish ----------------------------------------------------------------------------------------

FISH = """# fish completion for holdfast; made from its help
function __holdfast_named -d 'The name of the lock stands before the cursor'
    set -l value no
    for word in (commandline -opc)[3..-1]
        if test $value = yes
            set value no
        else if contains -- $word $argv
            set value yes
        else if not string match -q -- '-*' $word
            return 0
        end
    end
    return 1
end
function __holdfast_locks -d 'The names of locks in use'
    set -l words (commandline -opc)
    set -l store
    if set -l at (contains -i -- -S $words; or contains -i -- --store $words)
        set store -S $words[(math $at + 1)]
    end
    timeout 1 holdfast list $store 2>/dev/null | string split -f 1 \\t
end
complete -c holdfast -f"""


def fish(helps: List[Help]) -> str:
    general, pages = helps[0], helps[1:]
    out = [FISH]
    for word, text in subcommands(general):
        about = fish_quoted(short(text))
        out.append(f"complete -c holdfast -n __fish_use_subcommand -a {word} -d {about}")
    for o in general.options:
        out.append("complete -c holdfast -n __fish_use_subcommand" + fish_option(o, general))
    for page in pages:
        condition = f" -n '__fish_seen_subcommand_from {page.name}'"
        out += ["complete -c holdfast" + condition + fish_option(o, general) for o in page.options]
        if takes_a_handle(page):
            out.append("complete -c holdfast" + condition + " -F")
        if takes_an_existing_name(page):
            taking = sorted((flag for o in page.options if o.takes_next for flag in spellings(o)),
                            key=len)
            named = f" -n 'not __holdfast_named {' '.join(taking)}'"
            out.append(f"complete -c holdfast{condition}{named} -a '(__holdfast_locks)'")
        if runs_a_command(page):
            # Short flags first: fish takes leading long ones for its own options.
            taking = sorted((flag for o in page.options if o.takes_next for flag in spellings(o)),
                            key=len)
            named = f" -n '__holdfast_named {' '.join(taking)}'"
            out.append(f"complete -c holdfast{condition}{named} "
                       f"-a '(__fish_complete_subcommand --fcs-skip=3 {' '.join(taking)})'")
    words = " ".join(page.name for page in pages)
    out.append(f"complete -c holdfast -n '__fish_seen_subcommand_from help' -a '{words}'")
    return "\n".join(out) + "\n"


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(option: Option, general: Help) -> str:
    values = {STORES: f" -x -a {fish_quoted(' '.join(stores(general)))}", FILES: " -r -F",
              FOLDERS: " -x -a '(__fish_complete_directories)'", "": " -x",
              COMMANDS: " -x -a '(__fish_complete_command)'",
              SIGNALS: " -x -a '(__fish_make_completion_signals; "
                       "string replace -r \"^\\\\d+ \" \"\" -- $__kill_signals)'",
              PROCESSES: " -x -a '(__fish_complete_pids)'"}
    names = "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}"
                    for flag in spellings(option))
    value = value_of(option)
    return names + (values[value] if value is not None
                    else "") + f" -d {fish_quoted(short(option.text))}"
