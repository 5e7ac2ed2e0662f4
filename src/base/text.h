/* Copying text into a fixed place: cut if it must be, always terminated, NULL is "". */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

void hf__text_copy(char *to, size_t size, const char *from);

/* The same for text of a stated length, with control characters made spaces. */
void hf__text_tame(char *to, size_t size, const char *from, size_t length);

/* Decimal digits, backwards from `end`; where they begin. Room for HF__DIGITS. */
#define HF__DIGITS 20
static inline char *hf__digits(char *end, uint64_t n) {
    do *--end = (char)('0' + n % 10);
    while (n /= 10);
    return end;
}

#endif
