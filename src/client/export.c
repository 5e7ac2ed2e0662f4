/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported holds: holds that leave their process.
 *
 * In the store such a hold belongs to the id of a client that does not exist. Any process that has
 * that id and the token can take it over. They travel in a text, the handle:
 *
 *     hf1:<client>:<token>:<lease in ms>:<name, with special bytes as %2F>
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/acquire.h"
#include "client/exchange.h"
#include "client/hold.h"
#include "client/options.h"

#define START       "hf1:"
#define ENCODED_MAX (3 * HF_NAME_MAX + 1)

/* Others can see who exported a hold for this long after its lease. */
#define KNOWN_MS INT64_C(86400000)

_Static_assert(sizeof START + HF__UUID_LENGTH + HF__DIGITS + HF__DIGITS + 3 + ENCODED_MAX <=
                   HF_EXPORT_MAX,
               "any name fits");

/* A handle text, parsed. */
typedef struct parsed_handle {
    hf__exported exported;
    int64_t lease_ms;
    char name[HF_NAME_MAX + 1];
    size_t length;
} parsed_handle;

/* ---- The handle text ---- */

static bool is_plain_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-_.", c));
}

static void encode_name(char to[ENCODED_MAX], const char *name, size_t length) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (is_plain_char(name[i])) {
            *to++ = name[i];
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    *to = '\0';
}

static int parse_hex_digit(char c) {
    const char *hex = "0123456789ABCDEF", *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

static bool decode_name(parsed_handle *t, const char *text) {
    for (t->length = 0; *text; text++) {
        int c = (unsigned char)*text;
        if (c == '%') {
            int high = parse_hex_digit(text[1]), low = high < 0 ? -1 : parse_hex_digit(text[2]);
            if (low < 0) return false;
            c = high << 4 | low;
            text += 2;
        } else if (!is_plain_char(*text)) {
            return false;
        }
        if (!c || t->length == HF_NAME_MAX) return false;
        t->name[t->length++] = (char)c;
    }
    t->name[t->length] = '\0';
    return t->length > 0;
}

static bool read_number(const char **at, uint64_t *number) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    if (errno || *end != ':') return false;
    *at = end + 1;
    return true;
}

static bool parse_handle(parsed_handle *t, const char *text) {
    uint64_t lease;
    if (!text || strncmp(text, START, strlen(START)) != 0) return false;
    text += strlen(START);
    if (strcspn(text, ":") != HF__UUID_LENGTH) return false;
    if (strspn(text, "0123456789abcdef-") != HF__UUID_LENGTH) return false;
    memcpy(t->exported.client, text, HF__UUID_LENGTH);
    t->exported.client[HF__UUID_LENGTH] = '\0';
    text += HF__UUID_LENGTH + 1;
    if (!read_number(&text, &t->exported.token) || !read_number(&text, &lease)) return false;
    t->lease_ms = (int64_t)lease;
    bool good = t->exported.token && t->exported.token <= INT64_MAX && lease >= HF_LEASE_MIN_MS &&
                lease <= HF_LEASE_MAX_MS;
    return good && decode_name(t, text);
}

static hf_result parse_or_fail(parsed_handle *t, const char *text) {
    if (parse_handle(t, text)) return HF_OK;
    return hf__fail(HF_INVALID, "this is not a handle that hf_export has written");
}

static hf_result check_store(const hf_client *c) {
    if (c->store->can_export) return HF_OK;
    return hf__fail(HF_UNSUPPORTED, "in this store a hold ends with its process, and cannot be "
                                    "exported; Redis can export holds");
}

/* ---- Exporting ---- */

static hf_result check_export(const hf_client *c, const hf_hold *hold) {
    const hf__holding holding = hf__handle_holding(&hold->handle);
    hf_result r = check_store(c);
    if (r) return r;
    if (hold->bundle || holding.kind != HF_MUTEX)
        return hf__fail(HF_UNSUPPORTED,
                        "only a hold of one name, of kind HF_MUTEX, can be exported");
    if (hf__handle_released(&hold->handle)) return hf__fail(HF_NOT_HELD, "the hold was released");
    if (holding.name && holding.count > 1)
        return hf__fail(HF_INVALID,
                        "its owner has acquired it %u times; release the other holds first",
                        holding.count);
    return HF_OK;
}

/* Publish who exported it, for inspection. If that fails, inspection shows less. */
static void register_exported(hf_client *c, const hf__exported *exported, int64_t lease_ms) {
    hf__exchange exchange = {.op = {.verb = HF__REGISTER,
                                    .name = "",
                                    .lease_ms = lease_ms + KNOWN_MS,
                                    .exported = exported}};
    (void)hf__exchange_run(c, &exchange, hf__command_until(c, hf__now()));
}

