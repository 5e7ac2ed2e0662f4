/* SPDX-License-Identifier: Apache-2.0 */
/* Latches and leader values in sidecar files. The acquire ids of completed operations are not
   remembered. Other stores remember them because an answer can be lost. Here each operation is one
   call of this process, and no answer can be lost. */
#include "store/file/latch_leader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/sidecar.h"
#include "store/lock_state/token.h"

#define TOUCH_EVERY_S 3600 /* seconds: a latch that clients wait for counts as used */

/* The bodies of the files. */
typedef struct latch_body {
    uint64_t round, done, left;
} latch_body;

typedef struct leader_body {
    uint64_t token, nth;
    char value[HF_VALUE_MAX];
} leader_body;

_Static_assert(sizeof(leader_body) <= HF__SIDECAR_BODY_MAX,
               "a leader's value fits into a sidecar file");

static hf_result report_damaged(const hf__sidecar *s, char **detail) {
    *detail = hf__line("%s/%s is damaged; remove the file when no program uses it", s->file.path,
                       s->file.name);
    return HF_PROTOCOL;
}

/* ---- Latches ---- */

static hf_result read_latch(hf__sidecar *s, latch_body *body, char **detail) {
    char bytes[HF__SIDECAR_BODY_MAX];
    size_t length;
    hf_result r = hf__sidecar_read(s, bytes, &length, detail);
    if (r == HF_BUSY && s->fd >= 0) return report_damaged(s, detail);
    if (r == HF_BUSY) return HF_UNREACHABLE; /* another process is writing it */
    if (r) return r;
    if (length != sizeof *body) return report_damaged(s, detail);
    memcpy(body, bytes, sizeof *body);
    return HF_OK;
}

static void fill_answer(hf__op *op, const latch_body *body) {
    op->latch->left = (uint32_t)body->left;
    op->latch->round = body->round;
    op->latch->last_done = body->done;
}

/* The mtime is the time of the last use. It is set under the lock, because the sweep also checks it
   under the lock. */
static void touch_latch(hf__sidecar *s) {
    struct stat st;
    char *detail = NULL;
    if (fstatat(s->file.directory, s->file.name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (time(NULL) - st.st_mtim.tv_sec < TOUCH_EVERY_S) return;
    if (hf__sidecar_lock(s, false, &detail) == HF_OK) (void)futimens(s->fd, NULL);
    hf__sidecar_close(s);
    free(detail);
}

static hf_result change_latch(hf__sidecar *s, hf__op *op, latch_body *body) {
    bool set = op->verb == HF__LATCH_SET;
    hf_result r = read_latch(s, body, &op->detail);
    if (set && r == HF_NOT_HELD) r = HF_OK;
    if (r) return r;
    uint32_t count = op->latch->count;
    if (set) {
        body->round = hf__token_next(body->round, 0, hf__unix_us());
        body->left = count;
    } else {
        body->left = body->left > count ? body->left - count : 0;
    }
    if (!body->left) body->done = body->round;
    return hf__sidecar_write(s, body, sizeof *body, &op->detail);
}

hf_result hf__file_latch(int directory, const char *path, const char *key, size_t length,
                         hf__op *op) {
    hf__sidecar s;
    latch_body body = {0};
    hf_result r;
    hf__sidecar_init(&s, directory, path, HF__LATCH_START, key, length);
    op->retry_ms = HF__LATCH_RETRY_MS;
    if (op->verb == HF__LATCH_GET) {
        r = read_latch(&s, &body, &op->detail);
        if (!r) touch_latch(&s);
    } else {
        r = hf__sidecar_lock(&s, op->verb == HF__LATCH_SET, &op->detail);
        if (!r) r = change_latch(&s, op, &body);
        hf__sidecar_close(&s);
    }
    if (!r) fill_answer(op, &body);
    return r;
}

/* ---- Leaders ---- */

static hf_result read_leader(hf__sidecar *s, leader_body *body, size_t *length, char **detail) {
    char bytes[HF__SIDECAR_BODY_MAX];
    size_t all, least = offsetof(leader_body, value);
    hf_result r = hf__sidecar_read(s, bytes, &all, detail);
    if (r) return r;
    if (all < least || all > sizeof *body) return report_damaged(s, detail);
    memcpy(body, bytes, all);
    *length = all - least;
    return HF_OK;
}

/* A holder may lose the lock while it is paused just before this. It must not overwrite the value
   of its successor. */
static bool is_outdated(const leader_body *stored, const hf__op *op) {
    return stored->token > op->token ||
           (stored->token == op->token && stored->nth >= op->leader_value->sequence);
}

hf_result hf__file_proclaim(int directory, const char *path, const char *key, size_t length,
                            hf__op *op) {
    hf__sidecar s;
    leader_body body = {0};
    size_t value_length;
    hf__sidecar_init(&s, directory, path, HF__LEAD_START, key, length);
    hf_result r = hf__sidecar_lock(&s, true, &op->detail);
    if (!r) r = read_leader(&s, &body, &value_length, &op->detail);
    if (!r && is_outdated(&body, op)) {
        hf__sidecar_close(&s);
        return body.token > op->token ? HF_LOST : HF_OK;
    }
    /* cut short by a writer that died: ignore it */
    if (r == HF_NOT_HELD || r == HF_BUSY) r = HF_OK;
    body.token = op->token;
    body.nth = op->leader_value->sequence;
    memcpy(body.value, op->leader_value->value, op->leader_value->length);
    if (!r)
        r = hf__sidecar_write(&s, &body, offsetof(leader_body, value) + op->leader_value->length,
                              &op->detail);
    hf__sidecar_close(&s);
    return r;
}

hf_result hf__file_leader_value(int directory, const char *path, const char *key, size_t length,
                                uint64_t token, hf__op *op) {
    hf__sidecar s;
    leader_body body;
    size_t value_length;
    hf__sidecar_init(&s, directory, path, HF__LEAD_START, key, length);
    hf_result r = read_leader(&s, &body, &value_length, &op->detail);
    if (r == HF_BUSY) return HF_NOT_HELD; /* being written, or cut short: there is no value yet */
    if (r) return r;
    if (body.token != token) return HF_NOT_HELD;
    op->leader_value->sequence = body.nth;
    op->leader_value->length = (uint32_t)value_length;
    memcpy(op->leader_value->value, body.value, value_length);
    op->leader_value->value[value_length] = '\0';
    return HF_OK;
}
