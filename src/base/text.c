#include "base/text.h"

#include <string.h>

void hf__text_copy(char *to, size_t size, const char *from) {
    size_t length = from ? strnlen(from, size - 1) : 0;
    if (length) memcpy(to, from, length);
    to[length] = '\0';
}

void hf__text_tame(char *to, size_t size, const char *from, size_t length) {
    if (length > size - 1) length = size - 1;
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < ' ' || from[i] == 127 ? ' ' : from[i];
    to[length] = '\0';
}
