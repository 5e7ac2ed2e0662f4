/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/channels.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "holdfast.h"
#include "store/redis/protocol/command.h"

#define LINGER (30 * HF__SEC) /* a waiter rechecks at least every 10 s, which renews its interest */
#define TIDY   (10 * HF__SEC)
#define SUFFIX ":c:"

typedef enum channel_state { WANTED, SUBSCRIBING, SUBSCRIBED, UNSUBSCRIBING, GONE } channel_state;

struct hf__channel {
    hf__mapped mapped; /* key: the channel, stored behind the name */
    hf__channel *next, *prev;
    channel_state state;
    bool changed;
    bool wanted_again;   /* UNSUBSCRIBING: a new waiter has come meanwhile */
    uint64_t request_id; /* SUBSCRIBING: order of the requests */
    hf__time used;
    size_t length; /* of the name */
    char name[];
};

void hf__channels_init(hf__channels *c, const char *prefix, const char *client, uint64_t seed) {
    *c = (hf__channels){.prefix = prefix, .client = client, .tidy_at = HF__NEVER};
    hf__map_init(&c->names, seed);
}

static void set_state(hf__channels *c, hf__channel *ch, channel_state state) {
    if (ch->state == WANTED) c->wanted--;
    if (state == WANTED) c->wanted++;
    ch->state = state;
}

static void mark_changed(hf__channels *c, hf__channel *ch) {
    if (!ch->changed) c->changed_count++;
    ch->changed = true;
}

static void unlink_channel(hf__channels *c, hf__channel *ch) {
    if (ch->prev)
        ch->prev->next = ch->next;
    else
        c->first = ch->next;
    if (ch->next) ch->next->prev = ch->prev;
}

/* The channel is no longer used. It is freed when its last change has been reported. */
static void drop_channel(hf__channels *c, hf__channel *ch) {
    if (ch->state != GONE) hf__map_remove(&c->names, &ch->mapped);
    set_state(c, ch, GONE);
    if (ch->changed) return;
    unlink_channel(c, ch);
    free(ch);
}

void hf__channels_fini(hf__channels *c) {
    for (hf__channel *ch = c->first, *next; ch; ch = next) {
        next = ch->next;
        if (ch->state != GONE) hf__map_remove(&c->names, &ch->mapped);
        free(ch);
    }
    free(c->last_changed);
    hf__map_fini(&c->names);
}

/* ---- Lookup by name ---- */

static size_t channel_length(const hf__channels *c, const char *name, size_t length) {
    return hf__key_length(c->prefix, name, length, SUFFIX) + strlen(c->client);
}

static void write_channel(const hf__channels *c, char *at, const char *name, size_t length) {
    at = hf__key_put(at, c->prefix, name, length, SUFFIX);
    memcpy(at, c->client, strlen(c->client));
}

static hf__channel *channel_of(hf__mapped *m) {
    return m ? (hf__channel *)((char *)m - offsetof(hf__channel, mapped)) : NULL;
}

#define TEXT_MAX (HF__REPLY_TEXT / 4)

static hf__channel *find_channel(const hf__channels *c, const char *name, size_t length) {
    char text[TEXT_MAX];
    size_t size = channel_length(c, name, length);
    if (!c->names.count || size > sizeof text) return NULL;
    write_channel(c, text, name, length);
    return channel_of(hf__map_find(&c->names, text, size));
}

static hf__channel *add_channel(hf__channels *c, const char *name, size_t length) {
    size_t size = channel_length(c, name, length);
    if (c->names.count == HF__CHANNELS_MAX || size > TEXT_MAX) return NULL;
    hf__channel *ch = calloc(1, sizeof *ch + length + size);
    if (!ch) return NULL;
    memcpy(ch->name, name, length);
    ch->length = length;
    write_channel(c, ch->name + length, name, length);
    ch->mapped.key = ch->name + length;
    ch->mapped.length = size;
    hf__map_add(&c->names, &ch->mapped);
    ch->next = c->first;
    if (c->first) c->first->prev = ch;
    c->first = ch;
    c->wanted++;
    if (c->tidy_at == HF__NEVER) c->tidy_at = 0;
    return ch;
}

void hf__channels_want(hf__channels *c, const char *name, size_t length, hf__time now) {
    hf__channel *ch = find_channel(c, name, length);
    if (!ch) ch = add_channel(c, name, length);
    if (!ch) return;
    ch->used = now;
    if (ch->state == UNSUBSCRIBING) ch->wanted_again = true;
}

bool hf__channels_subscribed(const hf__channels *c, const char *name, size_t length) {
    const hf__channel *ch = find_channel(c, name, length);
    return ch && ch->state == SUBSCRIBED;
}

/* ---- Sending ---- */

static void send_command(const hf__channels *c, hf__channel *ch, hf__buffer *out, const char *shard,
                         const char *plain) {
    hf__command_begin(out, 2);
    hf__command_string(out, c->plain ? plain : shard);
    hf__command_bytes(out, ch->mapped.key, ch->mapped.length);
}

