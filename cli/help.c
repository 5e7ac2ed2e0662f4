#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/exit_codes.h"
#include "common/message.h"
#include "common/suggestion.h"
#include "holdfast.h"

static const char general[] =
    "Usage: holdfast run [OPTION]... NAME [--] COMMAND [ARG]...\n"
    "       holdfast run [OPTION]... NAME -c 'SHELL COMMAND'\n"
    "       holdfast run [OPTION]... NAME\n"
    "       holdfast status|wait|break [OPTION]... NAME\n"
    "       holdfast list [OPTION]... [PATTERN]\n"
    "       holdfast acquire -o HANDLE [OPTION]... NAME\n"
    "       holdfast release|extend [OPTION]... HANDLE\n"
    "       holdfast top [OPTION]... [PATTERN]\n"
    "       holdfast doctor [OPTION]...\n"
    "       holdfast bench [OPTION]...\n"
    "\n"
    "Run a command while holding a lock, on this machine or across machines.\n"
    "\n"
    "  run      take the lock NAME, run COMMAND, release the lock\n"
    "  acquire  take the lock NAME for steps that follow, in other processes\n"
    "  release  release what acquire has taken\n"
    "  extend   make what acquire --no-renew has taken last longer\n"
    "  status   show who holds the lock NAME, and who waits for it\n"
    "  list     list the locks that are in use\n"
    "  wait     wait until the lock NAME is free, and take nothing\n"
    "  break    take the lock NAME away from its holder\n"
    "  top      watch the locks that are in use, on a terminal\n"
    "  doctor   examine the store: whether it is fit for locks, and what to change\n"
    "  bench    measure how fast locks are in the store\n"
    "  help     explain a subcommand: holdfast help run\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "A store keeps the locks. It is the first of these that is set:\n"
    "\n"
    "  -S URL, --store URL\n"
    "  $HOLDFAST_URL\n"
    "  the line `store = URL` in ~/.config/holdfast, then in /etc/holdfast.conf\n"
    "  file:    the locks of this user on this machine\n"
    "\n"
    "Stores: file:  file:///DIRECTORY  redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]\n"
    "        rediss://HOST (TLS)  redis+unix:///SOCKET  memory: (for trying out)\n"
    "        redis+sentinel://HOST[:PORT],HOST…/NAME (the primary of that name)\n"
    "        redis+quorum://HOST,HOST,HOST (what a majority of them says)\n"
    "        redis+cluster://HOST[:PORT],HOST… (the primaries of a cluster)\n"
    "        redis://HOST?password_file=FILE&lease=1m (options; holdfast(1) has all)\n"
    "\n"
    "Example: holdfast run -n -S redis://locks nightly-report ./report.sh\n";

