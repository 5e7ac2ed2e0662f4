/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file store over arbitrary files: two clients use locks, latches and leaders. Meanwhile their
 * files are changed, cut, forged with correct checksums, or replaced by directories and the like.
 *
 * Every call ends with HF_OK, or with one line that says what is wrong. Two clients never hold a
 * lock at once, unless the file under it was forged or removed.
 *
 * The input is a sequence of steps: a letter and its arguments. See do_step.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_time.h"
#include "holdfast.h"
#include "store/file/lockfile.h"
#include "store/file/sidecar.h"
#include "store/file/slot_table.h"

enum { STEPS_MAX = 40, HOLDS_MAX = 8, WAIT_MS = 300, CALL_MS = 20000 };

static const char *const files[] = {"lock.hf.n", "gate.hf.n", "lead.hf.n", "swept", "lock.hf.m"};

typedef struct file_hold {
    hf_hold *hold;
    int client;
    uint32_t kind;
} file_hold;

static struct {
    char path[64], url[128];
    int fd;
    hf_client *client[2];
    file_hold holds[HOLDS_MAX];
    bool forged; /* the file with the store's record of the holder was forged or removed */
} f;

/* ---- The directory ---- */

static void remove_directory(void) {
    rmdir(f.path);
}

static void make_directory(void) {
    const char *base = getenv("TMPDIR");
    if (f.path[0]) return;
    snprintf(f.path, sizeof f.path, "%.40s/hf-fuzz-XXXXXX", base && *base ? base : "/tmp");
    FUZZ_CHECK(mkdtemp(f.path));
    snprintf(f.url, sizeof f.url, "file://%s?keep=1ms", f.path);
    f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(f.fd >= 0);
    atexit(remove_directory);
}

static void empty_directory(void) {
    DIR *dir = opendir(f.path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (unlinkat(f.fd, e->d_name, 0) != 0) (void)unlinkat(f.fd, e->d_name, AT_REMOVEDIR);
    }
    if (dir) closedir(dir);
}

/* ---- Damage ---- */

