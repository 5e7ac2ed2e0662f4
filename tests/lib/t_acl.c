/* SPDX-License-Identifier: Apache-2.0 */
/* See t_acl.h. */
#include "t_acl.h"

#include <stdio.h>
#include <string.h>

static const char BEGINS[] = "ACL SETUSER holdfast ";

/* The `nth` such line of the document. */
static void find_acl_line(char line[T_ACL_LINE], int nth) {
    FILE *file = fopen(T_PROTOCOL_DOC, "re");
    if (!file) t_fail("cannot read %s", T_PROTOCOL_DOC);
    char *text = NULL;
    while (nth && fgets(line, T_ACL_LINE, file)) {
        text = strstr(line, BEGINS);
        if (text) nth--;
    }
    fclose(file);
    if (nth) text = NULL;
    if (!text) t_fail("no line with `%s` in %s", BEGINS, T_PROTOCOL_DOC);
    text[strcspn(text, "\n`")] = '\0';
    memmove(line, text, strlen(text) + 1);
}

void t_acl_documented(char line[T_ACL_LINE]) {
    find_acl_line(line, 1);
}

static void run_acl_line(t_redis *redis, const char *line) {
    redisReply *reply = t_redis_cmd(redis, line);
    if (reply->type == REDIS_REPLY_ERROR) t_fail("`%s`: %s", line, reply->str);
    freeReplyObject(reply);
}

const char *t_acl_user(t_redis *redis, const char *prefix) {
    char line[T_ACL_LINE];
    t_acl_documented(line);
    run_acl_line(redis, line);
    if (prefix) {
        snprintf(line, sizeof line, "%s~%s:* &%s:c:*", BEGINS, prefix, prefix);
        run_acl_line(redis, line);
    }
    run_acl_line(redis, "ACL LOG RESET");
    return t_redis_url_as(redis, "holdfast", "PASSWORD");
}

void t_acl_user_in_cluster(t_redis *redis, const char *prefix) {
    char line[T_ACL_LINE];
    (void)t_acl_user(redis, prefix);
    find_acl_line(line, t_redis_knows(redis, "ssubscribe") ? 2 : 3);
    run_acl_line(redis, line);
    snprintf(line, sizeof line, "%s&%s:*", BEGINS, prefix);
    run_acl_line(redis, line);
}

/* The value of one field of an entry of ACL LOG. */
static const char *get_log_field(const redisReply *entry, const char *name) {
    for (size_t i = 0; i + 1 < entry->elements; i += 2)
        if (!strcmp(entry->element[i]->str, name)) return entry->element[i + 1]->str;
    return "";
}

void t_acl_none_refused(t_redis *redis) {
    redisReply *log = t_redis_cmd(redis, "ACL LOG");
    for (size_t i = 0; i < log->elements; i++) {
        if (!strcmp(get_log_field(log->element[i], "reason"), "auth"))
            continue; /* a wrong password */
        t_fail("a user was denied the %s %s", get_log_field(log->element[i], "reason"),
               get_log_field(log->element[i], "object"));
    }
    freeReplyObject(log);
}