static const char run[] =
    "Usage: holdfast run [OPTION]... NAME [--] COMMAND [ARG]...\n"
    "       holdfast run [OPTION]... NAME -c 'SHELL COMMAND'\n"
    "       holdfast run [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME, waiting for it if need be, and run COMMAND while holding it.\n"
    "Without a command, hold the lock until SIGINT, SIGTERM or SIGHUP.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -n, --nonblock      do not wait: if the lock is held, exit with 1\n"
    "  -w, --wait TIME     wait no longer than this, then exit with 1; also --timeout\n"
    "  -E, --conflict-exit-code N\n"
    "                      exit with N instead of 1; 0 to 255\n"
    "  -c, --command STRING\n"
    "                      run STRING with $SHELL -c; also right after NAME\n"
    "  -s, --shared        share the lock with others who do, as readers; all others\n"
    "                      wait for all of these.\n"
    "  -x, --exclusive     exclude everybody else, as without any of these\n"
    "      --permits N/M   take N permits of M: as many may run as there are permits\n"
    "                      for; all must say the same M.\n"
    "      --also NAME     take this lock too, as the same kind: all of them or none,\n"
    "                      in an order that cannot deadlock; up to 63 times\n"
    "      --lease TIME    the store forgets the lock this long after it was last\n"
    "                      renewed, which is done every third of it; 50ms to 720h.\n"
    "                      Default: what the URL says, else 30s, on file: 720h\n"
    "      --grace TIME    if the lock is about to be lost, the time from SIGTERM to\n"
    "                      SIGKILL for COMMAND; at most half the lease. Default: 5s,\n"
    "                      but no more than a third of the lease; and half at most\n"
    "                      of what --max-hold allows\n"
    "      --min-hold TIME\n"
    "                      hold the lock for at least this long, also when COMMAND\n"
    "                      has ended: a short job is then not done again by a\n"
    "                      machine whose clock is behind. A signal ends it sooner.\n"
    "      --max-hold TIME\n"
    "                      hold it for this long at most: --grace before that\n"
    "                      COMMAND gets SIGTERM, then SIGKILL. The exit code is 75.\n"
    "      --on-lost WHAT  if the lock is lost: a signal (INT, SIGUSR1, 10) for\n"
    "                      COMMAND in place of SIGTERM; `continue`, to let it run on\n"
    "                      without the lock, and have its exit code; or a command to\n"
    "                      be run, as by --on-wait. May be said twice\n"
    "      --on-wait CMD   run CMD when another has the lock and it is waited for\n"
    "      --on-acquire CMD\n"
    "                      run CMD when the lock is held\n"
    "      --label TEXT    what others see beside our name when they look at the\n"
    "                      lock. Default: what the URL says, else the first words of\n"
    "                      COMMAND, but nothing that may be a secret\n"
    "      --json FD       write what happens to this descriptor, as JSON objects,\n"
    "                      one in a line: waiting, acquired, started, lost, ended,\n"
    "                      released, failed\n"
    "      --metrics FILE  write the counters of this run to FILE, as OpenMetrics:\n"
    "                      when the lock is held, and at the end\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "COMMAND runs in a process group of its own, to which signals are passed on. If\n"
    "the lock is lost, or this process killed, the group is ended; a process that has\n"
    "left the group is not. COMMAND finds in its environment:\n"
    "\n"
    "  HOLDFAST_NAME    the lock's name\n"
    "  HOLDFAST_FENCE   the token, which grows from holder to holder: let what\n"
    "                   COMMAND writes to refuse a lower one than it has seen\n"
    "  HOLDFAST_NAME_2  and HOLDFAST_FENCE_2: the same of the first --also, and so on\n"
    "  HOLDFAST_STORE   the store's URL, without users and passwords\n"
    "\n"
    "A CMD is run by $SHELL -c, beside COMMAND, which does not wait for it; at the\n"
    "end it has 5 seconds to end, too. What it prints goes to the standard error. It\n"
    "finds the same in its environment, and:\n"
    "\n"
    "  HOLDFAST_EVENT   wait, acquire or lost\n"
    "  HOLDFAST_WHY     why it was lost\n"
    "\n"
    "SIGTERM and the time of --grace are given by this process: if it is killed or\n"
    "stopped itself, COMMAND gets SIGKILL at once, or in time.\n"
    "\n"
    "Exit codes: COMMAND's own, or 128 plus the number of the signal that ended it;\n"
    "otherwise\n"
    "\n"
    "   1  the lock is held by another        74  the store cannot be reached\n"
    "  64  wrong usage or configuration       75  the lock was lost meanwhile\n"
    "  69  COMMAND cannot be run              76  the store did not answer in time\n"
    "  71  out of memory, processes, ...      77  the store refused\n";

static const char acquire[] =
    "Usage: holdfast acquire -o HANDLE [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME, waiting for it if need be, and leave it taken: for steps that\n"
    "span several processes. HANDLE is a file to be made, by which the lock is\n"
    "released. The token is printed. One of these says what ends it otherwise:\n"
    "\n"
    "      --while-pid PID\n"
    "                      a helper in the background holds and renews it as long as\n"
    "                      the process PID runs; $$ is the shell that you are in\n"
    "      --detach        a helper holds and renews it until --max-hold is over\n"
    "      --no-renew      no helper: it ends with its --lease. Only on Redis\n"
    "\n"
    "  -o, --handle FILE   the handle: a file to be made\n"
    "      --max-hold TIME\n"
    "                      how long a helper holds it at most\n"
    "      --lease TIME    the store forgets the lock this long after it was taken or\n"
    "                      last renewed; 50ms to 720h. Default: what the URL says,\n"
    "                      else 30s, on file: 720h\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -n, --nonblock      do not wait: if the lock is held, exit with 1\n"
    "  -w, --wait TIME     wait no longer than this, then exit with 1; also --timeout\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Nothing ends the steps if the lock is lost, as run would: let what they write to\n"
    "refuse a lower token than it has seen. On file: a helper that is killed frees the\n"
    "lock at once, on Redis within a lease.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  it is held                         74  the store cannot be reached\n"
    "   1  the lock is held by another        76  the store did not answer in time\n"
    "  64  wrong usage or configuration       77  the store refused\n"
    "  71  out of memory, processes, ...\n";

static const char release[] =
    "Usage: holdfast release [OPTION]... HANDLE\n"
    "\n"
    "Release the lock that holdfast acquire has taken, and remove the file HANDLE,\n"
    "also if the lock was not held any more.\n"
    "\n"
    "  -S, --store URL     where the lock is kept. Default: where HANDLE says, with\n"
    "                      user and password of the store that is named as for all\n"
    "                      commands, if it is the same\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  it was released                    75  it was not held any more\n"
    "  64  wrong usage, or no such handle     76  it is not known whether it was\n"
    "  71  out of memory, ...                 77  the store refused\n"
    "  74  the store cannot be reached\n";

