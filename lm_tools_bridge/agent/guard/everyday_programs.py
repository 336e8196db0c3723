"""Lists the programs that people run all day without harm, and what of each is not harmless. Data only."""

# ruff: noqa: E501  a rule is read as one line

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

READS: Final = frozenset(
    [
        "ls",
        "ll",
        "dir",
        "pwd",
        "echo",
        "printf",
        "cat",
        "head",
        "tail",
        "less",
        "more",
        "bat",
        "wc",
        "nl",
        "tac",
        "rev",
        "sort",
        "cut",
        "paste",
        "join",
        "comm",
        "tr",
        "column",
        "fold",
        "fmt",
        "expand",
        "unexpand",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "ack",
        "fd",
        "tree",
        "stat",
        "file",
        "du",
        "df",
        "free",
        "uptime",
        "uname",
        "whoami",
        "id",
        "groups",
        "date",
        "cal",
        "arch",
        "nproc",
        "lscpu",
        "lsblk",
        "lsmod",
        "lsof",
        "ps",
        "pgrep",
        "which",
        "whereis",
        "type",
        "hash",
        "true",
        "false",
        "test",
        "[",
        "sleep",
        "seq",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "md5sum",
        "sha1sum",
        "sha224sum",
        "sha256sum",
        "sha384sum",
        "sha512sum",
        "b2sum",
        "cksum",
        "diff",
        "cmp",
        "colordiff",
        "diff3",
        "jq",
        "yq",
        "hexdump",
        "od",
        "strings",
        "base64",
        "base32",
        "printenv",
        "locale",
        "tty",
        "who",
        "w",
        "hostname",
        "ss",
        "netstat",
        "ping",
        "dig",
        "nslookup",
        "host",
        "man",
        "apropos",
        "exit",
        "return",
        "break",
        "continue",
        "wait",
        "shift",
        "read",
        "set",
        "shopt",
        "unset",
        "getopts",
        "let",
        ":",
        "nm",
        "objdump",
        "readelf",
        "size",
        "cloc",
        "tokei",
        "scc",
        "zcat",
        "zgrep",
        "bzcat",
        "xzcat",
        "getconf",
        "jobs",
        "journalctl",
        "pushd",
        "popd",
        "cd",
        "uniq",
        "sed",
        "awk",
        "gawk",
        "mawk",
        "xmllint",
    ]
)
"""Programs that change no file, whatever they are given, but for `FORBIDDEN`."""
WRITES: Final = frozenset(
    [
        "touch",
        "mkdir",
        "tee",
        "patch",
        "mv",
        "ln",
        "gzip",
        "gunzip",
        "bzip2",
        "bunzip2",
        "xz",
        "unxz",
        "zstd",
        "unzip",
        "tar",
        "zip",
    ]
)
"""Programs that write: all that they are given has to be inside the project."""
BUILDS: Final = frozenset(
    [
        "make",
        "gmake",
        "ninja",
        "just",
        "task",
        "rake",
        "gradle",
        "gradlew",
        "mvn",
        "mvnw",
        "ant",
        "bazel",
        "cmake",
        "ctest",
        "meson",
        "tox",
        "nox",
        "invoke",
        "pytest",
        "py.test",
        "jest",
        "vitest",
        "mocha",
        "tsc",
        "eslint",
        "prettier",
        "biome",
        "stylelint",
        "webpack",
        "vite",
        "rollup",
        "esbuild",
        "ruff",
        "black",
        "isort",
        "flake8",
        "pylint",
        "mypy",
        "pyright",
        "ty",
        "bandit",
        "coverage",
        "pre-commit",
        "rspec",
        "rubocop",
        "phpunit",
        "phpstan",
        "psalm",
        "gofmt",
        "golangci-lint",
        "goimports",
        "staticcheck",
        "rustfmt",
        "rustc",
        "gcc",
        "g++",
        "cc",
        "c++",
        "clang",
        "clang++",
        "javac",
        "kotlinc",
        "ghc",
        "dune",
        "swiftc",
        "shellcheck",
        "shfmt",
        "hadolint",
        "yamllint",
        "markdownlint",
        "clang-format",
        "clang-tidy",
        "cppcheck",
        "sphinx-build",
        "mkdocs",
        "hugo",
        "jekyll",
        "doxygen",
    ]
)
"""Programs that build, test or check the project: they may run its code, and write inside it."""
INTERPRETERS: Final = frozenset(
    {
        "python", "pypy", "node", "nodejs", "ruby", "perl", "php", "lua", "luajit", "Rscript",
        "julia", "java",
    }
)  # fmt: skip
"""Programs that run a script of the project, which is not looked into."""
SHELLS: Final = frozenset(
    {
        "sh", "bash", "dash", "zsh",
    }
)  # fmt: skip
WRAPPERS: Final = frozenset(
    {
        "time", "nohup", "command", "nice", "exec", "timeout", "stdbuf", "env", "xargs", "setsid", "ionice",
    }
)  # fmt: skip
"""Programs that run another, behind their options."""
RUNNERS: Final[Mapping[str, str]] = {
    "uv": "run", "poetry": "run", "pdm": "run", "pipenv": "run", "hatch": "run", "rye": "run", "bundle": "exec",
    "pnpm": "exec", "npm": "exec", "npx": "", "yarn": "exec",
}  # fmt: skip
"""Programs that run another of the project's environment -> the word in between."""
SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(words.split(","))
    for name, words in {
        "cargo": "build,b,check,c,test,t,run,r,clippy,fmt,doc,bench,clean,tree,metadata,fetch,update,new,init,nextest",
        "go": "build,test,vet,fmt,run,list,env,version,doc,generate,mod tidy,mod download,mod graph,mod verify,tool",
        "npm": "test,t,run,run-script,start,ci,install,i,ls,list,outdated,audit,view,info,why,explain",
        "pnpm": "test,t,run,start,install,i,ls,list,outdated,audit,why,build,lint",
        "yarn": "test,run,start,install,list,outdated,audit,why,build,lint",
        "bun": "test,run,install,build", "deno": "test,run,fmt,lint,check,task",
        "pip": "list,show,freeze,check,install", "pip3": "list,show,freeze,check,install",
        "uv": "sync,lock,tree,venv,version,pip list,pip show,pip freeze,pip check,pip tree,python list",
        "poetry": "install,show,check,lock,build,env info,version", "bundle": "install,list,check,info",
        "composer": "install,show,validate,test", "dotnet": "build,test,run,restore,clean,format",
        "docker": "ps,images,logs,inspect,version,info,stats,top,port,history,build,compose ps,compose logs,compose ls",
        "podman": "ps,images,logs,inspect,version,info,stats,top,port,history,build",
        "kubectl": "get,describe,logs,version,top,explain,api-resources,cluster-info",
        "helm": "list,status,template,lint,version",
        "gh": "pr view,pr list,pr status,pr diff,pr checks,issue view,issue list,run view,run list,repo view",
        "terraform": "validate,fmt,version,plan,providers,graph",
        "systemctl": "status,is-active,is-enabled,is-failed,list-units,list-timers,list-unit-files",
        "swift": "build,test,run", "zig": "build,test,fmt,run", "stack": "build,test", "cabal": "build,test",
        "mix": "test,compile,format", "flutter": "test,analyze,build", "dart": "test,analyze,format,run",
        "apt": "list,show,search,policy", "brew": "list,info,search,outdated", "ollama": "list,ps,show",
        "lmtb": "status,doctor,whoami", "ip": "a,addr,address,r,route",
        "git": "status,diff,log,show,blame,grep,rev-parse,rev-list,ls-files,ls-tree,describe,shortlog,cat-file,name-rev,"
        "merge-base,for-each-ref,show-ref,cherry,version,help,count-objects,check-ignore,check-attr,whatchanged,"
        "range-diff,diff-tree,diff-index,reflog,add,commit,fetch,pull,merge,switch,checkout,restore,stash,branch,tag,"
        "remote,config,clean,reset,init,clone,push,apply,cherry-pick,revert,mv,worktree list,submodule status",
    }.items()
}  # fmt: skip
"""Programs with subcommands -> those that are harmless but for `FORBIDDEN`."""
_FORBIDDEN: Final[Mapping[str, str]] = {
    "hash": "-.*", "printf": "-v.*", "jobs": "-x", "read": "[A-Z_][A-Z0-9_]*", "type": "-.*", "fd": "-[xX].*|--exec.*", "rg": "--pre.*|--hostname-bin.*", "sort": "-o.*|--output.*|--compress-program.*",
    "yq": "-i.*|--inplace|--in-place|-[a-z]*i", "jq": "-i|--in-place", "tree": "-o.*|-R", "date": "-s.*|--set.*",
    "awk": "-i.*|--include.*|-l.*|--load.*|-E.*", "hostname": "[^-].*|-[bF].*", "shopt": "expand_aliases",
    "journalctl": "--vacuum.*|--rotate|--flush|--relinquish.*|--setup-keys", "man": "-[PHC].*|--pager.*|--html.*",
    "less": "[+].*|-[ok].*", "xmllint": "--output.*|-o.*", "bat": "--pager.*", "ag": "--pager.*", "ack": "--pager.*",
    "tar": "-[a-zA-Z]*[PI].*|--absolute-names|--to-command.*|--checkpoint.*|--use-comp.*|--rsh.*|--remove-files|--info-script.*|-F.*",
    "zip": "-[a-zA-Z]*m.*|--move|-T.*|--unzip-command.*", "unzip": "-[a-zA-Z]*:.*",
    "cmake": "-E|--install|-P.*", "make": "--eval.*", "gmake": "--eval.*", "ninja": "-t.*", "meson": "install",
    "gcc": "-fplugin.*|-wrapper|-B.*|@.*|-specs.*", "pip": "--user|-t.*|--target.*|--prefix.*|-i.*|--.*index-url.*|--break.*|--root.*",
    "cargo": "--config.*|-Z.*|--registry.*|--index.*", "go": "-toolexec.*|-exec.*|-w|-u|.*@.*|-modfile.*|-overlay.*",
    "npm": "-g|--global|--location.*|--prefix.*|-C.*|--registry.*|--script-shell.*|--userconfig.*|fix",
    "docker": "-H.*|--host.*|--output.*|-o.*|--secret.*|--ssh.*|--push|-c|--context.*",
    "kubectl": ".*secrets?.*|--raw.*|--kubeconfig.*", "terraform": "-out.*|-destroy",
    "git": "-o.*|--output.*|--ext-diff|-O.*|--open-files.*|--upload-pack.*|--receive-pack.*|--exec.*|--template.*|-f|--force.*"
    "|--discard-changes|--config.*|--unsafe-paths|--separate-git-dir.*|--reference.*|--textconv|--prune|-p=.*|--mirror",
}  # fmt: skip
_SAME: Final[Mapping[str, str]] = {
    "gawk": "awk", "mawk": "awk", "pip3": "pip", "pnpm": "npm", "yarn": "npm", "podman": "docker", "g++": "gcc",
    "cc": "gcc", "c++": "gcc", "clang": "gcc", "clang++": "gcc",
}  # fmt: skip
FORBIDDEN: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(_FORBIDDEN[_SAME.get(name, name)])
    for name in (*_FORBIDDEN, *_SAME)
    if _SAME.get(name, name) in _FORBIDDEN
}
"""Program -> arguments with which it is not harmless."""
HARMFUL_TARGET: Final = re.compile(
    r"(?:.*[:_./-])?(?:deploy|publish|release|install|uninstall|destroy|purge|upload|push|drop|wipe|reset|nuke|prune|"
    r"rollback|migrate|distclean|login|gh-deploy)(?:[:_./-].*)?"
)
"""Targets of builds that reach out of the project, or throw away."""
GIT_FORBIDDEN: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "push": "-[a-zA-Z]*[fd].*|--delete|--all|[+:].*|.*://.*|.*@.*|[./~].*", "fetch": ".*://.*|.*@.*|[./~].*|-[a-zA-Z]*f.*",
        "pull": ".*://.*|.*@.*|[./~].*|-[a-zA-Z]*f.*", "merge": "--abort|--quit", "revert": "--abort|--quit|--skip",
        "cherry-pick": "--abort|--quit|--skip", "switch": "-[a-zA-Z]*[fC].*|--force-create.*",
        "stash": "drop|clear|branch|store|create", "branch": "-[a-zA-Z]*[dDmMcCfu].*|--delete.*|--move.*|--copy.*|--set-.*|--unset.*|--edit.*",
        "tag": "-[a-zA-Z]*[df].*|--delete.*", "reflog": "expire|delete|drop", "reset": "--hard|--merge|--keep|-[a-zA-Z]*p.*",
        "apply": "-R|--reverse|--directory.*|-p0", "clone": "(?!https://)(?=.*[:@]).*|-.*|[./~].*", "add": "-[a-zA-Z]*f.*",
        "remote": "add|set-url|remove|rm|rename|set-head|set-branches|prune|update", "mv": "-[a-zA-Z]*f.*", "init": "[./~].*",
    }.items()
}  # fmt: skip
"""Subcommand of git -> arguments with which it discards work, or sends it elsewhere."""
GIT_NEEDED: Final[Mapping[str, re.Pattern[str]]] = {
    "restore": re.compile(r"--staged|-S"),
    "clean": re.compile(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run"),
    "config": re.compile(r"--get.*|--list|-l|get|list"),
}
"""Subcommand of git -> what one of its arguments has to be."""
SAFE_BRANCHES: Final = frozenset({"main", "master", "develop", "trunk", "-"})
"""What `git checkout` surely takes for a branch, and not for files whose changes it would discard."""
STANDARD_MODULES: Final = frozenset(
    [
        "unittest",
        "json.tool",
        "compileall",
        "doctest",
        "venv",
        "pydoc",
        "tabnanny",
        "ast",
        "cProfile",
        "dis",
        "py_compile",
        "zoneinfo",
        "site",
    ]
)
"""Modules of Python itself that `python -m` runs without harm."""
SECRET_PLACES: Final = re.compile(
    r"(?:^|[\s/~'\"=@:])(?:\.ssh|\.aws|\.gnupg|\.netrc|\.pgpass|\.my\.cnf|\.kube|\.azure|\.docker|\.npmrc|\.pypirc|\.git-credentials|"
    r"\.config/(?:gcloud|gh|lm-tools-bridge)|\.password-store|\.mozilla|\.local/share/keyrings|id_(?:rsa|ed25519|ecdsa|dsa)|"
    r"own-token|shadow|gshadow)(?:$|[\s/'\"*.;|&>)])|/proc/[^\s]*/(?:environ|mem|maps|fd)|/dev/(?:tcp|udp|mem|kmem|sd|nvme|vd|disk)"
)  # fmt: skip
"""Places of secrets in a command: a model would read them. Also devices that are not files."""
