/* SPDX-License-Identifier: Apache-2.0 */
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
    "  acquire  take the lock NAME for work that spans several processes\n"
    "  release  release a lock that acquire has taken\n"
    "  extend   extend the lease of a lock taken by acquire --no-renew\n"
    "  status   show who holds the lock NAME and who waits for it\n"
    "  list     list the locks in use\n"
    "  wait     wait until the lock NAME is free, without taking it\n"
    "  break    take the lock NAME away from its holder\n"
    "  top      watch the locks in use, on a terminal\n"
    "  doctor   check whether the store is suitable for locks\n"
    "  bench    measure the speed of locks in the store\n"
    "  help     explain a subcommand: holdfast help run\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Locks are kept in a store. The command uses the first of these that is set:\n"
    "\n"
    "  -S URL, --store URL\n"
    "  $HOLDFAST_URL\n"
    "  the line `store = URL` in ~/.config/holdfast, then in /etc/holdfast.conf\n"
    "\n"
    "If none is set, it uses file: with the locks of this user on this machine.\n"
    "\n"
    "Stores: file:  file:///DIRECTORY  redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]\n"
    "        rediss://HOST (TLS)  redis+unix:///SOCKET  memory: (for tests)\n"
    "        redis+sentinel://HOST[:PORT],HOST…/NAME (the primary with that name)\n"
    "        redis+quorum://HOST,HOST,HOST (a majority of the servers decides)\n"
    "        redis+cluster://HOST[:PORT],HOST… (the primaries of a cluster)\n"
    "        redis://HOST?password_file=FILE&lease=1m (options: see holdfast(1))\n"
    "\n"
    "Example: holdfast run -n -S redis://locks nightly-report ./report.sh\n";

static const char run[] =
    "Usage: holdfast run [OPTION]... NAME [--] COMMAND [ARG]...\n"
    "       holdfast run [OPTION]... NAME -c 'SHELL COMMAND'\n"
    "       holdfast run [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME, waiting for it if necessary, and run COMMAND while holding\n"
    "it. Without COMMAND, hold the lock until SIGINT, SIGTERM or SIGHUP.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -n, --nonblock      do not wait: exit with 1 if the lock is held\n"
    "  -w, --wait TIME     wait at most this long, then exit with 1; also --timeout\n"
    "  -E, --conflict-exit-code N\n"
    "                      exit with N instead of 1; 0 to 255\n"
    "  -c, --command STRING\n"
    "                      run STRING with $SHELL -c; can be given after NAME too\n"
    "  -s, --shared        share the lock with other holders that use --shared\n"
    "                      (readers); all others wait until every reader is done\n"
    "  -x, --exclusive     exclude all others; this is the default\n"
    "      --permits N/M   take N of M permits. Holders run at the same time as long\n"
    "                      as permits are left. All must give the same M. M alone\n"
    "                      means 1/M.\n"
    "      --also NAME     take this lock too, in the same mode. Either all locks are\n"
    "                      taken or none, and deadlock is impossible. Up to 63 times.\n"
    "      --lease TIME    the store drops the lock this long after its last renewal.\n"
    "                      It is renewed three times per lease. 50ms to 720h.\n"
    "                      Default: the lease in the URL, else 30s; 720h on file:\n"
    "      --grace TIME    the time from SIGTERM to SIGKILL for COMMAND when the lock\n"
    "                      is about to be lost; at most half the lease.\n"
    "                      Default: 5s, or a third of the lease if that is shorter.\n"
    "                      It is never more than half of --max-hold.\n"
    "      --min-hold TIME\n"
    "                      hold the lock for at least this long, even if COMMAND ends\n"
    "                      sooner. So a machine whose clock is behind does not run a\n"
    "                      short job a second time. A signal ends the hold early.\n"
    "      --max-hold TIME\n"
    "                      hold the lock for at most this long. COMMAND gets SIGTERM\n"
    "                      when only --grace is left, and SIGKILL at the end. The\n"
    "                      exit code is then 75.\n"
    "      --on-lost WHAT  what to do if the lock is lost. If WHAT is a signal (INT,\n"
    "                      SIGUSR1, 10), COMMAND gets it instead of SIGTERM. If WHAT\n"
    "                      is `continue`, COMMAND continues without the lock, and its\n"
    "                      exit code is used. Any other WHAT is a CMD to run. You can\n"
    "                      give the option twice: with a CMD, and with a signal or\n"
    "                      `continue`.\n"
    "      --on-wait CMD   run CMD when the wait for the lock starts\n"
    "      --on-acquire CMD\n"
    "                      run CMD when the lock is acquired\n"
    "      --label TEXT    a text that is shown to everyone who looks at the lock.\n"
    "                      Default: the label in the URL, else the first words of\n"
    "                      COMMAND, without anything that could be a secret\n"
    "      --json FD       write events to this file descriptor as JSON objects, one\n"
    "                      per line: waiting, acquired, started, lost, ended,\n"
    "                      released, failed\n"
    "      --metrics FILE  write the counters of this run to FILE as OpenMetrics:\n"
    "                      when the lock is acquired, and at the end\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "COMMAND runs in its own process group and receives the signals that are sent to\n"
    "this process. If the lock is lost or this process is killed, the whole group is\n"
    "ended. Processes that have left the group continue. COMMAND has these variables\n"
    "in its environment:\n"
    "\n"
    "  HOLDFAST_NAME    the name of the lock\n"
    "  HOLDFAST_FENCE   the fencing token, which grows with every new holder. The\n"
    "                   resource that COMMAND writes to should reject lower tokens.\n"
    "  HOLDFAST_NAME_2  and HOLDFAST_FENCE_2: the same for the first --also, etc.\n"
    "  HOLDFAST_STORE   the URL of the store, without user and password\n"
    "\n"
    "CMD runs with $SHELL -c at the same time as COMMAND. At the end of the run it\n"
    "has 5 seconds to finish and is then killed. Its output goes to standard error.\n"
    "It has the same variables, and:\n"
    "\n"
    "  HOLDFAST_EVENT   wait, acquire or lost\n"
    "  HOLDFAST_WHY     why the lock was lost\n"
    "\n"
    "If this process is killed, COMMAND gets SIGKILL at once, without SIGTERM and\n"
    "--grace. If this process is stopped, COMMAND gets SIGKILL before the lock is\n"
    "lost.\n"
    "\n"
    "Exit codes: the exit code of COMMAND, or 128 plus the number of the signal that\n"
    "ended it; otherwise\n"
    "\n"
    "   1  the lock is held by another        74  the store cannot be reached\n"
    "  64  wrong usage or configuration       75  the lock was lost\n"
    "  69  COMMAND cannot be run              76  the store did not answer in time\n"
    "  71  out of memory, processes, ...      77  the store refused\n";

