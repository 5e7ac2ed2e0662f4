/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_TARGET [FILE|DIRECTORY...]: run the target on every file; by default on the files of its
 * corpus. Each file has an allocation of its exact size, so that a sanitizer sees a read past its
 * end. If the process ends in the middle, the name of the current file is printed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { INPUT_MAX = 1 << 20, HANG_S = 20 };

static const char *current = "";
static unsigned replayed;

static void print_current(const char *what) {
    (void)!write(STDERR_FILENO, what, strlen(what));
    (void)!write(STDERR_FILENO, current, strlen(current));
    (void)!write(STDERR_FILENO, "\n", 1);
}

static void on_end(int number) {
    print_current(number == SIGALRM ? "replay: no end to " : "replay: ended by ");
    signal(number, SIG_DFL);
    raise(number);
}

static void replay_file(const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > INPUT_MAX) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(1);
    }
    size_t size = (size_t)st.st_size;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes || read(fd, bytes, size) != (ssize_t)size) abort();
    close(fd);
    current = path;
    alarm(HANG_S);
    (void)LLVMFuzzerTestOneInput(bytes, size);
    alarm(0);
    free(bytes);
    replayed++;
}

static void replay_directory(const char *path) {
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length < (int)sizeof file) replay_file(file);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    struct stat st;
    static const int ends[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) signal(ends[i], on_end);
    if (argc == 1) replay_directory(FUZZ_CORPUS);
    for (int i = 1; i < argc; i++) {
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            replay_directory(argv[i]);
        else
            replay_file(argv[i]);
    }
    if (replayed) printf("[  PASSED  ] %u tests, an input each\n", replayed);
    return replayed ? 0 : 1;
}