static int open_file(input *in, int flags) {
    const char *name = files[input_byte(in) % (sizeof files / sizeof *files)];
    return openat(f.fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

static size_t read_number(input *in) {
    size_t high = input_byte(in);
    return high << 8 | input_byte(in);
}

static void patch_file(input *in) {
    int fd = open_file(in, O_RDWR | O_CREAT);
    size_t at = read_number(in) % 16384, length = input_byte(in);
    const uint8_t *bytes = input_bytes(in, &length);
    if (fd >= 0 && length) (void)!pwrite(fd, bytes, length, (off_t)at);
    if (fd >= 0) close(fd);
}

static void cut_file(input *in) {
    int fd = open_file(in, O_RDWR | O_CREAT);
    if (fd >= 0) (void)!ftruncate(fd, (off_t)(read_number(in) % 16384));
    if (fd >= 0) close(fd);
}

/* Over zeros, or over the present content. */
static void overlay_bytes(input *in, void *to, size_t size) {
    size_t at = read_number(in) % size, length = input_byte(in);
    const uint8_t *bytes = input_bytes(in, &length);
    if (length > size - at) length = size - at;
    if (length) memcpy((char *)to + at, bytes, length);
}

/* With correct checksums, as if this library had written it. */
static void forge_file(input *in) {
    hf__head head;
    hf__slot slot = {0};
    uint8_t what = input_byte(in), index = input_byte(in);
    int fd = openat(f.fd, files[0], O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;
    f.forged = true;
    memset(&head, 0, sizeof head);
    (void)!pread(fd, &head, sizeof head, 0);
    if (what % 3 == 0) {
        overlay_bytes(in, &head.record, sizeof head.record);
        (void)hf__lockfile_write_record(fd, &head.record);
    } else if (what % 3 == 1) {
        overlay_bytes(in, &head.kinds, sizeof head.kinds);
        (void)hf__lockfile_write_kinds(fd, &head);
    } else {
        (void)hf__slot_read(fd, index, &slot);
        overlay_bytes(in, &slot, sizeof slot);
        (void)hf__slot_write(fd, index, &slot, true);
    }
    close(fd);
}

static void forge_sidecar(input *in) {
    static const char key[] = "hf\0n";
    hf__sidecar s;
    char *detail = NULL, body[HF__SIDECAR_BODY_MAX] = {0};
    const char *start = input_byte(in) & 1 ? HF__LATCH_START : HF__LEAD_START;
    size_t length = read_number(in) % HF__SIDECAR_BODY_MAX, given = input_byte(in);
    const uint8_t *bytes = input_bytes(in, &given);
    if (given) memcpy(body, bytes, given);
    hf__sidecar_init(&s, f.fd, f.path, start, key, sizeof key - 1);
    if (hf__sidecar_lock(&s, true, &detail) == HF_OK)
        (void)hf__sidecar_write(&s, body, length, &detail);
    hf__sidecar_close(&s);
    free(detail);
}

static void replace_file(input *in) {
    const char *name = files[input_byte(in) % (sizeof files / sizeof *files)];
    if (unlinkat(f.fd, name, 0) != 0) (void)unlinkat(f.fd, name, AT_REMOVEDIR);
    f.forged = true;
    switch (input_byte(in) % 4) {
    case 1: (void)!mkfifoat(f.fd, name, 0600); break;
    case 2: (void)!symlinkat("nowhere", f.fd, name); break;
    case 3: (void)!mkdirat(f.fd, name, 0700); break;
    default: break;
    }
}

/* ---- Calls ---- */

static void check_result(hf_result r) {
    FUZZ_CHECK(r >= HF_OK && r <= HF_NO_QUORUM && r != HF_FORKED);
    if (r) FUZZ_CHECK(*hf_error_detail() && !strchr(hf_error_detail(), '\n'));
}

static bool is_exclusive(uint32_t kind) {
    return kind == HF_MUTEX || kind == HF_WRITE;
}

static void check_holds(void) {
    for (int i = 0; i < HOLDS_MAX; i++) {
        const file_hold *a = &f.holds[i];
        for (int k = 0; k < i && a->hold && !f.forged; k++) {
            const file_hold *b = &f.holds[k];
            if (!b->hold || a->client == b->client ||
                (!is_exclusive(a->kind) && !is_exclusive(b->kind)))
                continue;
            FUZZ_CHECK(!hf_held(a->hold) || !hf_held(b->hold));
        }
    }
}

static void release_hold(file_hold *h) {
    if (h->hold) check_result(hf_release(h->hold));
    h->hold = NULL;
}

static void acquire_lock(input *in, int who, int64_t wait_ms) {
    file_hold *h = &f.holds[input_byte(in) % HOLDS_MAX];
    release_hold(h);
    *h = (file_hold){.client = who, .kind = input_byte(in) % 5};
    hf_options options = {.wait_ms = wait_ms, .kind = h->kind, .owner = 1 + (uint64_t)who};
    if (h->kind == HF_PERMITS) options.capacity = 2;
    hf_result r = hf_acquire(f.client[who], "n", &options, &h->hold);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (h->hold != NULL));
}

static void inspect_lock(int who) {
    hf_info *info = NULL;
    hf_result r = hf_inspect(f.client[who], "n", &info);
    check_result(r);
    FUZZ_CHECK((r == HF_OK) == (info != NULL));
    if (info) {
        FUZZ_CHECK(info->client && info->owner && info->host && info->program && info->label);
        for (uint32_t i = 0; i < info->waiting && i < 64; i++)
            FUZZ_CHECK(info->waiters[i].client && strlen(info->waiters[i].program) < 1024);
    }
    hf_info_free(info);
}

static int32_t note_name(const char *name, const hf_info *info, void *arg) {
    FUZZ_CHECK(*name && strlen(name) <= HF_NAME_MAX && info->client);
    return ++*(int *)arg > 100;
}

static void use_latch(input *in, int who) {
    uint32_t left = 0, by = 1 + input_byte(in);
    switch (input_byte(in) % 4) {
    case 0: check_result(hf_latch_set(f.client[who], "n", by)); break;
    case 1: check_result(hf_latch_count_down(f.client[who], "n", by, &left)); break;
    case 2:
        check_result(hf_latch_wait(f.client[who], "n", &(hf_options){.wait_ms = WAIT_MS}));
        break;
    default: check_result(hf_latch_left(f.client[who], "n", &left)); break;
    }
}

static void use_leader(input *in, int who) {
    hf_leader_info *info = NULL;
    file_hold *h = &f.holds[input_byte(in) % HOLDS_MAX];
    if (input_byte(in) & 1) {
        release_hold(h);
        *h = (file_hold){.client = who, .kind = HF_MUTEX};
        check_result(hf_campaign(f.client[who], "n", "here", 4, NULL, &h->hold));
    }
    hf_result r = hf_leader(f.client[who], "n", &info);
    check_result(r);
    if (info) FUZZ_CHECK(info->value && info->value_length <= HF_VALUE_MAX && info->client);
    hf_leader_free(info);
}

static void reopen_client(int who) {
    for (int i = 0; i < HOLDS_MAX; i++)
        if (f.holds[i].hold && f.holds[i].client == who) release_hold(&f.holds[i]);
    hf_close(f.client[who]); /* which also sweeps the directory */
    hf_result r = hf_open(f.url, &(hf_client_options){.flags = HF_NO_THREAD}, &f.client[who]);
    FUZZ_CHECK(r == HF_OK);
}

static void run_client(int who, int64_t ms) {
    fake_time_pass_ms(ms);
    for (int i = 0; i < 4; i++) check_result(hf_dispatch(f.client[who]));
}

/* ---- Steps ---- */

static void change_kind(file_hold *h, uint32_t kind, hf_result r) {
    check_result(r);
    if (!r) h->kind = kind;
}

static void on_hold(input *in, uint8_t letter, int who) {
    file_hold *h = &f.holds[input_byte(in) % HOLDS_MAX];
    if (!h->hold) return;
    if (letter == 'r') release_hold(h);
    if (letter == 'x') check_result(hf_extend(h->hold, 60000));
    if (letter == 'u') change_kind(h, HF_WRITE, hf_upgrade(h->hold, WAIT_MS));
    if (letter == 'v') change_kind(h, HF_READ, hf_downgrade(h->hold));
    if (letter == 'p') check_result(hf_proclaim(h->hold, "x", 1));
    (void)who;
}

/* Capital letters damage files. Small letters make calls; the high bit selects the second
   client. */
static void do_step(input *in) {
    uint8_t step = input_byte(in), letter = step & 0x7f;
    int who = step >> 7, listed = 0;
    int64_t began = fake_time_now_ms();
    fake_time_call_begins();
    switch (letter) {
    case 'P': patch_file(in); break;
    case 'T': cut_file(in); break;
    case 'F': forge_file(in); break;
    case 'B': forge_sidecar(in); break;
    case 'O': replace_file(in); break;
    case 'a': acquire_lock(in, who, 0); break;
    case 'w': acquire_lock(in, who, WAIT_MS); break;
    case 'i': inspect_lock(who); break;
    case 'l': check_result(hf_list(f.client[who], NULL, note_name, &listed)); break;
    case 'k': check_result(hf_break(f.client[who], "n", input_byte(in))); break;
    case 'g': use_latch(in, who); break;
    case 'd': use_leader(in, who); break;
    case 'c': reopen_client(who); break;
    case 't': run_client(who, 100 * (int64_t)input_byte(in)); return;
    default: on_hold(in, letter, who); break;
    }
    FUZZ_CHECK(fake_time_now_ms() - began < CALL_MS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    fake_time_begin();
    make_directory();
    f.forged = false;
    for (int i = 0; i < 2; i++)
        FUZZ_CHECK(hf_open(f.url, &(hf_client_options){.flags = HF_NO_THREAD}, &f.client[i]) ==
                   HF_OK);
    for (int i = 0; i < STEPS_MAX && in.left; i++) {
        do_step(&in);
        check_holds();
    }
    for (int i = 0; i < HOLDS_MAX; i++) release_hold(&f.holds[i]);
    for (int i = 0; i < 2; i++) hf_close(f.client[i]);
    empty_directory();
    return 0;
}
