/* SPDX-License-Identifier: Apache-2.0 */
#include "b_plain.h"

#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "b_report.h"

#define END "the pair is over"

/* ---- Commands of the library ---- */

/* The commands are sent during the whole run, so their lease must not expire. */
static void pair_of_the_library(b_transport transport, const char *name) {
    hf_client_options options = {.command_timeout_ms = 86400000};
    hf_client *client;
    hf_hold *hold;
    if (hf_open(b_redis_url(transport), &options, &client) != HF_OK ||
        hf_acquire(client, name, NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
    hf_close(client);
}

/* Reads the quoted words of a line of MONITOR: `1700000000.123456 [0 127.0.0.1:1234] "EVALSHA"
   "…"`. */
static b_command parse_command(const char *line) {
    b_command command = {0};
    if (strchr(line, '\\')) b_fail("a command has more than plain text: %s", line);
    for (const char *from = strchr(line, '"'), *to; from; from = strchr(to + 1, '"')) {
        to = strchr(from + 1, '"');
        if (!to || command.count == B_ARGS_MAX)
            b_fail("cannot parse this line of MONITOR: %s", line);
        size_t length = (size_t)(to - from - 1);
        command.args[command.count] = strndup(from + 1, length);
        if (!command.args[command.count]) b_fail("out of memory");
        command.lengths[command.count++] = length;
    }
    return command;
}

/* Captures the two scripts that use the name. A client is registered by a script on another key. */
static void capture_commands(redisContext *monitor, const char *name, b_plain *p) {
    char key[128];
    snprintf(key, sizeof key, "{%s}", name);
    b_command *found[] = {&p->acquire, &p->release};
    for (size_t count = 0;;) {
        redisReply *line;
        if (redisGetReply(monitor, (void **)&line) != REDIS_OK) b_fail("%s", monitor->errstr);
        bool over = strstr(line->str, END);
        bool ours = strstr(line->str, "] \"EVALSHA\"") && strstr(line->str, key);
        if (ours && count < 2) *found[count] = parse_command(line->str);
        count += ours;
        freeReplyObject(line);
        if (!over) continue;
        if (count != 2) b_fail("a pair is %zu commands, not 2", count);
        return;
    }
}

/* ---- The pair ---- */

/* Checks that the two commands do what they did for the library. */
static void check_pair(b_plain *p) {
    b_command exists = b_command_make((const char *[]){"EXISTS", p->acquire.args[3], NULL});
    (void)b_command_run(p->c, &p->acquire);
    if (b_command_run(p->c, &exists) != 1) b_fail("the recorded acquire took no lock");
    (void)b_command_run(p->c, &p->release);
    if (b_command_run(p->c, &exists) != 0) b_fail("the recorded release released no lock");
    b_command_fini(&exists);
}

void b_plain_init(b_plain *p, b_transport transport, const char *name) {
    redisContext *monitor = b_redis_connect(B_UNIX);
    pair_of_the_library(transport, name); /* the first pair loads the scripts */
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    pair_of_the_library(transport, name);
    p->c = b_redis_connect(transport);
    freeReplyObject(redisCommand(p->c, "ECHO %s", END));
    capture_commands(monitor, name, p);
    redisFree(monitor);
    check_pair(p);
}

void b_plain_fini(b_plain *p) {
    b_command_fini(&p->acquire);
    b_command_fini(&p->release);
    redisFree(p->c);
}

/* A refusal is 0, or a list that begins with 0 or 2. */
void b_plain_pair(void *plain) {
    b_plain *p = plain;
    long long acquired = b_command_run(p->c, &p->acquire);
    if (acquired == 0 || acquired == 2) b_fail("the recorded acquire took no lock");
    if (b_command_run(p->c, &p->release) != 1) b_fail("the recorded release released no lock");
}