static const char extend[] =
    "Usage: holdfast extend [OPTION]... HANDLE\n"
    "\n"
    "Make a lock that holdfast acquire --no-renew has taken last longer: for a lease\n"
    "from now on, never shorter than it would.\n"
    "\n"
    "      --lease TIME    for this long. Default: the lease it was taken with\n"
    "  -S, --store URL     where the lock is kept; see holdfast release --help\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  it was extended                    75  it was not held any more\n"
    "  64  wrong usage, or no such handle     76  the store did not answer in time\n"
    "  71  out of memory, ...                 77  the store refused\n"
    "  74  the store cannot be reached\n";

static const char status[] =
    "Usage: holdfast status [OPTION]... NAME\n"
    "\n"
    "Show who holds the lock NAME, since when, who waits for it, the first first, and\n"
    "in which store.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "      --all           name all who wait, up to 64, also on a terminal\n"
    "      --json          show it as one JSON object, in a line\n"
    "  -q, --quiet         show nothing: the exit code says it\n"
    "      --verbose       say what happens\n"
    "      --help          show this\n"
    "\n"
    "On Redis one who was killed while it waited is shown for up to a minute; nobody\n"
    "waits for it.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock is held                   74  the store cannot be reached\n"
    "   1  the lock is free                   77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char doctor[] =
    "Usage: holdfast doctor [OPTION]...\n"
    "\n"
    "Examine the store: whether it can be reached and how fast it answers, and what\n"
    "about it could endanger locks. Of Redis: version, role, replicas, persistence,\n"
    "eviction, connections, clock, rights of the user, scripts. Of a quorum: which nodes\n"
    "vote. Of file: the directory, the filesystem and its room. Each line says what it\n"
    "means for locks and what to change. A lock of a name of its own is taken and\n"
    "released; nothing else is changed.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --json          one JSON object: store, level, findings, latency_us\n"
    "  -q, --quiet         show nothing: the exit code says it\n"
    "      --help          show this\n"
    "\n"
    "Levels are ok, note, warning and error. On a terminal they are coloured, unless\n"
    "NO_COLOR is set.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  all is well, or notes at most      64  wrong usage or configuration\n"
    "   1  there are warnings                 71  out of memory, ...\n"
    "   2  there are errors: locks cannot be taken, or are in danger\n";

static const char top[] =
    "Usage: holdfast top [OPTION]... [PATTERN]\n"
    "\n"
    "Watch the locks that are held or waited for, and whose names match PATTERN, as in\n"
    "a shell (quote it): how long they are held, by whom, how many wait, and how often\n"
    "they go from hand to hand. It needs a terminal.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --interval TIME how often the screen is brought up to date; 100ms to 1h.\n"
    "                      Default: 1\n"
    "      --sort ORDER    waiting, held, handovers or name. Default: waiting\n"
    "  -q, --quiet         no messages when it ends\n"
    "      --verbose       say which store is used\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m.\n"
    "\n"
    "The keys are:\n"
    "\n"
    "  Up, Down   choose a lock; PgUp, PgDn, Home, End go further\n"
    "  Enter      look into it: its holder, and who waits, in order\n"
    "  s          sort by another column\n"
    "  r          the other way round\n"
    "  /          show only names that have a text in them\n"
    "  Space      hold the picture, and go on\n"
    "  ?          help\n"
    "  Esc        back; at last, end\n"
    "  q          end\n"
    "\n"
    "Hand-overs are those seen by looking ten times a second at most; a + behind the\n"
    "number says that there may be more. NO_COLOR turns colours off.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  ended by a key                     71  no terminal to draw on, no memory, ...\n"
    "  64  wrong usage or configuration, or   74  the store cannot be reached\n"
    "      there is no terminal               77  the store refused\n"
    "  69  built without ncurses\n";

static const char bench[] =
    "Usage: holdfast bench [OPTION]...\n"
    "\n"
    "Measure how fast locks are in the store: a pair of acquire and release of one\n"
    "thread, of several threads with a lock each, and how long one lock takes from\n"
    "hand to hand when all want it. The locks have names of their own, and what they\n"
    "leave in a Redis is deleted. It makes the store busy while it runs.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --seconds TIME  how long each of the three parts takes; 50ms to 1h.\n"
    "                      Default: 3\n"
    "      --threads N     how many, where there are several; 2 to 256. Default: 4\n"
    "      --json          one JSON object: store, threads, parts\n"
    "  -q, --quiet         no progress and no table: for trying whether it works\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m.\n"
    "\n"
    "The table has acquisitions a second, spans (the median, what 90 and 99 of 100 do\n"
    "not exceed, and the longest), commands for each acquisition and, of a Redis that\n"
    "lets us ask (+info), the time it spent in scripts for each: those of others who\n"
    "use it meanwhile included.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  measured                           74  the store cannot be reached\n"
    "  64  wrong usage or configuration       76  the store did not answer in time\n"
    "  71  out of memory, threads, ...        77  the store refused\n";