static void send_subscribe(hf__channels *c, hf__channel *ch, hf__buffer *out) {
    size_t before = out->length;
    send_command(c, ch, out, "SSUBSCRIBE", "SUBSCRIBE");
    if (out->failed) {
        hf__buffer_cut(out, before);
        drop_channel(c, ch); /* waiters poll instead */
        return;
    }
    ch->request_id = ++c->request_count;
    set_state(c, ch, SUBSCRIBING);
}

static void send_unsubscribe(hf__channels *c, hf__channel *ch, hf__buffer *out) {
    size_t before = out->length;
    send_command(c, ch, out, "SUNSUBSCRIBE", "UNSUBSCRIBE");
    if (out->failed) {
        hf__buffer_cut(out, before);
        return;
    }
    ch->wanted_again = false;
    set_state(c, ch, UNSUBSCRIBING);
}

void hf__channels_send(hf__channels *c, hf__buffer *out, hf__time now) {
    bool tidy = now >= c->tidy_at;
    if (!c->wanted && !tidy) return;
    for (hf__channel *ch = c->first, *next; ch; ch = next) {
        next = ch->next;
        bool unused = now - ch->used > LINGER;
        if (ch->state == WANTED && unused)
            drop_channel(c, ch);
        else if (ch->state == WANTED)
            send_subscribe(c, ch, out);
        else if (ch->state == SUBSCRIBED && tidy && unused)
            send_unsubscribe(c, ch, out);
    }
    if (tidy) c->tidy_at = c->names.count ? now + TIDY : HF__NEVER;
}

hf__time hf__channels_due(const hf__channels *c) {
    return c->wanted ? 0 : c->tidy_at;
}

/* ---- Receiving ---- */

static void note_unsubscribed(hf__channels *c, hf__channel *ch) {
    if (ch->state == UNSUBSCRIBING && ch->wanted_again) {
        set_state(c, ch, WANTED);
        return;
    }
    if (ch->state == SUBSCRIBED)
        mark_changed(c, ch); /* unsolicited: the slot has moved to another node */
    drop_channel(c, ch);
}

bool hf__channels_push(hf__channels *c, const hf__reply *r) {
    const char *kind = r->type == REDIS_REPLY_ARRAY ? hf__reply_text(r, 0) : NULL;
    const char *text = kind ? hf__reply_text(r, 1) : NULL;
    if (!kind) return false;
    bool come = !strcmp(kind, "ssubscribe") || !strcmp(kind, "subscribe");
    bool gone = !strcmp(kind, "sunsubscribe") || !strcmp(kind, "unsubscribe");
    if (!come && !gone) return false;
    hf__channel *ch = text ? channel_of(hf__map_find(&c->names, text, r->item[1].length)) : NULL;
    if (ch && gone) {
        note_unsubscribed(c, ch);
    } else if (ch && ch->state == SUBSCRIBING) {
        set_state(c, ch, SUBSCRIBED);
        mark_changed(c, ch);
    }
    return true;
}

static hf__channel *find_oldest_request(const hf__channels *c) {
    hf__channel *oldest = NULL;
    for (hf__channel *ch = c->first; ch; ch = ch->next)
        if (ch->state == SUBSCRIBING && (!oldest || ch->request_id < oldest->request_id))
            oldest = ch;
    return oldest;
}

static bool lacks_shards(const char *error) {
    return strstr(error, "unknown command") || !strncmp(error, "NOPERM", 6);
}

bool hf__channels_error(hf__channels *c, const char *error, hf__log *log) {
    hf__channel *ch = find_oldest_request(c);
    if (!ch) return false;
    if (lacks_shards(error) && !c->plain) {
        c->plain = true;
        for (hf__channel *each = c->first; each; each = each->next)
            if (each->state == SUBSCRIBING) set_state(c, each, WANTED);
        return true;
    }
    hf__log_add(log, strncmp(error, "NOPERM", 6) ? HF_LOG_DEBUG : HF_LOG_WARNING,
                "waiters for %.*s get no notifications and poll instead: %.120s", (int)ch->length,
                ch->name, error);
    drop_channel(c, ch);
    return true;
}

void hf__channels_disconnected(hf__channels *c) {
    c->plain = false; /* the next connection may be to another server */
    for (hf__channel *ch = c->first, *next; ch; ch = next) {
        next = ch->next;
        if (ch->state == SUBSCRIBED) mark_changed(c, ch);
        if (ch->state == UNSUBSCRIBING && !ch->wanted_again)
            drop_channel(c, ch);
        else if (ch->state != GONE)
            set_state(c, ch, WANTED);
    }
}

/* ---- Reporting changes ---- */

const char *hf__channels_next_changed(hf__channels *c, size_t *length) {
    free(c->last_changed);
    c->last_changed = NULL;
    hf__channel *ch = c->changed_count ? c->first : NULL;
    while (ch && !ch->changed) ch = ch->next;
    if (!ch) return NULL;
    c->changed_count--;
    ch->changed = false;
    *length = ch->length;
    if (ch->state != GONE) return ch->name;
    unlink_channel(c, ch);
    c->last_changed = ch;
    return ch->name;
}