static const char acquire[] =
    "Usage: holdfast acquire -o HANDLE [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME, waiting for it if necessary, and keep it after this command\n"
    "has ended: for work that spans several processes. The file HANDLE is created,\n"
    "and holdfast release uses it to release the lock. The fencing token is printed.\n"
    "\n"
    "One of these options is required. It sets when the lock ends if nobody releases\n"
    "the lock:\n"
    "\n"
    "      --while-pid PID\n"
    "                      a helper process holds and renews the lock while the\n"
    "                      process PID runs; $$ is the current shell\n"
    "      --detach        a helper process holds and renews it until --max-hold ends;\n"
    "                      requires --max-hold\n"
    "      --no-renew      no helper process: the lock ends with its --lease; requires\n"
    "                      --lease. Not possible on file: or on a quorum\n"
    "\n"
    "  -o, --handle FILE   the handle: a file to create\n"
    "      --max-hold TIME\n"
    "                      the helper process holds the lock for at most this long\n"
    "      --lease TIME    the store drops the lock this long after it was taken or\n"
    "                      last renewed; 50ms to 720h. Default: the lease in the URL,\n"
    "                      else 30s; 720h on file:\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -n, --nonblock      do not wait: exit with 1 if the lock is held\n"
    "  -w, --wait TIME     wait at most this long, then exit with 1; also --timeout\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Unlike holdfast run, acquire does not end the work when the lock is lost. The\n"
    "protected resource should reject lower tokens. If the helper process is killed,\n"
    "the lock is free at once on file:, and after a lease on Redis.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock is held                   74  the store cannot be reached\n"
    "   1  the lock is held by another        76  the store did not answer in time\n"
    "  64  wrong usage or configuration       77  the store refused\n"
    "  71  out of memory, processes, ...\n";