static const char list[] =
    "Usage: holdfast list [OPTION]... [PATTERN]\n"
    "\n"
    "List the locks that are held or waited for, and whose names match PATTERN, as in\n"
    "a shell (quote it): * is anything, ? one character, [a-z] one of these. On a\n"
    "terminal it is a table; otherwise name, state, holder, seconds held and number\n"
    "of waiting clients, a tab between them.\n"
    "\n"
    "  -S, --store URL     where the locks are kept; see holdfast --help\n"
    "      --json          show each as one JSON object, in a line; those who wait\n"
    "                      by client alone: who they are is in status --json\n"
    "  -q, --quiet         show nothing: the exit code says it\n"
    "      --verbose       say what happens\n"
    "      --help          show this\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  there are some                     74  the store cannot be reached\n"
    "   1  there are none                     77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char wait[] =
    "Usage: holdfast wait [OPTION]... NAME\n"
    "\n"
    "Wait until the lock NAME is free, and take nothing: another may take it before\n"
    "you do. A lock that goes from one to the next without a break is not seen free.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -w, --wait TIME     wait no longer than this, then exit with 1; also --timeout\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock is free                   74  the store cannot be reached\n"
    "   1  it was not free in time            77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char break_[] =
    "Usage: holdfast break [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME away from its holder, after showing who that is and asking.\n"
    "Only that holder's hold is ended; if another has the lock by then, it keeps it.\n"
    "The holder is told, but it may be at work until it has noticed.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -y, --yes           do not ask; needed where there is no terminal\n"
    "      --token N       break only the hold with this token, which status shows\n"
    "  -q, --quiet         no messages: the exit code says it\n"
    "      --verbose       say which store is used, and what happens\n"
    "      --help          show this\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  it was broken                      74  the store cannot be reached\n"
    "   1  nothing was broken                 76  it is not known whether it was\n"
    "  64  wrong usage or configuration       77  the store refused\n"
    "  71  out of memory, ...\n";

static int print_text(const char *text) {
    if (fputs(text, stdout) >= 0 && fflush(stdout) == 0) return 0;
    return fail(EXIT_SYSTEM, "cannot write the help");
}

static const struct {
    const char *word, *text;
} texts[] = {
    {"run", run},       {"acquire", acquire}, {"release", release}, {"extend", extend},
    {"status", status}, {"list", list},       {"wait", wait},       {"break", break_},
    {"doctor", doctor}, {"bench", bench},     {"top", top},
};

int help_no_subcommand(const char *word) {
    char hint[SUGGESTION_TEXT];
    suggestion near;
    suggestion_init(&near, word);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        suggestion_offer(&near, texts[i].word, strlen(texts[i].word));
    suggestion_offer(&near, "help", strlen("help"));
    suggestion_offer(&near, "--version", strlen("--version"));
    return usage_error("", "there is no subcommand %s%s", WORD(word),
                       *near.word ? suggestion_text(&near, hint)
                                  : "; to run a command: holdfast run NAME COMMAND");
}

int help_show(const char *subcommand) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(subcommand, texts[i].word) == 0) return print_text(texts[i].text);
    if (!*subcommand || strcmp(subcommand, "help") == 0) return print_text(general);
    return help_no_subcommand(subcommand);
}

/* A line that begins with options has them before two spaces, or after "also": others are of the prose. */
static void each_option_of_line(const char *line, size_t length,
                                void (*each)(void *arg, const char *option, size_t length),
                                void *arg) {
    const char *end = line + length;
    size_t indent = strspn(line, " ");
    if (!indent || line[indent] != '-') return;
    bool prose = false;
    for (const char *at = line + indent - 1; at + 2 < end; at++) {
        prose |= at[0] == ' ' && at[1] == ' ';
        if (*at != ' ' || at[1] != '-' || at[2] != '-') continue;
        if (prose && strncmp(at - strlen("also"), "also", strlen("also")) != 0) continue;
        each(arg, at + 1, strspn(at + 1, "-abcdefghijklmnopqrstuvwxyz"));
    }
}

void help_long_options(const char *subcommand,
                       void (*each)(void *arg, const char *option, size_t length), void *arg) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(subcommand, texts[i].word) != 0) continue;
        for (const char *line = texts[i].text; *line;) {
            size_t length = strcspn(line, "\n");
            each_option_of_line(line, length, each, arg);
            line += length + (line[length] == '\n');
        }
    }
}

int help_version(void) {
    char line[64];
    snprintf(line, sizeof line, "holdfast %s\n", hf_version());
    return print_text(line);
}
