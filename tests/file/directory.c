/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of the locks. It is created if missing. It is refused if others can write there, if
 * it is not a directory, if it belongs to another user, or if it is on a shared filesystem.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/file/directory.h"

/* ---- Pretended values ------------------------------------------------------------------------ */

static uid_t pretend_user; /* 0: the real one */
static long pretend_type;  /* of the filesystem; 0: the real one, -1: unknown */

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void) {
    return pretend_user ? pretend_user : __real_geteuid();
}

#define WRAP_FSTATFS(name, type)                     \
    int __real_##name(int fd, type *fs);             \
    int __wrap_##name(int fd, type *fs);             \
    int __wrap_##name(int fd, type *fs) {            \
        int rc = __real_##name(fd, fs);              \
        if (pretend_type == -1) {                    \
            errno = EIO;                             \
            return -1;                               \
        }                                            \
        if (pretend_type) fs->f_type = pretend_type; \
        return rc;                                   \
    }

WRAP_FSTATFS(fstatfs, struct statfs)
WRAP_FSTATFS(fstatfs64, struct statfs64)

static int pretend_nothing(void **state) {
    pretend_user = 0;
    pretend_type = 0;
    return test_dir_tear_down(state);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static const char *url_of(const char *path, const char *options) {
    static char url[PATH_SIZE];
    snprintf(url, sizeof url, "file://%s%s", path, options);
    return url;
}

static void check_opens(const char *url) {
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_open(url, NULL, &client));
    T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static void check_refuses(hf_result expected, const char *url, const char *part) {
    hf_client *client = (hf_client *)(uintptr_t)1;
    T_HF(expected, hf_open(url, NULL, &client));
    assert_null(client);
    check_detail(hf_error_detail(), part);
}

static void make_dir(const char *path, mode_t mode) {
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* ---- Created --------------------------------------------------------------------------------- */

static void F50_a_missing_directory_is_made_for_its_user_alone(void **state) {
    test_dir *p = *state;
    const char *path = path_of(p, "made");
    struct stat st;
    mode_t before = umask(0);
    check_opens(url_of(path, ""));
    (void)umask(before);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(st.st_uid, __real_geteuid());
    assert_int_equal(stat(path_of(p, "made/lock.hf." LOCK), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    check_opens(url_of(path, ""));
    check_opens(url_of(path, "/"));
}

static void F50_a_directory_whose_parent_is_missing_is_not_made(void **state) {
    test_dir *p = *state;
    const char *path = path_of(p, "no/made");
    check_refuses(HF_UNREACHABLE, url_of(path, ""), path);
    assert_int_equal(access(path_of(p, "no"), F_OK), -1);
}

static void F50_a_path_may_have_any_bytes(void **state) {
    test_dir *p = *state;
    check_opens(url_of(path_of(p, "a%20b%25c%3Fd"), ""));
    assert_int_equal(access(path_of(p, "a b%c?d"), F_OK), 0);
}

static void F50_a_path_that_is_too_long_is_refused(void **state) {
    static char url[4090];
    test_dir *p = *state;
    int used = snprintf(url, sizeof url, "%s/", p->url);
    memset(url + used, 'x', 300);
    hf_client *client = NULL;
    hf_result r = hf_open(url, NULL, &client);
    assert_true(r == HF_UNREACHABLE || r == HF_REFUSED);
    check_detail(hf_error_detail(), "too long");
}

/* ---- Owners and permissions ------------------------------------------------------------------ */

static void F27_a_directory_that_others_may_write_is_refused(void **state) {
    static const mode_t bad[] = {0777, 0775, 0770, 0722, 0702, 01777, 02775};
    static const mode_t good[] = {0700, 0755, 0711, 0750, 02755};
    test_dir *p = *state;
    const char *path = path_of(p, "d");
    make_dir(path, 0700);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chmod(path, bad[i]), 0);
        check_refuses(HF_REFUSED, url_of(path, ""), "may be written by others");
        check_detail(hf_error_detail(), "yours alone");
        check_detail(hf_error_detail(), path);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(chmod(path, good[i]), 0);
        check_opens(url_of(path, ""));
    }
}

/* Others could move it away from a holder, and the next process would create a new one. */
static void F27_a_directory_whose_parent_everybody_may_write_is_refused(void **state) {
    test_dir *p = *state;
    const char *above = path_of(p, "above"), *path = path_of(p, "above/d");
    make_dir(above, 0777);
    check_refuses(HF_REFUSED, url_of(path, ""), "move it away");
    check_detail(hf_error_detail(), path);
    assert_int_equal(chmod(above, 01777), 0);
    check_opens(url_of(path, ""));
    assert_int_equal(chmod(above, 0775), 0);
    check_opens(url_of(path, ""));
}

static void F27_a_directory_of_another_user_is_refused(void **state) {
    test_dir *p = *state;
    pretend_user = __real_geteuid() + 1;
    check_refuses(HF_REFUSED, p->url, "belongs to user");
    check_detail(hf_error_detail(), p->directory);
    pretend_user = 0;
    check_opens(p->url);
    if (__real_geteuid() != 0) return;
    assert_int_equal(chown(p->directory, 12345, 12345), 0);
    check_refuses(HF_REFUSED, p->url, "belongs to user 12345");
    assert_int_equal(chown(p->directory, 0, 0), 0);
}

/* Each user has a default directory of its own. It is checked like any other. */
static void F27_the_default_directory_is_checked_too(void **state) {
    enum { NOBODY_ELSE = 2000000011 };
    (void)state;
    pretend_user = NOBODY_ELSE;
    hf_client *client = NULL;
    hf_result r = hf_open("file:", NULL, &client);
    pretend_user = 0;
    (void)rmdir("/run/lock/holdfast-2000000011");
    assert_int_equal(r, HF_REFUSED);
    check_detail(hf_error_detail(), "holdfast-2000000011 belongs to user");
}

/* ---- The default directory ------------------------------------------------------------------- */

enum { USER = 12346, SQUATTER = 12347 };
#define DEFAULT "/run/lock/holdfast-12346"

/* One process of the user: its result with the default store, and the message it got. */
typedef struct default_user {
    void (*mounts)(void); /* changes its view of the filesystem; NULL: no change */
    hf_result opened, taken;
    char said[512];
    atomic_bool done, may_end;
} default_user;

static void become_user(uid_t user) {
    assert_int_equal(setresgid(user, user, user), 0);
    assert_int_equal(setresuid(user, user, user), 0);
}

/* Keeps its hold, if it has one, until the test lets it end. */
static int use_default(void *arg) {
    default_user *it = arg;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    if (it->mounts) own_mounts();
    if (it->mounts) it->mounts();
    become_user(USER);
    it->opened = it->taken = hf_open("file:", NULL, &client);
    if (!it->opened) it->taken = hf_try_lock(client, LOCK, &hold);
    snprintf(it->said, sizeof it->said, "%s", it->taken ? hf_error_detail() : "");
    atomic_store(&it->done, true);
    UNTIL(atomic_load(&it->may_end));
    hf_unref(hold);
    hf_close(client);
    return 0;
}

static t_proc *start_default(default_user *it) {
    t_proc *proc = t_proc_start(use_default, it);
    UNTIL(atomic_load(&it->done));
    return proc;
}

static void end_default(default_user *it, t_proc *proc) {
    atomic_store(&it->may_end, true);
    assert_int_equal(t_proc_wait(proc, SOON_MS), 0);
}

static void use_default_once(default_user *it) {
    end_default(it, start_default(it));
}

/* Fresh mounts at the two default directories of version 0.1, to hide the files of other programs
   on this machine. */
static void fresh_directories(void) {
    own_mounts();
    mount_tmpfs("/run/lock", "mode=1777,size=1m");
    mount_tmpfs("/var/tmp", "mode=1777,size=1m");
}

/* As ProtectSystem=strict of systemd does. */
static void locks_read_only(void) {
    assert_int_equal(mount(NULL, "/run/lock", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
}

static void locks_hidden(void) {
    mount_tmpfs("/run", "mode=0755,size=1m");
}

/* There are never two holders, whichever process comes first and whatever the other one sees. */
static int check_no_two_holders(void *arg) {
    static void (*const views[])(void) = {locks_read_only, locks_hidden};
    (void)arg;
    for (int i = 0; i < 4; i++) {
        default_user *confined = t_shared_new(sizeof *confined),
                     *free_one = t_shared_new(sizeof *free_one);
        confined->mounts = views[i / 2];
        default_user *first = i % 2 ? confined : free_one, *second = i % 2 ? free_one : confined;
        t_proc *a = start_default(first), *b = start_default(second);
        assert_int_equal(free_one->taken, HF_OK);
        if (confined->taken != HF_REFUSED)
            t_fail("view %d: there is a second holder: %s", i / 2, hf_result_name(confined->taken));
        check_detail(confined->said, DEFAULT);
        end_default(second, b);
        end_default(first, a);
        t_shared_free(confined, sizeof *confined);
        t_shared_free(free_one, sizeof *free_one);
        remove_tree(DEFAULT); /* each round decides the location anew */
        remove_tree("/var/tmp/holdfast-12346");
    }
    return 0;
}

static int check_no_two_holders_in_fresh_directories(void *arg) {
    fresh_directories();
    return check_no_two_holders(arg);
}

static void B13_processes_of_a_user_share_one_default_directory(void **state) {
    (void)state;
    needs_mounts();
    assert_int_equal(
        t_proc_wait(t_proc_start(check_no_two_holders_in_fresh_directories, NULL), 2 * SOON_MS), 0);
}

/* The message says why, and what to do. */
static void check_advice(const default_user *it, const char *why) {
    assert_int_equal(it->opened, HF_REFUSED);
    check_detail(it->said, DEFAULT);
    check_detail(it->said, why);
    check_detail(it->said, "HOLDFAST_URL=file:///");
    check_detail(it->said, "-S");
    assert_int_equal(access("/var/tmp/holdfast-12346", F_OK), -1);
}

/* The directory exists and was in use before. */
static void refuse_where_it_became_read_only(default_user *it) {
    use_default_once(it);
    T_HF(HF_OK, it->taken);
    it->mounts = locks_read_only;
    use_default_once(it);
    check_advice(it, "read-only");
    it->mounts = NULL;
    remove_tree(DEFAULT);
}

static int refuse_in_fresh_directories(void *arg) {
    default_user *it = arg;
    fresh_directories();
    refuse_where_it_became_read_only(it);
    assert_int_equal(chmod("/run/lock", 0755), 0); /* as on Fedora: only root may write */
    use_default_once(it);
    check_advice(it, "Permission denied");
    it->mounts = locks_read_only;
    use_default_once(it);
    check_advice(it, "Read-only");
    it->mounts = locks_hidden;
    use_default_once(it);
    check_advice(it, "missing");
    return 0;
}

static void F27_a_default_directory_that_cannot_be_made_is_refused(void **state) {
    (void)state;
    needs_mounts();
    default_user *it = t_shared_new(sizeof *it);
    assert_int_equal(t_proc_wait(t_proc_start(refuse_in_fresh_directories, it), SOON_MS), 0);
    t_shared_free(it, sizeof *it);
}

/* Any user can create it first, in any form. The administrator can create it for the user. */
static int squat_in_fresh_directories(void *arg) {
    default_user *it = arg;
    fresh_directories();
    for (int i = 0; i < 2; i++) {
        make_dir(DEFAULT, i ? 0700 : 0755);
        assert_int_equal(chown(DEFAULT, SQUATTER, SQUATTER), 0);
        use_default_once(it);
        check_advice(it, "belongs to user 12347");
        assert_int_equal(rmdir(DEFAULT), 0);
    }
    assert_int_equal(symlink("/var/tmp", DEFAULT), 0);
    assert_int_equal(lchown(DEFAULT, SQUATTER, SQUATTER), 0);
    use_default_once(it);
    check_advice(it, "link");
    assert_int_equal(unlink(DEFAULT), 0);
    assert_int_equal(chmod("/run/lock", 0755), 0);
    make_dir(DEFAULT, 0700);
    assert_int_equal(chown(DEFAULT, USER, USER), 0);
    use_default_once(it);
    T_HF(HF_OK, it->taken);
    return 0;
}

static void F27_a_default_directory_that_another_user_made_is_refused(void **state) {
    (void)state;
    needs_mounts();
    default_user *it = t_shared_new(sizeof *it);
    assert_int_equal(t_proc_wait(t_proc_start(squat_in_fresh_directories, it), SOON_MS), 0);
    t_shared_free(it, sizeof *it);
}

/* ---- Kinds of file --------------------------------------------------------------------------- */

static void F28_a_path_that_is_not_a_directory_is_refused(void **state) {
    test_dir *p = *state;
    const char *path = path_of(p, "d"), *other = path_of(p, "other");
    make_dir(other, 0700);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    check_refuses(HF_REFUSED, url_of(path, ""), "not a directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_refuses(HF_REFUSED, url_of(path, ""), "not a directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("other", path), 0);
    check_refuses(HF_REFUSED, url_of(path, ""), "a link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    check_refuses(HF_REFUSED, url_of(path, ""), "a link");
    assert_int_equal(access(path_of(p, "nowhere"), F_OK), -1);
}

/* A trailing slash makes the kernel follow the link. */
static void F28_a_link_with_a_trailing_slash_is_refused(void **state) {
    static const char *const ends[] = {"/", "//"};
    test_dir *p = *state;
    make_dir(path_of(p, "other"), 0700);
    assert_int_equal(symlink("other", path_of(p, "d")), 0);
    for (int i = 0; i < 2; i++) check_refuses(HF_REFUSED, url_of(path_of(p, "d"), ends[i]), "link");
}

static void F49_a_url_without_a_path_from_the_root_is_refused(void **state) {
    (void)state;
    check_refuses(HF_INVALID, "file:here", "three slashes");
    check_refuses(HF_INVALID, "file://host/path", "three slashes");
    check_refuses(HF_INVALID, "file:///tmp?outage=1s", "unknown option");
    check_refuses(HF_INVALID, "file:///tmp?network=yes", "allow");
    check_refuses(HF_INVALID, "file:///tmp?keep=0s", "keep");
}

/* ---- Filesystems ----------------------------------------------------------------------------- */

static const struct {
    long type;
    const char *name; /* NULL: local to this machine */
} filesystems[] = {
    {0x6969, "NFS"},        {0x517B, "SMB"},      {0xFF534D42, "CIFS"},  {0xFE534D42, "SMB"},
    {0x01021997, "9P"},     {0x00C36400, "Ceph"}, {0x65735546, "FUSE"},  {0x5346414F, "AFS"},
    {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x7461636F, "OCFS2"}, {0x01161970, "GFS2"},
    {0xEF53, NULL},         {0x01021994, NULL},   {0x58465342, NULL},    {0x9123683E, NULL},
    {0x794C7630, NULL},     {0x2FC12FC1, NULL},   {0xF2F52010, NULL},    {0x858458F6, NULL},
};

enum { FILESYSTEMS = sizeof filesystems / sizeof *filesystems };

static void F31_shared_filesystems_are_known_by_name(void **state) {
    (void)state;
    for (int i = 0; i < FILESYSTEMS; i++) {
        const char *name = hf__filesystem_shared(filesystems[i].type);
        if (filesystems[i].name)
            assert_string_equal(name, filesystems[i].name);
        else
            assert_null(name);
        /* as a 32-bit machine represents it */
        assert_ptr_equal(hf__filesystem_shared((int32_t)filesystems[i].type), name);
    }
}

static void F31_a_shared_filesystem_is_refused_unless_it_is_allowed(void **state) {
    test_dir *p = *state;
    for (int i = 0; i < FILESYSTEMS; i++) {
        pretend_type = filesystems[i].type;
        if (filesystems[i].name) {
            check_refuses(HF_REFUSED, p->url, filesystems[i].name);
            check_detail(hf_error_detail(), p->directory);
            check_detail(hf_error_detail(), "redis://");
            check_detail(hf_error_detail(), "network=allow");
        } else {
            check_opens(p->url);
        }
        check_opens(url_with(p, "network=allow"));
    }
}

static void F31_an_unknown_filesystem_is_refused(void **state) {
    test_dir *p = *state;
    pretend_type = -1;
    check_refuses(HF_REFUSED, p->url, "which filesystem");
}

/* ---- Not writable ---------------------------------------------------------------------------- */

/* The superuser may write anywhere, so become another user. */
static void become_ordinary(const test_dir *p) {
    if (__real_geteuid() != 0) return;
    assert_int_equal(chown(p->directory, 65534, 65534), 0);
    assert_int_equal(setresuid(65534, 65534, 65534), 0);
}

static int use_unwritable_directories(void *arg) {
    test_dir *p = arg;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_info *info = NULL;
    become_ordinary(p);
    assert_int_equal(chmod(p->directory, 0500), 0);
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    T_HF(HF_REFUSED, hf_try_lock(client, LOCK, &hold));
    check_detail(hf_error_detail(), p->directory);
    check_detail(hf_error_detail(), "Permission denied");
    T_HF(HF_REFUSED, hf_acquire(client, LOCK, &(hf_options){.wait_ms = SOON_MS}, &hold));
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_int_equal(info->held, 0);
    hf_info_free(info);
    hf_close(client);
    assert_int_equal(chmod(p->directory, 0000), 0);
    check_refuses(HF_REFUSED, p->url, "Permission denied");
    assert_int_equal(chmod(p->directory, 0700), 0);
    check_opens(p->url);
    return 0;
}

static void F27_a_directory_that_may_not_be_written_is_refused(void **state) {
    test_dir *p = *state;
    assert_int_equal(t_proc_wait(t_proc_start(use_unwritable_directories, p), SOON_MS), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, test_dir_set_up, pretend_nothing)

static const struct CMUnitTest tests[] = {
    TEST(F50_a_missing_directory_is_made_for_its_user_alone),
    TEST(F50_a_directory_whose_parent_is_missing_is_not_made),
    TEST(F50_a_path_may_have_any_bytes),
    TEST(F50_a_path_that_is_too_long_is_refused),
    TEST(F27_a_directory_that_others_may_write_is_refused),
    TEST(F27_a_directory_whose_parent_everybody_may_write_is_refused),
    TEST(F27_a_directory_of_another_user_is_refused),
    TEST(F27_the_default_directory_is_checked_too),
    TEST(B13_processes_of_a_user_share_one_default_directory),
    TEST(F27_a_default_directory_that_cannot_be_made_is_refused),
    TEST(F27_a_default_directory_that_another_user_made_is_refused),
    TEST(F28_a_path_that_is_not_a_directory_is_refused),
    TEST(F28_a_link_with_a_trailing_slash_is_refused),
    TEST(F49_a_url_without_a_path_from_the_root_is_refused),
    TEST(F31_shared_filesystems_are_known_by_name),
    TEST(F31_a_shared_filesystem_is_refused_unless_it_is_allowed),
    TEST(F31_an_unknown_filesystem_is_refused),
    TEST(F27_a_directory_that_may_not_be_written_is_refused),
};

FILE_MAIN(tests)