static const char release[] =
    "Usage: holdfast release [OPTION]... HANDLE\n"
    "\n"
    "Release a lock that holdfast acquire has taken, and remove the file HANDLE. The\n"
    "file is removed too if the lock was no longer held.\n"
    "\n"
    "  -S, --store URL     where the lock is kept. Default: the store in HANDLE. If\n"
    "                      $HOLDFAST_URL or the configuration names the same store,\n"
    "                      its user and password are used.\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock was released              75  the lock was no longer held\n"
    "  64  wrong usage, or no such handle     76  unknown if the lock was released\n"
    "  71  out of memory, ...                 77  the store refused\n"
    "  74  the store cannot be reached\n";

static const char extend[] =
    "Usage: holdfast extend [OPTION]... HANDLE\n"
    "\n"
    "Extend a lock that holdfast acquire --no-renew has taken: its lease starts again\n"
    "now. A lease is never made shorter.\n"
    "\n"
    "      --lease TIME    the new lease. Default: the lease that acquire was given\n"
    "  -S, --store URL     where the lock is kept; see holdfast release --help\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock was extended              75  the lock was no longer held\n"
    "  64  wrong usage, or no such handle     76  the store did not answer in time\n"
    "  71  out of memory, ...                 77  the store refused\n"
    "  74  the store cannot be reached\n";

static const char status[] =
    "Usage: holdfast status [OPTION]... NAME\n"
    "\n"
    "Show the holder of the lock NAME, how long it has been held, the waiters in\n"
    "order, and the store.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "      --all           show up to 64 waiters on a terminal, instead of 10\n"
    "      --json          print one JSON object on one line\n"
    "  -q, --quiet         print nothing; the exit code tells the result\n"
    "      --verbose       print what happens\n"
    "      --help          show this help\n"
    "\n"
    "On Redis a waiter that was killed is shown for up to a minute. It does not delay\n"
    "the others.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock is held                   74  the store cannot be reached\n"
    "   1  the lock is free                   77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char doctor[] =
    "Usage: holdfast doctor [OPTION]...\n"
    "\n"
    "Check whether the store is suitable for locks. Each finding says what it means\n"
    "for locks and what to change. These things are checked:\n"
    "\n"
    "  Redis    version, role, replicas, persistence, eviction, connections, clock,\n"
    "           rights of the user, latency\n"
    "  quorum   which nodes vote\n"
    "  file:    the directory, its filesystem and the free space\n"
    "\n"
    "The lock holdfast-doctor is taken and released. Nothing else is changed.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --json          print one JSON object: store, level, findings, latency_us\n"
    "  -q, --quiet         print nothing; the exit code tells the result\n"
    "      --help          show this help\n"
    "\n"
    "Levels are ok, note, warning and error. On a terminal they are coloured, unless\n"
    "NO_COLOR is set.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  no warnings and no errors          64  wrong usage or configuration\n"
    "   1  there are warnings                 71  out of memory, ...\n"
    "   2  there are errors: locks cannot be taken, or are at risk\n";

static const char top[] =
    "Usage: holdfast top [OPTION]... [PATTERN]\n"
    "\n"
    "Watch the locks in use: how long they are held, by whom, how many clients wait,\n"
    "and how often they change hands. PATTERN is a shell pattern for their names;\n"
    "quote it. top needs a terminal.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --interval TIME\n"
    "                      how often the screen is updated; 100ms to 1h. Default: 1s\n"
    "      --sort ORDER    waiting, held, handovers or name. Default: waiting\n"
    "  -q, --quiet         print no messages at the end\n"
    "      --verbose       print which store is used\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m.\n"
    "\n"
    "The keys are:\n"
    "\n"
    "  Up, Down   select a lock; PgUp, PgDn, Home and End move further\n"
    "  Enter      show the holder of the selected lock, and the waiters in order\n"
    "  s          sort by the next column\n"
    "  r          reverse the order\n"
    "  /          show only names that contain a text\n"
    "  Space      pause or continue\n"
    "  ?          help\n"
    "  Esc        go back; from the table, quit\n"
    "  q          quit\n"
    "\n"
    "Hand-overs are counted by polling the store, at most ten times a second. A +\n"
    "after the number means that there may be more. NO_COLOR turns colours off.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  ended by a key                     71  unusable terminal, no memory, ...\n"
    "  64  wrong usage, or no terminal        74  the store cannot be reached\n"
    "  69  built without ncurses              77  the store refused\n";