static hf_result export_handle(hf_client *c, hf__handle *handle, const hf__exported *exported) {
    hf__call call = {0};
    hf__time now = hf__now();
    hf__core_export(c->core, handle, exported, &call, now);
    hf__time until = hf__command_until(c, now);
    if (hf__await(c, &call, until, NULL) != HF__DONE) {
        hf__core_export_unwait(c->core, handle, &call);
        hf__run_once(c, NULL);
    }
    hf_result r = hf__call_result(&call);
    if (r != HF_UNKNOWN_OUTCOME) return r;
    return hf__fail(r, "the store did not answer whether the hold was exported; if it was, it is "
                       "lost here, and expires with its lease");
}

static hf_result export_held(hf_client *c, hf_hold *hold, char *text) {
    const hf__holding holding = hf__handle_holding(&hold->handle);
    char name[ENCODED_MAX] = "";
    hf__exported exported = {.token = holding.token};
    hf__uuid_make(exported.client);
    if (holding.name) encode_name(name, holding.name, holding.name_length);
    hf_result r = export_handle(c, &hold->handle, &exported);
    if (!r) register_exported(c, &exported, holding.lease_ms);
    if (!r)
        (void)snprintf(text, HF_EXPORT_MAX, START "%s:%" PRIu64 ":%" PRId64 ":%s", exported.client,
                       exported.token, holding.lease_ms, name);
    return r;
}

hf_result hf_export(hf_hold *hold, char *text, size_t size) {
    if (!hold || !text || size < HF_EXPORT_MAX)
        return hf__fail(HF_INVALID, "hf_export needs a hold, and a buffer of %d bytes",
                        HF_EXPORT_MAX);
    text[0] = '\0';
    hf_result r = hf__hold_call_begin(hold);
    if (r) return r;
    hf_client *c = hold->client;
    r = check_export(c, hold);
    if (!r) r = export_held(c, hold, text);
    if (!r) hf__callback_await(c, &hold->in_on_lost);
    hf__call_end(c);
    if (!r) hf_unref(hold);
    return r;
}

/* ---- Adopting ---- */

static hf_result check_adopt_options(const hf_options *o) {
    if (!o->wait_ms && !o->owner && !o->cancel && !o->kind && !o->permits && !o->capacity)
        return HF_OK;
    return hf__fail(HF_INVALID,
                    "hf_adopt supports only lease_ms, max_hold_ms, on_lost, arg and flags");
}

static hf_result explain_lost_export(hf_result r) {
    if (r != HF_LOST) return r;
    return hf__fail(r, "the exported hold no longer exists: it was released, broken or adopted "
                       "before, or its lease expired");
}

hf_result hf_adopt_v(hf_client *c, const char *text, const hf_options *options, size_t size,
                     hf_hold **hold) {
    hf_options o;
    parsed_handle t = {.lease_ms = 0};
    if (!hold) return hf__fail(HF_INVALID, "hf_adopt needs a pointer for the hold");
    *hold = NULL;
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, size);
    if (!r) r = check_adopt_options(&o);
    if (!r) r = parse_or_fail(&t, text);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    if (!o.lease_ms) o.lease_ms = t.lease_ms;
    r = check_store(c);
    if (!r) r = hf__acquire(c, t.name, t.length, &o, &t.exported, hold);
    hf__call_end(c);
    return explain_lost_export(r);
}

hf_result hf_extend_exported(hf_client *c, const char *text, int64_t lease_ms) {
    parsed_handle t = {.lease_ms = 0};
    hf_result r = parse_or_fail(&t, text);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    hf__exchange exchange = {.op = {.verb = HF__EXTEND_EXPORTED,
                                    .name = t.name,
                                    .name_length = t.length,
                                    .lease_ms = lease_ms ? lease_ms : t.lease_ms,
                                    .exported = &t.exported}};
    r = check_store(c);
    if (!r) r = hf__lease_check(exchange.op.lease_ms);
    if (!r) r = hf__lease_fits(c, exchange.op.lease_ms, &(int64_t){0}, NULL);
    if (!r) r = hf__exchange_run(c, &exchange, hf__command_until(c, hf__now()));
    hf__call_end(c);
    if (r == HF_TIMEOUT)
        return hf__fail(HF_UNREACHABLE,
                        "the request reached the store too late, and was not executed; try again");
    if (r == HF_UNREACHABLE && exchange.op.outcome_unknown)
        return hf__fail(HF_UNKNOWN_OUTCOME, "the store did not confirm the extension; try again");
    return explain_lost_export(r);
}
