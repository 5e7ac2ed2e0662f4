/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everyone who can look at the lock sees the label, on any machine. So the label is the program and
 * at most one plain word. It ends before the first option, assignment, address or other word that
 * may contain a secret.
 */
#include "run/command_label.h"

#include <string.h>

#define WORDS 2

static bool is_plain_word(const char *word, size_t length) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./+,";
    return length && *word != '-' && strspn(word, plain) >= length;
}

/* Adds a word. False if it does not fit or must not be shown. */
static bool add_word(char label[LABEL_TEXT], const char *word, size_t length) {
    size_t used = strlen(label);
    if (!is_plain_word(word, length) || used + 1 + length >= LABEL_TEXT) return false;
    if (used) label[used++] = ' ';
    memcpy(label + used, word, length);
    label[used + length] = '\0';
    return true;
}

void label_from_command(char label[LABEL_TEXT], char *const *command) {
    label[0] = '\0';
    for (int i = 0; i < WORDS && command[i]; i++)
        if (!add_word(label, command[i], strlen(command[i]))) return;
}

void label_from_shell(char label[LABEL_TEXT], const char *line) {
    static const char blank[] = " \t", end[] = " \t\n;|&<>()";
    label[0] = '\0';
    for (int i = 0; i < WORDS; i++) {
        line += strspn(line, blank);
        size_t length = strcspn(line, end);
        if (!add_word(label, line, length)) return;
        line += length;
        if (*line && !strchr(blank, *line)) return;
    }
}