static const char bench[] =
    "Usage: holdfast bench [OPTION]...\n"
    "\n"
    "Measure the speed of locks in the store. There are three parts: one thread with\n"
    "one lock, several threads with a lock each, and several clients that compete for\n"
    "one lock. The names of the locks are unique, and their keys in Redis are deleted\n"
    "at the end. The store is busy while this runs.\n"
    "\n"
    "  -S, --store URL     which store; see holdfast --help\n"
    "      --seconds TIME  how long each of the three parts runs; 50ms to 1h.\n"
    "                      Default: 3s\n"
    "      --threads N     number of threads in the second and third part; 2 to 256.\n"
    "                      Default: 4\n"
    "      --json          print one JSON object: store, threads, parts\n"
    "  -q, --quiet         print no progress and no table: only test that it works\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m.\n"
    "\n"
    "The columns of the table are:\n"
    "\n"
    "  per sec    acquisitions per second\n"
    "  median     the median of the times, then the 90th and 99th percentile and the\n"
    "             maximum\n"
    "  commands   commands per acquisition\n"
    "  server     the time that the server spent in scripts, per acquisition. This\n"
    "             needs the right +info on Redis, and includes the scripts of other\n"
    "             clients.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  measured                           74  the store cannot be reached\n"
    "  64  wrong usage or configuration       76  the store did not answer in time\n"
    "  71  out of memory, threads, ...        77  the store refused\n";

static const char list[] =
    "Usage: holdfast list [OPTION]... [PATTERN]\n"
    "\n"
    "List the locks that are held or waited for. PATTERN is a shell pattern for their\n"
    "names (quote it): * matches any text, ? one character, [a-z] one of these. On a\n"
    "terminal the output is a table. Otherwise each line has the name, state, holder,\n"
    "seconds held and number of waiters, separated by tabs.\n"
    "\n"
    "  -S, --store URL     where the locks are kept; see holdfast --help\n"
    "      --json          print one JSON object per lock, each on its own line. It\n"
    "                      has only the client ids of waiters; status --json has\n"
    "                      more.\n"
    "  -q, --quiet         print nothing; the exit code tells the result\n"
    "      --verbose       print what happens\n"
    "      --help          show this help\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  there are locks                    74  the store cannot be reached\n"
    "   1  there are no locks                 77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char wait[] =
    "Usage: holdfast wait [OPTION]... NAME\n"
    "\n"
    "Wait until the lock NAME is free, without taking it: another may take it before\n"
    "you do. A lock that passes directly from one holder to the next does not count\n"
    "as free.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -w, --wait TIME     wait at most this long, then exit with 1; also --timeout\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "TIME is in seconds (5, 0.5) or has a unit: 500ms, 30s, 5m, 2h.\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock is free                   74  the store cannot be reached\n"
    "   1  the lock was not free in time      77  the store refused\n"
    "  64  wrong usage or configuration       71  out of memory, ...\n";

static const char break_[] =
    "Usage: holdfast break [OPTION]... NAME\n"
    "\n"
    "Take the lock NAME away from its holder. The holder is shown first, and you are\n"
    "asked to confirm. Only this holder can lose the lock: if another holder has\n"
    "taken it in the meantime, nothing is broken. The holder is notified, but may\n"
    "continue to work until it notices.\n"
    "\n"
    "  -S, --store URL     where the lock is kept; see holdfast --help\n"
    "  -y, --yes           do not ask; required without a terminal\n"
    "      --token N       break the lock only if it has this token; status shows it\n"
    "  -q, --quiet         print no messages; the exit code tells the result\n"
    "      --verbose       print which store is used and what happens\n"
    "      --help          show this help\n"
    "\n"
    "Exit codes:\n"
    "\n"
    "   0  the lock was broken                74  the store cannot be reached\n"
    "   1  nothing was broken                 76  unknown if the lock was broken\n"
    "  64  wrong usage or configuration       77  the store refused\n"
    "  71  out of memory, ...\n";

static int print_text(const char *text) {
    if (fputs(text, stdout) >= 0 && fflush(stdout) == 0) return 0;
    return fail(EXIT_SYSTEM, "cannot write to standard output");
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
    return usage_error("", "unknown subcommand %s%s", WORD(word),
                       *near.word ? suggestion_text(&near, hint)
                                  : "; to run a command, use holdfast run NAME COMMAND");
}

int help_show(const char *subcommand) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(subcommand, texts[i].word) == 0) return print_text(texts[i].text);
    if (!*subcommand || strcmp(subcommand, "help") == 0) return print_text(general);
    return help_no_subcommand(subcommand);
}

/* In an option line, options stand before two spaces or after "also". Other words with dashes are
   text. */
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
